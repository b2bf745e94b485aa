/*
 * The callers that a limit admitted or refused most, in bounded memory whatever the number of
 * callers: a summary of frequent items by counters, with purges (Misra and Gries 1982; the purge by
 * the median is that of Anderson et al., "A High-Performance Algorithm for Identifying Frequent
 * Items in Data Streams", 2017).
 *
 *   worker: busiest_add --> [window now: BUSIEST_CALLERS counters][window before]
 *                                 a window is full: the median is subtracted from all, and those
 *                                 that have nothing left make room
 *   asker:  busiest_read of each worker --adds up--> busiest_sum --> the first of them
 *
 * The bound. Of the N that a window counted, each caller's counter is at most
 * N / (BUSIEST_CALLERS / 2) too low, and never too high; a caller with more than that has a
 * counter. `error` is how much too low the counters can be, which is usually far less: 0 while
 * there are no more than BUSIEST_CALLERS callers. Sums over workers and over the two windows keep
 * the bound, with the N of all of them.
 *
 * The report covers the last one to two windows.
 *
 * One thread adds, any thread reads meanwhile. No allocation, no lock; a counter that is there
 * costs a hash and one store.
 */
#ifndef STATS_BUSIEST_H
#define STATS_BUSIEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/stats.h"

#define BUSIEST_WINDOW_NS UINT64_C(60000000000)
#define BUSIEST_CALLERS   384
#define BUSIEST_SLOTS     512 /* a power of two; callers are looked up in it */

struct busiest_window {
	_Atomic uint64_t until_ns; /* 0: never begun */
	_Atomic uint64_t error;    /* subtracted from every counter so far */
	unsigned count;            /* counters in use; the adder's */
	/* by slot: */
	_Atomic uint64_t callers[BUSIEST_SLOTS]; /* 0: free */
	_Atomic uint64_t counts[BUSIEST_SLOTS];
	_Atomic uint64_t addresses[BUSIEST_SLOTS][2]; /* from which the caller first came */
};

struct busiest {
	_Atomic uint64_t version;      /* odd while callers come or go */
	struct busiest_window *window; /* the current one; the adder's */
	struct busiest_window windows[2];
};

/* NULL without memory; pages that are not needed are not touched. */
struct busiest *busiest_new(void);
/* No thread adds or reads any more. NULL is ignored. */
void busiest_free(struct busiest *busiest);

/* Where a caller is looked for first. `caller` is from a hash that spreads over all bits. */
static inline size_t busiest_slot(uint64_t caller)
{
	return caller >> 32 & (BUSIEST_SLOTS - 1);
}

/* The general way of busiest_add. */
void busiest_add_slowly(struct busiest *busiest, uint64_t caller, const uint8_t address[static 16],
	uint64_t now_ns);

/* One more of this caller. */
static inline void busiest_add(
	struct busiest *busiest, uint64_t caller, const uint8_t address[static 16], uint64_t now_ns)
{
	struct busiest_window *window = busiest->window;
	size_t slot = busiest_slot(caller);

	/* relaxed, all: only this thread writes; readers take any recent count of a caller */
	if (now_ns >= atomic_load_explicit(&window->until_ns, memory_order_relaxed) ||
		atomic_load_explicit(&window->callers[slot], memory_order_relaxed) != caller ||
		caller == 0) {
		busiest_add_slowly(busiest, caller, address, now_ns);
		return;
	}
	uint64_t count = atomic_load_explicit(&window->counts[slot], memory_order_relaxed);
	atomic_store_explicit(&window->counts[slot], count + 1, memory_order_relaxed);
}

/* Shadow-refused: by a limit in shadow mode, which refuses nothing. */
enum busiest_kind { BUSIEST_ADMITTED, BUSIEST_REFUSED, BUSIEST_SHADOW_REFUSED, BUSIEST_KINDS };

/* One worker's, of all limits, by the limits' rows (stats/stats.h). All zero is empty. */
struct busiest_rows {
	struct busiest *_Atomic of[STATS_ROWS][BUSIEST_KINDS];
};

/* The adder's; made when it is first needed. NULL without memory: then nothing is counted. */
struct busiest *busiest_row_new(struct busiest_rows *rows, unsigned row, enum busiest_kind kind);
static inline struct busiest *busiest_row(
	struct busiest_rows *rows, unsigned row, enum busiest_kind kind)
{
	/* relaxed: only this thread writes it */
	struct busiest *busiest = atomic_load_explicit(&rows->of[row][kind], memory_order_relaxed);

	return busiest ? busiest : busiest_row_new(rows, row, kind);
}

/* Another thread's view; NULL: nothing was counted. */
const struct busiest *busiest_row_of(
	const struct busiest_rows *rows, unsigned row, enum busiest_kind kind);
void busiest_rows_clear(struct busiest_rows *rows);

/* ---- asking ---------------------------------------------------------------------------------- */

struct busiest_caller {
	uint64_t caller;
	uint64_t count;      /* at least */
	uint8_t address[16]; /* from which it first came */
};

/* All zero is empty. */
struct busiest_sum {
	struct busiest_caller *callers; /* by count, the highest first, after busiest_sum_sort */
	size_t count, room;
	uint64_t error;    /* each caller has `count` to `count + error`; one that is not there, at
			      most `error` */
	uint64_t since_ns; /* when what is counted began; 0: nothing is counted */
};

/* Adds what one worker counted. False without memory, or when the worker changed it faster than it
 * could be read. */
bool busiest_read(const struct busiest *busiest, uint64_t now_ns, struct busiest_sum *sum);

/* One entry for each caller, the highest counts first. */
void busiest_sum_sort(struct busiest_sum *sum);
void busiest_sum_clear(struct busiest_sum *sum);

#endif
