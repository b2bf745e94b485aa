/*
 * Simulated threads: coroutines of one real thread, of which another continues at an atomic
 * operation when the schedule says so. A schedule is a random choice that its seed repeats exactly.
 *
 *   explore_load, explore_swap, ... (atomics.h) --> engine_point: who goes on? --> memory.c: what
 *                                                                                  is read?
 */
#ifndef TESTS_STRESS_EXPLORE_ENGINE_H
#define TESTS_STRESS_EXPLORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_THREADS 8
#define ENGINE_CHANGES 4

enum policy {
	POLICY_WALK,    /* at each point another thread continues with the same probability */
	POLICY_BOUNDED, /* at a few points of all */
	POLICY_STOPPED, /* as BOUNDED, and one thread stops at one of its points until all else is
			   done */
};

struct schedule {
	uint64_t seed;
	enum policy policy;
	uint32_t one_in;                 /* WALK */
	unsigned changes;                /* BOUNDED, STOPPED: how many ... */
	uint64_t change[ENGINE_CHANGES]; /* ... and at which points */
	unsigned stopped;                /* STOPPED: this thread, ... */
	uint64_t stopped_at;             /* ... at this one of its own points */
	uint64_t kill_at;                /* 0: no kill */
	unsigned killed;                 /* the process that is killed then */
	bool is_weak;                    /* loads may return older values, as C11 permits */
};

/* Nothing is known of what ran before. */
void engine_reset(uint64_t seed, bool is_weak);

/* How the next engine_run goes; its points are counted from here. */
void engine_schedule(const struct schedule *schedule);

/* A thread of a process that begins with the next engine_run, or at once if called by a thread. */
void engine_spawn(unsigned process, void (*run)(void *), void *argument);

enum ended {
	ENDED_ALL,   /* each thread has returned, or was killed */
	ENDED_HANGS, /* a thread has run for too long without an end */
};

enum ended engine_run(void);

/* The calling thread's process; 0 outside of threads. */
unsigned engine_process(void);
bool engine_is_killed(unsigned process);

/* Another thread may continue here. */
void engine_point(const char *file, int line);

/* The calling thread sees all that was written until now, as by a message from who wrote it. */
void engine_synchronize(void);

/* The calling thread waits until engine_wake. */
void engine_wait(void);
void engine_wake(void);

/* Points so far, of all threads: the explorer's clock of what came before what. */
uint64_t engine_now(void);

/* Random numbers of the schedule. */
uint64_t engine_random(uint64_t below);

/* Prints each switch, and with 2 each atomic operation. */
void engine_trace(int level);
int engine_tracing(void);

/* How often another thread was allowed to continue although the running one could have. */
unsigned engine_preemptions(void);

/* ---- memory.c ---- */

void memory_reset(bool is_weak);
/* The block is new, or freed: nothing of it was ever read or written. */
void memory_forget(const void *block, size_t bytes);
/* All threads see all that was written until now. */
void memory_settle(void);
/* As the thread of that number (0: outside of all) does it. */
uint64_t memory_load(unsigned thread, const volatile void *at, size_t bytes, int order);
void memory_store(unsigned thread, volatile void *at, size_t bytes, uint64_t value, int order);
bool memory_swap(unsigned thread, volatile void *at, size_t bytes, uint64_t *expected,
	uint64_t next, int success, int failure);
void memory_begin_thread(unsigned thread);

/* ---- files.c ---- */

/* No files, nobody's memory. */
void files_reset(void);
/* There is room on the disk, or sometimes not. */
void files_fill_disk(bool is_full_at_times);
/* All that a process had open, locked or allocated. */
void files_kill(unsigned process);
/* The bytes of the table's file, or NULL. */
void *files_table(size_t *bytes);

#endif
