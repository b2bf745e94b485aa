/*
 * `sluice check`: is this file one that sluice would start with? Nothing is bound and nothing is
 * started, so an address that is taken only shows when the daemon starts. The permissions of the
 * files that it would write are checked: check.c.
 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

extern const char cli_check_help[];

/*
 * The arguments `[-c FILE] [--dump]` or `--keys`, after one that stands before getopt's messages:
 * `sluice check`. Returns the exit status: 0, 1 when the file has errors, 2 when the command line
 * has.
 */
int cli_check_run(int argc, char **argv);

/*
 * Prints every error of the file to stderr, one a line, and returns 1; or prints its warnings to
 * stderr, to stdout that it is good, with what it holds, and returns 0.
 */
int cli_check(const char *path);

/* The same, but a good file is printed as the configuration in effect, all defaults written out. */
int cli_check_dump(const char *path);

#endif
