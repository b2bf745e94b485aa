/*
 * `sluice protect`: serves without a file.
 *
 *   command line --protect_ini.h--> ini --> --print, or served as `sluice run` serves a file
 *
 * A reload applies the command line again, and so does the process that an upgrade starts.
 */
#ifndef CLI_PROTECT_H
#define CLI_PROTECT_H

extern const char cli_protect_usage[];

/* The arguments after one that stands before getopt's messages: `sluice protect`. Returns the exit
 * status: that of run_serve, or 2 when the command line has an error. */
int cli_protect(int argc, char **argv);

#endif
