/* harness: a queue with one worker's mailbox in front of it, and time in the test's hands.
 *
 *   world_enter(job) -> GO | WAIT | ...      world_done(job)
 *   dispatch() -> world.mail -> world_next() -> queue_arrive
 */
#ifndef TESTS_QUEUE_HARNESS_H
#define TESTS_QUEUE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "queue/queue.h"
#include "queue/run_queue.h"

#define MS  1000000ull
#define SEC 1000000000ull

struct job {
	struct ticket ticket; /* first: a ticket is its job */
	unsigned client, id;
	enum queue_verdict verdict; /* of queue_enter, then of queue_arrive */
	uint64_t due_ns;            /* simulations: when its response is complete */
};

struct world {
	struct queue *queue;
	struct run_queue *upstream;
	struct queue_policy policy;
	uint64_t now_ns;
	struct message *mail, **mail_tail;
	unsigned mails;
	unsigned unpins;
	void *unpinned;
	uint64_t timer_ns; /* what the timer is armed for */
	unsigned timer_changes;
};

/* ordering with defaults: no bounds but a depth of 100000, idle time 60 s. */
void world_open(struct world *world, enum queue_ordering ordering);
void world_open_with(struct world *world, enum queue_ordering ordering,
	const struct queue_config *queue_config, const struct run_queue_config *config);
void world_close(struct world *world);

struct session_key key_of(unsigned client);

/* "rR" normal and high read, "wW" writes. */
void job_init(struct job *job, unsigned client, unsigned id, char kind);

enum queue_verdict world_enter(struct world *world, struct job *job);

/* The next message, arrived; NULL if none is under way. */
struct job *world_next(struct world *world);

/* Takes a message that must be for this job and must say this. */
void world_expect(struct world *world, struct job *job, enum queue_verdict verdict);
void world_expect_none(struct world *world);

void world_done(struct world *world, struct job *job);

/* A small, fast, seeded generator (xorshift64*). */
uint64_t random_next(uint64_t *state);

#endif
