/*
 * Usage texts: entries that begin with `       sluice COMMAND`, each with the deeper indented lines
 * below it.
 */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include <stdio.h>

/* Prints the entries of one command, the first behind `usage: `; and the last line of `usage`,
 * which names the options of all its commands. */
void usage_print_command(FILE *out, const char *usage, const char *command);

/* After the message about a wrong command line, to stderr: one line that names the help. */
void usage_refer(const char *command);

#endif
