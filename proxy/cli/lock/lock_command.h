/*
 * `sluice lock`: runs a command while a session has a lock in the fleet's store, and ends the
 * command when the session is over. No sluice has to run.
 */
#ifndef CLI_LOCK_LOCK_COMMAND_H
#define CLI_LOCK_LOCK_COMMAND_H

extern const char cli_lock_usage[];

enum lock_exit {
	LOCK_EXIT_REFUSED = 1,   /* the file, or this machine, does not allow it */
	LOCK_EXIT_USAGE = 2,     /* the command line is wrong */
	LOCK_EXIT_UNREACHED = 3, /* the store does not let us in */
	LOCK_EXIT_NOT_HAD = 75,  /* the lock was not to be had in time; no session holds it */
	LOCK_EXIT_LOST = 76,     /* the session was over while the command ran */
	LOCK_EXIT_NOT_EXECUTABLE = 126,
	LOCK_EXIT_NOT_FOUND = 127, /* the command */
	LOCK_EXIT_SIGNAL = 128,    /* and the signal's number: the command was ended by it */
};

/* `argv[0]` is the command's word. Returns the exit status: the command's own, or one of these. */
int cli_lock(int argc, char **argv);

#endif
