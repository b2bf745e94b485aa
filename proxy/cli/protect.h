/*
 * `sluice protect`: serves without a file.
 *
 *   command line --protect_ini.h--> ini --> --print, or served as `sluice run` serves a file
 *
 * A reload applies the command line again, and so does the process that an upgrade starts.
 */
#ifndef CLI_PROTECT_H
#define CLI_PROTECT_H

#include <stdbool.h>
#include <stdio.h>

#include "conf/conf.h"

extern const char cli_protect_usage[];

/* The arguments after one that stands before getopt's messages: `sluice protect`. Returns the exit
 * status: that of run_serve, or 2 when the command line has an error. */
int cli_protect(int argc, char **argv);

/* ---- protect ini ---------------------------------------------------------------------------- */

/*
 * The ini that a command line of `sluice protect` stands for.
 *
 *   options --protect_write_ini--> text --conf_parse--> snapshot
 *                                   '--> errors, each with a line --protect_print_errors--> by
 * option
 */

/* The settings, in the order of the ini. */
enum protect_setting {
	PROTECT_ADMIN,
	PROTECT_LISTEN,
	PROTECT_SERVER,
	PROTECT_KEY,
	PROTECT_RATE,
	PROTECT_SETTINGS,
};

/* Each as given, or NULL. `values` are those of the ini; protect_settle fills them. */
struct protect {
	const char *given[PROTECT_SETTINGS];
	char *values[PROTECT_SETTINGS];
};

/* The name of the limit in the ini. */
#define PROTECT_LIMIT "burst"

/* Where the admin socket is by default: `folder` and the listener's port. */
struct protect_home {
	const char *runtime; /* the environment's XDG_RUNTIME_DIR, or NULL */
	unsigned user;       /* the effective user's id */
};

/*
 * Fills `values` with what was given, as the ini has it, and with defaults. False when something
 * can't be a setting; then a line on stderr names the option, or says that there is no memory.
 * protect_clear frees.
 */
bool protect_settle(struct protect *protect, struct protect_home home);
void protect_clear(struct protect *protect);

/* Writes the ini, after protect_settle. */
void protect_write_ini(FILE *out, const struct protect *protect);

/* Writes the command line, `program protect SERVER [--rate RATE]...`, as a shell takes it. */
void protect_write_command(FILE *out, const char *program, const struct protect *protect);

/* Writes the errors that conf_parse found in the ini, one a line, by the option in place of file
 * and line. */
void protect_print_errors(FILE *out, const struct conf_errors *errors);

#endif
