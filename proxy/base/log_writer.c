#include "base/log_writer.h"

#include "base/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	LINGER_MS = 5,     /* while busy: how long lines gather before they are written */
	SWITCHES_MOST = 4, /* that wait: each has a file open */
};

/*
 * The writer's thread. It sleeps on an eventfd, which costs a producer a system call; so
 * while lines come in it lingers for a few milliseconds between two rounds, and only a ring
 * half full or a warning cuts that short. With nothing to do it announces that it is asleep, looks
 * once more, and blocks: an idle process never wakes up.
 */
enum consumer { CONSUMER_AWAKE, CONSUMER_LINGERS, CONSUMER_ASLEEP };

enum request { REQUEST_REOPEN = 1, REQUEST_SWITCH = 2, REQUEST_STOP = 4, REQUEST_ROUND = 8 };

static void count_up(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- the other threads' side ----------------------------------------------------------------- */

static void wake(struct log_writer *writer)
{
	/* seq_cst, like the consumer's stores: pairs with go_to_sleep(). Only one waker pays. */
	if (atomic_exchange_explicit(&writer->consumer, CONSUMER_AWAKE, memory_order_seq_cst) !=
		CONSUMER_AWAKE)
		count_up(writer->eventfd);
}

static void request(struct log_writer *writer, enum request what)
{
	/* seq_cst: pairs with the look at `requests` in go_to_sleep(). */
	atomic_fetch_or_explicit(&writer->requests, (int)what, memory_order_seq_cst);
	wake(writer);
}

bool log_writer_put(
	struct log_writer *writer, unsigned index, struct log_record record, const char *line)
{
	struct log_ring *ring = &writer->rings[index];
	uint64_t used = log_ring_put(ring, record, line);
	/* seq_cst: comes after the head store of log_ring_put in the order that go_to_sleep() sees.
	 */
	int consumer = atomic_load_explicit(&writer->consumer, memory_order_seq_cst);

	if (consumer == CONSUMER_AWAKE)
		return used != 0;
	bool hurry = used == 0 || used > (ring->mask + 1) / 2 ||
		     (record.channel == LOG_CHANNEL_ERROR && record.level <= LOG_LEVEL_WARN);
	if (consumer == CONSUMER_ASLEEP || hurry)
		wake(writer);
	return used != 0;
}

void log_switch_free(struct log_switch *change)
{
	if (change && !change->keeps)
		log_output_close(&change->output);
	free(change);
}

void log_writer_switch(struct log_writer *writer, struct log_switch *change)
{
	struct log_switch *unused = NULL, **last = &writer->pending;
	int count = 0;

	pthread_mutex_lock(&writer->pending_lock);
	for (; *last && (count < SWITCHES_MOST - 1 || (*last)->next); last = &(*last)->next)
		count++;
	unused = *last; /* there are too many */
	*last = change;
	if (unused && change->keeps && !unused->keeps) {
		change->output = unused->output;
		change->keeps = false;
		unused->keeps = true;
	}
	pthread_mutex_unlock(&writer->pending_lock);
	log_switch_free(unused);
	request(writer, REQUEST_SWITCH);
}

void log_writer_wake(struct log_writer *writer)
{
	request(writer, REQUEST_ROUND);
}

void log_writer_reopen(struct log_writer *writer)
{
	request(writer, REQUEST_REOPEN);
}

void log_writer_stop(struct log_writer *writer)
{
	request(writer, REQUEST_STOP);
}

uint64_t log_writer_dropped(const struct log_writer *writer)
{
	/* Relaxed: counters for people. */
	uint64_t dropped = atomic_load_explicit(&writer->lost, memory_order_relaxed);

	for (unsigned i = 0; i < writer->ring_count; i++)
		dropped += atomic_load_explicit(&writer->rings[i].dropped, memory_order_relaxed);
	return dropped;
}

/* ---- its thread ------------------------------------------------------------------------------ */

/* The oldest switch that waits, of this epoch or one before it. */
static struct log_switch *next_switch(struct log_writer *writer, unsigned epoch)
{
	pthread_mutex_lock(&writer->pending_lock);
	struct log_switch *change = writer->pending;
	if (change && (int)(change->epoch - epoch) > 0)
		change = NULL;
	else if (change)
		writer->pending = change->next;
	pthread_mutex_unlock(&writer->pending_lock);
	return change;
}

/* Goes over to the output of that epoch. */
static void go_over(struct log_writer *writer, unsigned epoch)
{
	struct log_switch *change;

	while ((change = next_switch(writer, epoch))) {
		struct log_output old = writer->output;
		if (!change->keeps) {
			writer->output = change->output;
			log_output_close(&old);
		}
		writer->applied = change->epoch;
		free(change);
	}
}

static void flush(struct log_writer *writer)
{
	log_output_flush(&writer->output);
	if (writer->output.lost > 0)
		atomic_fetch_add_explicit(&writer->lost, writer->output.lost, memory_order_relaxed);
	writer->output.lost = 0;
}

/* The epoch of the last switch that waits, else of the present output. */
static unsigned newest_epoch(struct log_writer *writer)
{
	unsigned epoch = writer->applied;

	pthread_mutex_lock(&writer->pending_lock);
	for (const struct log_switch *change = writer->pending; change; change = change->next)
		epoch = change->epoch;
	pthread_mutex_unlock(&writer->pending_lock);
	return epoch;
}

/* Takes out of every ring what was there at the start of the round. Was there anything? */
static bool drain(struct log_writer *writer)
{
	bool any = false;

	for (unsigned i = 0; i < writer->ring_count; i++) {
		struct log_ring *ring = &writer->rings[i];
		struct log_record record;
		struct iovec span[2];
		uint64_t left = log_ring_used(ring);

		while (left > 0 && log_ring_peek(ring, &record, span)) {
			/* The first line written after a switch belongs to the new output. */
			int newer = (int16_t)(record.epoch - writer->applied);
			if (newer > 0)
				go_over(writer, writer->applied + (unsigned)newer);
			log_output_line(&writer->output, &record, span);
			left -= log_ring_release(ring);
			any = true;
		}
	}
	flush(writer);
	return any;
}

static void reopen(struct log_writer *writer)
{
	int error = log_output_reopen(&writer->output);

	if (error != 0)
		writer->keeps_old(writer->ctx, writer->output.path, error);
}

/* Until it is woken, or for so long (-1: no bound). */
static void wait_for_wake(struct log_writer *writer, int ms)
{
	struct pollfd woken = {.fd = writer->eventfd, .events = POLLIN};
	uint64_t count;

	if ((ms < 0 || poll(&woken, 1, ms) > 0) && read(writer->eventfd, &count, sizeof(count)) < 0)
		return;
}

static void linger(struct log_writer *writer)
{
	atomic_store_explicit(&writer->consumer, CONSUMER_LINGERS, memory_order_seq_cst);
	wait_for_wake(writer, LINGER_MS);
}

static bool has_work(struct log_writer *writer)
{
	for (unsigned i = 0; i < writer->ring_count; i++) {
		if (log_ring_used(&writer->rings[i]) > 0)
			return true;
	}
	/* seq_cst: pairs with request(). */
	return atomic_load_explicit(&writer->requests, memory_order_seq_cst) != 0;
}

static void go_to_sleep(struct log_writer *writer, int ms)
{
	/* First say it, then look: a thread that put something in before sees it, or we see what it
	 * put. */
	atomic_store_explicit(&writer->consumer, CONSUMER_ASLEEP, memory_order_seq_cst);
	if (!has_work(writer))
		wait_for_wake(writer, ms);
}

static void *run(void *argument)
{
	struct log_writer *writer = argument;
	int requests = 0;

	writer->begins(writer->ctx);
	while (!(requests & REQUEST_STOP)) {
		atomic_store_explicit(&writer->consumer, CONSUMER_AWAKE, memory_order_seq_cst);
		/* Before the rings: lines put in ahead of a request are written ahead of it. */
		requests = atomic_exchange_explicit(&writer->requests, 0, memory_order_seq_cst);
		unsigned newest = newest_epoch(writer);
		bool any = drain(writer);
		/* A later switch has a request of its own; lines from before it may still be in
		 * the rings. */
		if (requests & REQUEST_SWITCH)
			go_over(writer, newest);
		/* Behind it: the switch's file may have been moved away since it was opened. */
		if (requests & REQUEST_REOPEN)
			reopen(writer);
		int sleep_ms = writer->reports(writer->ctx, (requests & REQUEST_STOP) != 0);
		if (requests & REQUEST_STOP)
			drain(writer); /* what it has said itself */
		else if (any)
			linger(writer);
		else
			go_to_sleep(writer, sleep_ms);
	}
	count_up(writer->ended);
	return NULL;
}

/* ---- its life -------------------------------------------------------------------------------- */

int log_writer_init(struct log_writer *writer, unsigned rings, size_t ring_bytes)
{
	int error = 0;

	memset(writer, 0, sizeof(*writer));
	pthread_mutex_init(&writer->pending_lock, NULL);
	writer->output = (struct log_output){.sink = LOG_SINK_OFF, .fd = -1};
	writer->eventfd = eventfd(0, EFD_CLOEXEC);
	writer->ended = eventfd(0, EFD_CLOEXEC);
	if (writer->eventfd < 0 || writer->ended < 0)
		error = errno;
	/* They are kept apart by cache lines. */
	writer->rings = aligned_alloc(_Alignof(struct log_ring), rings * sizeof(struct log_ring));
	if (writer->rings)
		memset(writer->rings, 0, rings * sizeof(struct log_ring));
	else if (!error)
		error = ENOMEM;
	for (; !error && writer->ring_count < rings; writer->ring_count++)
		error = log_ring_init(&writer->rings[writer->ring_count], ring_bytes);
	if (error)
		log_writer_free(writer);
	return error;
}

/* It takes no signals: they are the main thread's. */
int log_writer_start(struct log_writer *writer)
{
	sigset_t all, before;

	signals_fill_but_faults(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&writer->thread, NULL, run, writer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

void log_writer_free(struct log_writer *writer)
{
	for (unsigned i = 0; i < writer->ring_count; i++)
		log_ring_free(&writer->rings[i]);
	free(writer->rings);
	log_output_close(&writer->output);
	while (writer->pending) {
		struct log_switch *change = writer->pending;
		writer->pending = change->next;
		log_switch_free(change);
	}
	if (writer->eventfd >= 0)
		close(writer->eventfd);
	if (writer->ended >= 0)
		close(writer->ended);
	pthread_mutex_destroy(&writer->pending_lock);
}
