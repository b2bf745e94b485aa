/*
 * Descriptors that idle connections to servers hold, for what lacks one:
 *
 *   none free --> one of this worker's idle connections is closed
 *             --> those of the other workers, by a message; what lacks one looks again until all
 *                 have answered, and asks once more, unless nothing was closed several times
 *
 * Each worker keeps connections to the servers for itself. When its clients have left, and others
 * come to another worker, that one needs as many of its own.
 */
#ifndef SITE_SPARE_H
#define SITE_SPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/worker.h"

/* How soon to look again. */
#define SPARE_LOOK_MS 10

/* The state of a question of one that lacks a descriptor. Zeroed: it has not asked. */
struct spare_question {
	uint64_t number; /* of the node's */
	uint64_t closed; /* by then, in the process */
	unsigned vain;   /* questions in a row by which nothing was closed */
};

/* Closes the worker's idle connection to a server that was used least lately, as no descriptor is
 * free; or else the oldest that is closed already, and unconfirmed (ownership/parting.h). False: it
 * has none. */
bool spare_own(struct worker *worker);

/* This worker has none: asks the others. True: look again after SPARE_LOOK_MS, and call this again
 * where there is still none. False: they have none either; the question is zeroed. */
bool spare_ask(struct worker *worker, struct spare_question *question);

/* WORKER_SPARE: another worker has asked. */
void spare_answer(struct worker *worker);

/* The worker's thread is about to end: it counts as one that has answered. */
void spare_end(struct worker *worker);

#endif
