/* `sluice run`: loads a configuration, then serves until it is stopped. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

/*
 * The arguments `[-c FILE]`, after one that stands before getopt's messages: `sluice run`. Returns
 * the exit status: 0, 1 when nothing could be started or requests were cut off at the
 * end, 2 when the command line has an error.
 */
int cli_run_run(int argc, char **argv);

/* Serves the configuration in the file at `path`. Returns the exit status: 0 or 1. */
int cli_run(const char *path);

#endif
