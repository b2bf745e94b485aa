/*
 * The side of lock_keeper.h that gives the orders: for `sluice lock` and `sluice semaphore hold`.
 * It never waits for the keeper for longer than some 200 ms, as what the command runs under must be
 * renewed, or its loss be seen.
 */
#ifndef CLI_LOCK_LOCK_GUARD_H
#define CLI_LOCK_LOCK_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/lock/lock_keeper.h"

struct lock_guard {
	const char *program; /* for messages */
	char **command;
	int fd;    /* of the keeper's orders and reports; -1: none */
	pid_t pid; /* of the keeper; 0: it is gone */
};

enum lock_guard_report {
	GUARD_NOTHING, /* that changes anything */
	GUARD_ENDED,   /* the command, or it was not executed: its exit status is known */
	GUARD_GONE,    /* the keeper: nothing more will come */
};

/* From the end of the grace on, so long the keeper may take to kill the command. */
#define LOCK_GUARD_KILL_MS 500

/* Starts the keeper, before there are connections and before signals are blocked. False with a
 * message. */
bool lock_guard_start(struct lock_guard *guard);
/* False: the keeper stands still, and its socket takes no more. One that is gone is seen at the
 * next read. */
bool lock_guard_order(const struct lock_guard *guard, const struct keeper_order *order);
/* An order that must arrive. False: the keeper does not continue. */
bool lock_guard_wake_and_order(const struct lock_guard *guard, const struct keeper_order *order);
/* TERM to the command, and KILL after the grace. */
void lock_guard_end_command(const struct lock_guard *guard, uint64_t grace_ms);
/* The descriptor is readable. `status` is set with GUARD_ENDED. */
enum lock_guard_report lock_guard_read(const struct lock_guard *guard, int *status);
/* The keeper was killed: kills what it has left, with a message. */
void lock_guard_note_killed(struct lock_guard *guard);
/* Waits for the keeper's end. */
void lock_guard_leave(struct lock_guard *guard);

#endif
