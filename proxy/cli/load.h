/*
 * The file of `sluice check` and `sluice run`, which take the same `-c FILE`.
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include <stdbool.h>

#include "conf/conf.h"

#define CLI_DEFAULT_FILE "/etc/sluice/sluice.ini"

/* Reads a configuration. NULL when it has errors, which are then on stderr, one a line. */
struct conf *cli_load(const char *path);

/* Is an argument left behind those that getopt took? Then stderr has the error, with the help. */
bool cli_has_rest(const char *command, int argc, char **argv);

#endif
