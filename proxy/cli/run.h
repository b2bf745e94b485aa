/* `sluice run`, and what it has in common with `sluice protect`: serving until a signal. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>

#include "conf/conf.h"

/* How a command serves. */
struct run {
	/* The command line behind the program's name, at most RUN_ARGUMENTS_MOST words and NULL: an
	 * upgrade starts the program with these. */
	char *const *arguments;
	/* Reads the configuration again, for a reload. NULL with the errors. */
	struct conf *(*load)(const struct run *run, struct conf_errors *errors);
	/* All listen and serve; `is_upgrade`: in place of a process that did before. NULL: nothing
	 * to do. */
	void (*ready)(const struct run *run, bool is_upgrade);
	void *ctx;
};
#define RUN_ARGUMENTS_MOST 16

/* Serves `conf` (the hold passes over). Returns the exit status: 0, or 1 when nothing could be
 * started or requests were cut off at the end. */
int run_serve(const struct run *run, struct conf *conf);

/*
 * The arguments `[-c FILE]`, after one that stands before getopt's messages: `sluice run`. Returns
 * the exit status: that of run_serve, 1 when the file has errors, 2 when the command line has one.
 */
int cli_run_run(int argc, char **argv);

/* ---- load ----------------------------------------------------------------------------------- */

/*
 * The file of `sluice check` and `sluice run`, which take the same `-c FILE`.
 */

#define CLI_DEFAULT_FILE "/etc/sluice/sluice.ini"

/* Reads a configuration. NULL when it has errors, which are then on stderr, one a line. */
struct conf *cli_load(const char *path);

/* Is an argument left behind those that getopt took? Then stderr has the error, with the help. */
bool cli_has_rest(const char *command, int argc, char **argv);

#endif
