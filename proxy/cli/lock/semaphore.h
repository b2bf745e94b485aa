/*
 * `sluice semaphore`: an administrator of the semaphores that a RabbitMQ keeps. It talks to the
 * broker that the configuration names; no sluice has to run.
 */
#ifndef CLI_LOCK_SEMAPHORE_H
#define CLI_LOCK_SEMAPHORE_H

extern const char cli_semaphore_usage[];

enum semaphore_exit {
	SEMAPHORE_EXIT_REFUSED = 1,   /* by the file, the semaphore's state or the broker */
	SEMAPHORE_EXIT_USAGE = 2,     /* the command line is wrong */
	SEMAPHORE_EXIT_UNREACHED = 3, /* the broker can't be reached, or does not let us in */
	/* Another administrator is at work, or slots are still held. */
	SEMAPHORE_EXIT_TIME_OVER = 75,
};

/* `argv[0]` is the command's word. Returns the exit status, 0 when it is done. */
int cli_semaphore(int argc, char **argv);

#endif
