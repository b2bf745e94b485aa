/*
 * The threads that keep the slots of a node's upstreams.
 *
 *   main thread --site--> keeping_commit --> a thread for each upstream with semaphore = NAME
 *   its thread:  keeper_step --> wait: the broker, the run queue (somebody lacks a slot), the time
 *                  |  `--> run_queue_set_slots, semaphore_slots_set (upstream/semaphore_slots.h)
 *                  `--> message to the main thread: a line in the log when the state has changed
 *
 * A thread each, as librabbitmq blocks: a broker that does not answer delays no other upstream. A
 * slot ends with its connection, so a reload that changes what the connection was made with, or
 * takes the semaphore away, leaves the thread to drain (keeper.h), and begins another one beside
 * it. One whose upstream is gone keeps slots for what is still in flight there or waits, then ends.
 */
#ifndef SEMAPHORE_KEEPING_H
#define SEMAPHORE_KEEPING_H

#include <stdbool.h>

struct keeping;
struct loop;
struct site;

/* `main` is the main thread's loop, which writes the lines. NULL without memory. */
struct keeping *keeping_new(struct loop *main);

/* The site is current: threads begin, change or drain. One that cannot begin has a line in the
 * log, and its upstream no slots. Main thread. */
void keeping_commit(struct keeping *keeping, const struct site *site);

/* Gives all slots up and ends the threads; waits a few seconds at most for what a broker is asked
 * just now. The workers have ended. NULL is ignored. */
void keeping_free(struct keeping *keeping);

#endif
