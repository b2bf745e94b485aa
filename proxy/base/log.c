#include "base/log.h"

#include "base/clock.h"
#include "base/log_output.h"
#include "base/log_ring.h"
#include "base/log_text.h"
#include "base/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LINGER_MS = 5, /* while busy: how long lines gather before they are written */
	REPORT_NS = 1000 * 1000 * 1000, /* between two reports of dropped lines */
	CLOSE_MS = 5000,                /* that the last lines may take to be written */
};

/*
 * What the log thread is about. It sleeps on an eventfd, which costs a producer a system call; so
 * while lines come in it lingers for a few milliseconds between two rounds, and only a ring
 * half full or a warning cuts that short. With nothing to do it announces that it is asleep, looks
 * once more, and blocks: an idle process never wakes up.
 */
enum consumer { CONSUMER_AWAKE, CONSUMER_LINGERS, CONSUMER_ASLEEP };

enum request { REQUEST_REOPEN = 1, REQUEST_CONFIGURE = 2, REQUEST_STOP = 4 };

struct log_change {
	struct log_output output[LOG_CHANNELS];
	bool keeps[LOG_CHANNELS]; /* the output in use stays */
	char *paths[LOG_CHANNELS];
	enum log_level level;
	bool access;
};

struct log {
	_Atomic int consumer;   /* enum consumer */
	_Atomic int requests;   /* bits of enum request */
	_Atomic int level;      /* enum log_level */
	_Atomic unsigned epoch; /* counts log_commit() */
	_Atomic bool access;    /* does the access log go anywhere? */
	_Atomic uint64_t lost;  /* lines that an output could not write */
	int eventfd;
	int ended; /* an eventfd: the log thread has written its last line */
	pthread_t thread;
	/* The log thread's own. */
	struct log_output output[LOG_CHANNELS];
	uint8_t applied; /* epoch of `output` */
	struct clock_cache clock;
	uint64_t reported, reported_at_ns;
	/* Handed over by log_commit. */
	pthread_mutex_t pending_lock;
	bool pending;
	uint8_t pending_epoch;
	struct log_change *next; /* pending */
	/* Of the thread that configures: what the files are called. */
	char *paths[LOG_CHANNELS]; /* owned; NULL: no file */
	unsigned threads;
	struct log_ring rings[];
};

/* Which ring this thread logs into. */
static _Thread_local struct {
	struct log *log;
	struct log_ring *ring;
	struct clock_cache clock;
} self;

/* ---- waking the log thread ------------------------------------------------------------------ */

static void wake(struct log *log)
{
	/* seq_cst, like the consumer's stores: pairs with go_to_sleep(). Only one waker pays. */
	if (atomic_exchange_explicit(&log->consumer, CONSUMER_AWAKE, memory_order_seq_cst) ==
		CONSUMER_AWAKE)
		return;
	uint64_t one = 1;
	while (write(log->eventfd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void request(struct log *log, enum request what)
{
	/* seq_cst: pairs with the look at `requests` in go_to_sleep(). */
	atomic_fetch_or_explicit(&log->requests, (int)what, memory_order_seq_cst);
	wake(log);
}

static void put(struct log *log, struct log_ring *ring, struct log_record record, const char *line)
{
	/* Relaxed: exact for the thread that configures, soon enough for the others. */
	record.epoch = (uint8_t)atomic_load_explicit(&log->epoch, memory_order_relaxed);
	uint64_t used = log_ring_put(ring, record, line);
	/* seq_cst: comes after the head store of log_ring_put in the order that go_to_sleep() sees.
	 */
	int consumer = atomic_load_explicit(&log->consumer, memory_order_seq_cst);

	if (consumer == CONSUMER_AWAKE)
		return;
	bool hurry = used == 0 || used > (ring->mask + 1) / 2 ||
		     (record.channel == LOG_CHANNEL_ERROR && record.level <= LOG_LEVEL_WARN);
	if (consumer == CONSUMER_ASLEEP || hurry)
		wake(log);
}

/* ---- the log thread ------------------------------------------------------------------------- */

/* Goes over to the outputs of the last log_commit(), if that has not been done. */
static void take_pending(struct log *log)
{
	struct log_output old[LOG_CHANNELS] = {{.sink = LOG_SINK_OFF}};
	struct log_change *change;

	pthread_mutex_lock(&log->pending_lock);
	change = log->next;
	for (int i = 0; change && i < LOG_CHANNELS; i++) {
		if (change->keeps[i])
			continue;
		old[i] = log->output[i];
		log->output[i] = change->output[i];
		change->keeps[i] = true; /* nothing to close */
	}
	if (change)
		log->applied = log->pending_epoch;
	log->next = NULL;
	log->pending = false;
	pthread_mutex_unlock(&log->pending_lock);
	/* Without the lock: a write that takes for ever holds nobody else up. */
	for (int i = 0; i < LOG_CHANNELS; i++)
		log_output_close(&old[i]);
	log_discard(change);
}

/* Takes out of every ring what was there at the start of the round. Was there anything? */
static bool drain(struct log *log)
{
	bool any = false;

	for (unsigned i = 0; i < log->threads; i++) {
		struct log_ring *ring = &log->rings[i];
		struct log_record record;
		struct iovec span[2];
		uint64_t left = log_ring_used(ring);

		while (left > 0 && log_ring_peek(ring, &record, span)) {
			/* The first line written after log_commit() belongs to the new outputs.
			 */
			if (record.epoch != log->applied)
				take_pending(log);
			log_output_line(&log->output[record.channel], &record, span);
			left -= log_ring_release(ring);
			any = true;
		}
	}
	uint64_t lost = 0;
	for (int i = 0; i < LOG_CHANNELS; i++) {
		log_output_flush(&log->output[i]);
		lost += log->output[i].lost;
		log->output[i].lost = 0;
	}
	if (lost > 0)
		atomic_fetch_add_explicit(&log->lost, lost, memory_order_relaxed);
	return any;
}

/* A line of the log thread's own, past the rings. Flushed at the end of the next round. */
static void own_line(struct log *log, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void report_dropped(struct log *log, bool last)
{
	uint64_t dropped = log_dropped(log), now_ns = clock_monotonic_ns();

	if (dropped == log->reported || (!last && now_ns - log->reported_at_ns < REPORT_NS))
		return;
	own_line(log, LOG_LEVEL_WARN, "log: %llu lines dropped since the start, %llu of them now",
		(unsigned long long)dropped, (unsigned long long)(dropped - log->reported));
	log->reported = dropped;
	log->reported_at_ns = now_ns;
}

static void reopen(struct log *log)
{
	for (int i = 0; i < LOG_CHANNELS; i++) {
		int error = log_output_reopen(&log->output[i]);
		if (!error)
			continue;
		own_line(log, LOG_LEVEL_ERROR, "log: cannot reopen %s, keeping the old file: %s",
			log->output[i].path, log_output_error(error));
		/* The old file was moved away: people look elsewhere, too. */
		fprintf(stderr, "sluice: cannot reopen log %s, keeping the old file: %s\n",
			log->output[i].path, log_output_error(error));
	}
}

static void linger(struct log *log)
{
	struct pollfd woken = {.fd = log->eventfd, .events = POLLIN};
	uint64_t count;

	atomic_store_explicit(&log->consumer, CONSUMER_LINGERS, memory_order_seq_cst);
	if (poll(&woken, 1, LINGER_MS) > 0 && read(log->eventfd, &count, sizeof(count)) < 0)
		return;
}

static bool has_work(struct log *log)
{
	for (unsigned i = 0; i < log->threads; i++) {
		if (log_ring_used(&log->rings[i]) > 0)
			return true;
	}
	/* seq_cst: pairs with request(). */
	return atomic_load_explicit(&log->requests, memory_order_seq_cst) != 0;
}

static void go_to_sleep(struct log *log)
{
	uint64_t count;

	/* First say it, then look: a thread that put something in before sees it, or we see what it
	 * put.
	 */
	atomic_store_explicit(&log->consumer, CONSUMER_ASLEEP, memory_order_seq_cst);
	if (has_work(log))
		return;
	if (read(log->eventfd, &count, sizeof(count)) < 0)
		return;
}

static void *log_run(void *argument)
{
	struct log *log = argument;
	int requests = 0;

	while (!(requests & REQUEST_STOP)) {
		atomic_store_explicit(&log->consumer, CONSUMER_AWAKE, memory_order_seq_cst);
		/* Before the rings: lines put in ahead of a request are written ahead of it. */
		requests = atomic_exchange_explicit(&log->requests, 0, memory_order_seq_cst);
		bool any = drain(log);
		if (requests & REQUEST_REOPEN)
			reopen(log);
		if (requests & REQUEST_CONFIGURE)
			take_pending(log);
		report_dropped(log, (requests & REQUEST_STOP) != 0);
		for (int i = 0; i < LOG_CHANNELS; i++)
			log_output_flush(&log->output[i]);
		if (requests & REQUEST_STOP)
			break;
		if (any)
			linger(log);
		else
			go_to_sleep(log);
	}
	uint64_t one = 1;
	while (write(log->ended, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

/* ---- lines -------------------------------------------------------------------------------------
 */

static void own_line(struct log *log, enum log_level level, const char *format, ...)
{
	struct log_text line;
	va_list args;

	va_start(args, format);
	log_text_compose(&line, &log->clock, level, format, args);
	va_end(args);
	struct iovec span[2] = {{line.text, line.record.len}, {line.text, 0}};
	log_output_line(&log->output[LOG_CHANNEL_ERROR], &line.record, span);
}

static void to_stderr(const char *line, size_t len)
{
	/* Nobody to tell if this fails. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

bool log_enabled(enum log_level level)
{
	if (!self.log)
		return level <= LOG_LEVEL_INFO;
	/* Relaxed: a level changed a moment ago may be seen a moment later. */
	return (int)level <= atomic_load_explicit(&self.log->level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *format, ...)
{
	struct log_text line;
	va_list args;
	int error = errno;

	if (!log_enabled(level))
		return;
	va_start(args, format);
	log_text_compose(&line, &self.clock, level, format, args);
	va_end(args);
	if (self.ring)
		put(self.log, self.ring, line.record, line.text);
	else
		to_stderr(line.text, line.record.len);
	errno = error;
}

bool log_access_enabled(void)
{
	/* Relaxed, as in log_enabled(). */
	return self.log && atomic_load_explicit(&self.log->access, memory_order_relaxed);
}

void log_access(const char *line, size_t len)
{
	struct log_record record = {
		.len = (uint32_t)len, .channel = LOG_CHANNEL_ACCESS, .level = LOG_LEVEL_INFO};
	int error = errno;

	if (!self.ring)
		to_stderr(line, len);
	else if (log_access_enabled())
		put(self.log, self.ring, record, line);
	errno = error;
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* The path that a target has to be opened by, or NULL. */
static bool copy_path(char **path, struct log_target target)
{
	*path = target.sink == LOG_SINK_FILE ? strdup(target.path) : NULL;
	return *path || target.sink != LOG_SINK_FILE;
}

static bool is_in_use(const struct log *log, int channel, struct log_target target)
{
	return target.sink == LOG_SINK_FILE && log->paths[channel] &&
	       strcmp(log->paths[channel], target.path) == 0;
}

void log_discard(struct log_change *change)
{
	if (!change)
		return;
	for (int i = 0; i < LOG_CHANNELS; i++) {
		if (!change->keeps[i])
			log_output_close(&change->output[i]);
		free(change->paths[i]);
	}
	free(change);
}

struct log_change *log_prepare(struct log *log, enum log_level level, struct log_target error_log,
	struct log_target access_log)
{
	struct log_target targets[LOG_CHANNELS] = {
		[LOG_CHANNEL_ERROR] = error_log, [LOG_CHANNEL_ACCESS] = access_log};
	struct log_change *change = calloc(1, sizeof(*change));
	int error = change ? 0 : ENOMEM;

	for (int i = 0; change && i < LOG_CHANNELS; i++)
		change->keeps[i] = true; /* until it is opened */
	for (int i = 0; !error && i < LOG_CHANNELS; i++) {
		error = log_output_open(&change->output[i], targets[i]);
		change->keeps[i] = error != 0;
		if (error && is_in_use(log, i, targets[i])) {
			log_warn("log: cannot reopen %s, keeping the old file: %s", targets[i].path,
				log_output_error(error));
			error = 0;
		} else if (error) {
			log_error("log: cannot open %s: %s",
				targets[i].path ? targets[i].path : "a log",
				log_output_error(error));
		}
		if (!error && !copy_path(&change->paths[i], targets[i]))
			error = ENOMEM;
	}
	if (error) {
		log_discard(change);
		errno = error;
		return NULL;
	}
	change->level = level;
	change->access = access_log.sink != LOG_SINK_OFF;
	return change;
}

void log_commit(struct log *log, struct log_change *change)
{
	/* The log thread may free the change as soon as the lock is given back. */
	enum log_level level = change->level;
	bool access = change->access;

	for (int i = 0; i < LOG_CHANNELS; i++) {
		free(log->paths[i]);
		log->paths[i] = change->paths[i];
		change->paths[i] = NULL;
	}
	pthread_mutex_lock(&log->pending_lock);
	/* Configured twice before the log thread came by: files that stay open are in the first
	 * one, the rest of that was never used. */
	for (int i = 0; log->pending && i < LOG_CHANNELS; i++) {
		if (change->keeps[i] && !log->next->keeps[i]) {
			change->output[i] = log->next->output[i];
			change->keeps[i] = false;
			log->next->keeps[i] = true;
		}
	}
	if (log->pending)
		log_discard(log->next);
	log->next = change;
	log->pending = true;
	/* Relaxed: see put(); what it announces is guarded by the lock. */
	log->pending_epoch =
		(uint8_t)(atomic_fetch_add_explicit(&log->epoch, 1, memory_order_relaxed) + 1);
	pthread_mutex_unlock(&log->pending_lock);
	/* Relaxed: see log_enabled(). */
	atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
	atomic_store_explicit(&log->access, access, memory_order_relaxed);
	request(log, REQUEST_CONFIGURE);
}

int log_configure(struct log *log, enum log_level level, struct log_target error_log,
	struct log_target access_log)
{
	struct log_change *change = log_prepare(log, level, error_log, access_log);

	if (!change)
		return errno;
	log_commit(log, change);
	return 0;
}

void log_give_to(struct log *log, uid_t user, gid_t group)
{
	for (int i = 0; i < LOG_CHANNELS; i++) {
		struct stat status;
		if (!log->paths[i] || stat(log->paths[i], &status) != 0 ||
			!S_ISREG(status.st_mode) || status.st_uid == user)
			continue;
		if (chown(log->paths[i], user, group) != 0)
			log_warn("log: cannot give %s to the user: %s", log->paths[i],
				strerror(errno));
	}
}

/* The log thread takes no signals: they are the main thread's. */
static int start_thread(struct log *log)
{
	sigset_t all, before;

	signals_fill_but_faults(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&log->thread, NULL, log_run, log);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void log_free(struct log *log)
{
	for (unsigned i = 0; i < log->threads; i++)
		log_ring_free(&log->rings[i]);
	for (int i = 0; i < LOG_CHANNELS; i++)
		log_output_close(&log->output[i]);
	log_discard(log->next);
	for (int i = 0; i < LOG_CHANNELS; i++)
		free(log->paths[i]);
	if (log->eventfd >= 0)
		close(log->eventfd);
	if (log->ended >= 0)
		close(log->ended);
	pthread_mutex_destroy(&log->pending_lock);
	free(log);
}

struct log *log_open(unsigned threads, size_t ring_bytes, enum log_level level,
	struct log_target error_log, struct log_target access_log)
{
	size_t bytes = sizeof(struct log) + threads * sizeof(struct log_ring);
	/* The rings are kept apart by cache lines of 64 bytes. */
	struct log *log = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	int error = 0;

	if (!log) {
		errno = ENOMEM;
		return NULL;
	}
	memset(log, 0, bytes);
	pthread_mutex_init(&log->pending_lock, NULL);
	atomic_init(&log->level, (int)level);
	atomic_init(&log->access, access_log.sink != LOG_SINK_OFF);
	log->eventfd = eventfd(0, EFD_CLOEXEC);
	log->ended = eventfd(0, EFD_CLOEXEC);
	if (log->eventfd < 0 || log->ended < 0)
		error = errno;
	for (; !error && log->threads < threads; log->threads++)
		error = log_ring_init(&log->rings[log->threads], ring_bytes);
	if (!error)
		error = log_output_open(&log->output[LOG_CHANNEL_ERROR], error_log);
	if (!error)
		error = log_output_open(&log->output[LOG_CHANNEL_ACCESS], access_log);
	if (!error && (!copy_path(&log->paths[LOG_CHANNEL_ERROR], error_log) ||
			      !copy_path(&log->paths[LOG_CHANNEL_ACCESS], access_log)))
		error = ENOMEM;
	if (!error)
		error = start_thread(log);
	if (error) {
		log_free(log);
		errno = error;
		return NULL;
	}
	return log;
}

void log_reopen(struct log *log)
{
	request(log, REQUEST_REOPEN);
}

/* Has the log thread written all? It may be in a write to a pipe that nobody empties. */
static bool wait_for_end(struct log *log)
{
	static const char lost[] = "sluice: a log can't be written: its last lines are lost\n";
	struct pollfd ended = {.fd = log->ended, .events = POLLIN};
	struct pollfd standard = {.fd = STDERR_FILENO, .events = POLLOUT};
	int ready;

	do {
		ready = poll(&ended, 1, CLOSE_MS);
	} while (ready < 0 && errno == EINTR);
	if (ready == 0 && poll(&standard, 1, 0) > 0 && standard.revents == POLLOUT &&
		write(STDERR_FILENO, lost, sizeof(lost) - 1) < 0)
		return false;
	return ready != 0;
}

void log_close(struct log *log)
{
	if (!log)
		return;
	request(log, REQUEST_STOP);
	bool ended = wait_for_end(log);
	if (self.log == log)
		log_thread_attach(NULL, 0);
	if (!ended) { /* what its thread uses stays */
		pthread_detach(log->thread);
		return;
	}
	pthread_join(log->thread, NULL);
	log_free(log);
}

void log_thread_attach(struct log *log, unsigned index)
{
	self.log = log;
	self.ring = log && index < log->threads ? &log->rings[index] : NULL;
}

uint64_t log_dropped(const struct log *log)
{
	/* Relaxed: counters for people. */
	uint64_t dropped = atomic_load_explicit(&log->lost, memory_order_relaxed);

	for (unsigned i = 0; i < log->threads; i++)
		dropped += atomic_load_explicit(&log->rings[i].dropped, memory_order_relaxed);
	return dropped;
}
