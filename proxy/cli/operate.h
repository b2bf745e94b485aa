/*
 * The commands that ask a running sluice through its admin API: status, limits, callers, reset,
 * explain, sessions, upstreams, reload.
 */
#ifndef CLI_OPERATE_H
#define CLI_OPERATE_H

#include <stdbool.h>

extern const char cli_operate_usage[];

/* Is it one of these commands? */
bool cli_operate_knows(const char *command);

/* Offers their words to the code that guesses what an unknown command was meant to be. */
struct near_miss;
void cli_operate_offer(struct near_miss *near);

/* `argv[0]` is the command. Returns the exit status: 0; 1: sluice refused it; 2: the command line
 * is wrong; 3: sluice can't be reached. */
int cli_operate(int argc, char **argv);

#endif
