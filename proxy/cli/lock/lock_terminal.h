/*
 * The terminal of `sluice lock` and its command.
 *
 * The command has a process group of its own, and a terminal stops what is not its foreground group
 * when that reads it or sets it. So the group gets the terminal when it first asks for it; a
 * command that does not leaves ^C and ^Z to the group of `sluice lock`, a script, say. What the
 * user stops, or would run in the background, is stopped together with `sluice lock`, and continues
 * with it.
 */
#ifndef CLI_LOCK_LOCK_TERMINAL_H
#define CLI_LOCK_LOCK_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct lock_terminal {
	int fd;            /* -1: there is none */
	pid_t lock, group; /* `sluice lock`, and its process group */
	bool is_given;     /* to the command's group */
	bool is_suspended; /* `sluice lock` was told to stop together with the command */
	bool was_stopped;  /* since then: it was seen to stand still */
	unsigned looks;    /* since then */
};

/* A look at a suspended `sluice lock` is due after so many milliseconds. */
enum { LOCK_TERMINAL_LOOK_MS = 100 };

/* In the keeper, which is still of the group of `sluice lock`. */
void lock_terminal_open(struct lock_terminal *terminal);
/* The signal has stopped the command, and not by us. True: it is to continue (SIGCONT). */
bool lock_terminal_stopped(struct lock_terminal *terminal, pid_t command, int number);
/* While it is suspended. True: `sluice lock` continues, and so may the command. */
bool lock_terminal_resumes(struct lock_terminal *terminal, pid_t command);
/* The command has ended. */
void lock_terminal_take_back(struct lock_terminal *terminal);

#endif
