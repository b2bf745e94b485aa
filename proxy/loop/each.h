/*
 * The same question to several loops: a function runs once on each of their threads, each leaves
 * its answer, and when the last has, the asking loop gets them all.
 *
 *   asker --each_loop--> run on loop 0, run on loop 1, ... --> done(answers), on the asker
 */
#ifndef LOOP_EACH_H
#define LOOP_EACH_H

#include <stdbool.h>
#include <stddef.h>

struct loop;

struct each_question {
	size_t answer_size; /* bytes of one loop's answer; 0: none is needed */
	/* On the thread of loops[index]. `answer` is answer_size zeroed bytes of its own. */
	void (*run)(void *ctx, unsigned index, void *answer);
	/* On the asker's thread, once, after all have run. `answers` are `count` of answer_size
	 * bytes in the order of the loops, valid during the call. May be NULL. */
	void (*done)(void *ctx, void *answers, unsigned count);
	void *ctx; /* the asker's; must outlive `done` */
};

/* Asks; returns at once. The asking thread must have a loop of its own (loop_current), which may be
 * among `loops`. False without memory: nothing is run. All loops must turn until `done`. */
bool each_loop(struct loop *const *loops, unsigned count, const struct each_question *question);

#endif
