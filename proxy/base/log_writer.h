/*
 * The thread that writes one log, out of rings of which each has another thread that fills it, into
 * one output. The error log and the access log have a writer each, so that a file that can't be
 * written to holds up its own lines alone. Used by base/log.
 */
#ifndef BASE_LOG_WRITER_H
#define BASE_LOG_WRITER_H

#include "base/log_output.h"
#include "base/log_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Another output, or another name for the same, from an epoch on. */
struct log_switch {
	struct log_switch *next;
	struct log_output output; /* unless it keeps the one that is in use */
	bool keeps;
	unsigned epoch;
};

struct log_writer {
	_Atomic int consumer;  /* see log_writer.c */
	_Atomic int requests;  /* bits of what it is to do besides */
	_Atomic uint64_t lost; /* lines that the output could not write */
	int eventfd;           /* wakes it */
	int ended;             /* an eventfd: it has written its last line */
	pthread_t thread;
	/* Its thread's own. */
	struct log_output output;
	unsigned applied; /* epoch of `output` */
	/* Handed over by log_writer_switch, the oldest first. */
	pthread_mutex_t pending_lock;
	struct log_switch *pending;
	/* Called by its thread: when it begins, in each round (the last is so marked), and when a
	 * file can't be opened again. Their own lines to this writer are written, too. `reports`
	 * returns for how many milliseconds the thread may sleep at most, -1 for as long as nothing
	 * wakes it. */
	void (*begins)(void *ctx);
	int (*reports)(void *ctx, bool last);
	void (*keeps_old)(void *ctx, const char *path, int error);
	void *ctx;
	unsigned ring_count;
	struct log_ring *rings;
};

/* With so many rings, of `ring_bytes` each, and no output yet: the caller sets `output`, which is
 * then the writer's, and what its thread calls. 0, or an errno value and nothing to be freed. */
int log_writer_init(struct log_writer *writer, unsigned rings, size_t ring_bytes);

/* Starts the thread. 0 or an errno value. */
int log_writer_start(struct log_writer *writer);

/* One line of the thread that has this ring. False: there was no room, and it is counted. */
bool log_writer_put(
	struct log_writer *writer, unsigned ring, struct log_record record, const char *line);

/* Lets its thread do a round soon, a whole one that has not begun yet. */
void log_writer_wake(struct log_writer *writer);

/* Lines from `change->epoch` on go to its output. Takes `change`, which calloc(3) has made. If it
 * can't write, it keeps only the last of the waiting ones. */
void log_writer_switch(struct log_writer *writer, struct log_switch *change);

/* For one that was never handed over, or NULL. */
void log_switch_free(struct log_switch *change);

/* Closes and opens its file again, soon. Async-signal-safe. */
void log_writer_reopen(struct log_writer *writer);

/* It is to write what is in its rings, and to end. Then `writer->ended` is readable. */
void log_writer_stop(struct log_writer *writer);

/* Lines that were dropped so far. */
uint64_t log_writer_dropped(const struct log_writer *writer);

/* When its thread has ended, or was never started. */
void log_writer_free(struct log_writer *writer);

#endif
