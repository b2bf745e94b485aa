#include "base/log.h"

#include "base/clock.h"
#include "base/log_output.h"
#include "base/log_ring.h"
#include "base/log_text.h"
#include "base/log_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	REPORT_NS = 1000 * 1000 * 1000, /* between two reports of dropped lines */
	DROPS_TOLD = 1024,      /* the first of so many dropped lines wakes who reports them */
	CLOSE_MS = 5000,        /* that the last lines may take to be written */
	CLOSE_ACCESS_MS = 4000, /* of these, at most that the access log's may take */
};

struct log_change {
	struct log_switch *to[LOG_CHANNELS];
	char *paths[LOG_CHANNELS];
	bool is_one_file; /* unless one of them stays */
	enum log_level level;
	bool access;
};

/* A writer's own thread logs, too: into a ring of the error log behind those of the others. */
struct writer_of {
	struct log *log;
	enum log_channel channel;
};

struct log {
	_Atomic int level;      /* enum log_level */
	_Atomic unsigned epoch; /* counts log_commit() */
	_Atomic bool access;    /* does the access log go anywhere? */
	unsigned threads;
	struct log_writer writer[LOG_CHANNELS];
	struct writer_of of[LOG_CHANNELS];
	struct log_pair pair; /* their outputs */
	/* The error log's writer's: of lines that were dropped, those that it has written of. */
	uint64_t reported, reported_at_ns;
	/* The access log's writer's: those that it has woken the other one for. */
	uint64_t access_dropped;
	/* Names of the files; for the thread that configures only. */
	char *paths[LOG_CHANNELS]; /* owned; NULL: no file */
};

/* Which rings this thread logs into. */
static _Thread_local struct {
	struct log *log;
	bool has_ring[LOG_CHANNELS];
	unsigned ring;
	struct clock_cache clock;
} self;

/* ---- what the writers' threads say ----------------------------------------------------------- */

/* A line whatever the level. */
static void own_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void writer_begins(void *ctx)
{
	struct writer_of *of = ctx;

	self.log = of->log;
	self.has_ring[LOG_CHANNEL_ERROR] = true;
	self.ring = of->log->threads + of->channel;
}

/* The error log has what both have dropped: it may be the other one that can't be written, whose
 * writer only makes this one look. */
static int report_dropped(void *ctx, bool last)
{
	struct writer_of *of = ctx;
	struct log *log = of->log;
	uint64_t dropped = log_writer_dropped(&log->writer[of->channel]);

	if (of->channel == LOG_CHANNEL_ACCESS) {
		if (dropped != log->access_dropped)
			log_writer_wake(&log->writer[LOG_CHANNEL_ERROR]);
		log->access_dropped = dropped;
		return -1;
	}
	dropped += log_writer_dropped(&log->writer[LOG_CHANNEL_ACCESS]);
	if (dropped == log->reported)
		return -1;
	uint64_t now_ns = clock_monotonic_ns(), since_ns = now_ns - log->reported_at_ns;
	if (!last && since_ns < REPORT_NS)
		return (int)((REPORT_NS - since_ns) / CLOCK_NS_PER_MS) + 1;
	own_line(LOG_LEVEL_WARN, "log: %llu lines dropped since the start, %llu of them now",
		(unsigned long long)dropped, (unsigned long long)(dropped - log->reported));
	log->reported = dropped;
	log->reported_at_ns = now_ns;
	return -1;
}

static void keeps_old(void *ctx, const char *path, int error)
{
	(void)ctx;
	own_line(LOG_LEVEL_ERROR, "log: cannot reopen %s, keeping the old file: %s", path,
		log_output_error(error));
	/* The old file was moved away: people look elsewhere, too. */
	fprintf(stderr, "sluice: cannot reopen log %s, keeping the old file: %s\n", path,
		log_output_error(error));
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void to_stderr(const char *line, size_t len)
{
	/* Nobody to tell if this fails. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

static void put(struct log_record record, const char *line)
{
	struct log *log = self.log;
	struct log_writer *writer = &log->writer[record.channel];

	/* acquire: pairs with the release in log_commit(), which has told the writers before. */
	record.epoch = (uint16_t)atomic_load_explicit(&log->epoch, memory_order_acquire);
	if (log_writer_put(writer, self.ring, record, line))
		return;
	/* Relaxed: counted by this thread alone. */
	uint64_t dropped =
		atomic_load_explicit(&writer->rings[self.ring].dropped, memory_order_relaxed);
	if (dropped % DROPS_TOLD == 1)
		log_writer_wake(&log->writer[LOG_CHANNEL_ERROR]);
}

static void own_line(enum log_level level, const char *format, ...)
{
	struct log_text line;
	va_list args;

	va_start(args, format);
	log_text_compose(&line, &self.clock, level, format, args);
	va_end(args);
	put(line.record, line.text);
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
	if (self.has_ring[LOG_CHANNEL_ERROR])
		put(line.record, line.text);
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

	if (!self.has_ring[LOG_CHANNEL_ACCESS])
		to_stderr(line, len);
	else if (log_access_enabled())
		put(record, line);
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
		log_switch_free(change->to[i]);
		free(change->paths[i]);
	}
	free(change);
}

static int prepare_one(
	struct log *log, struct log_change *change, int channel, struct log_target target)
{
	struct log_switch *to = calloc(1, sizeof(*to));

	if (!to)
		return ENOMEM;
	change->to[channel] = to;
	int error = log_output_open(&to->output, target);
	to->keeps = error != 0;
	if (error && is_in_use(log, channel, target)) {
		log_warn("log: cannot reopen %s, keeping the old file: %s", target.path,
			log_output_error(error));
		error = 0;
	} else if (error) {
		log_error("log: cannot open %s: %s", target.path ? target.path : "a log",
			log_output_error(error));
	}
	to->output.pair = &log->pair;
	if (!error && !copy_path(&change->paths[channel], target))
		error = ENOMEM;
	return error;
}

struct log_change *log_prepare(struct log *log, enum log_level level, struct log_target error_log,
	struct log_target access_log)
{
	struct log_change *change = calloc(1, sizeof(*change));
	int error = change ? prepare_one(log, change, LOG_CHANNEL_ERROR, error_log) : ENOMEM;

	if (!error)
		error = prepare_one(log, change, LOG_CHANNEL_ACCESS, access_log);
	if (error) {
		log_discard(change);
		errno = error;
		return NULL;
	}
	change->is_one_file = log_output_is_same(
		&change->to[LOG_CHANNEL_ERROR]->output, &change->to[LOG_CHANNEL_ACCESS]->output);
	change->level = level;
	change->access = access_log.sink != LOG_SINK_OFF;
	return change;
}

void log_commit(struct log *log, struct log_change *change)
{
	unsigned epoch = atomic_load_explicit(&log->epoch, memory_order_relaxed) + 1;

	/* Relaxed, as where it is read. */
	if (!change->to[LOG_CHANNEL_ERROR]->keeps && !change->to[LOG_CHANNEL_ACCESS]->keeps)
		atomic_store_explicit(
			&log->pair.is_one_file, change->is_one_file, memory_order_relaxed);
	for (int i = 0; i < LOG_CHANNELS; i++) {
		free(log->paths[i]);
		log->paths[i] = change->paths[i];
		change->to[i]->epoch = epoch;
		log_writer_switch(&log->writer[i], change->to[i]);
	}
	/* release: pairs with the acquire in put(). */
	atomic_store_explicit(&log->epoch, epoch, memory_order_release);
	/* Relaxed: see log_enabled(). */
	atomic_store_explicit(&log->level, (int)change->level, memory_order_relaxed);
	atomic_store_explicit(&log->access, change->access, memory_order_relaxed);
	free(change);
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

static void log_free(struct log *log)
{
	for (int i = 0; i < LOG_CHANNELS; i++) {
		log_writer_free(&log->writer[i]);
		free(log->paths[i]);
	}
	pthread_mutex_destroy(&log->pair.lock);
	free(log);
}

static int init_writer(struct log *log, enum log_channel channel, size_t ring_bytes)
{
	struct log_writer *writer = &log->writer[channel];
	unsigned own = channel == LOG_CHANNEL_ERROR ? LOG_CHANNELS : 0;

	log->of[channel] = (struct writer_of){log, channel};
	int error = log_writer_init(writer, log->threads + own, ring_bytes);
	writer->begins = writer_begins;
	writer->reports = report_dropped;
	writer->keeps_old = keeps_old;
	writer->ctx = &log->of[channel];
	return error;
}

/* Both, or none and an errno value. */
static int init_writers(struct log *log, size_t ring_bytes)
{
	int error = init_writer(log, LOG_CHANNEL_ERROR, ring_bytes);

	if (error != 0)
		return error;
	error = init_writer(log, LOG_CHANNEL_ACCESS, ring_bytes);
	if (error != 0)
		log_writer_free(&log->writer[LOG_CHANNEL_ERROR]);
	return error;
}

/* Waits until its thread has written all, which may be in a write to a pipe that nobody empties. */
static bool wait_for_end(const struct log_writer *writer, uint64_t until_ns)
{
	struct pollfd ended = {.fd = writer->ended, .events = POLLIN};
	int ready;

	do {
		uint64_t now_ns = clock_monotonic_ns();
		ready = poll(&ended, 1,
			now_ns < until_ns ? (int)((until_ns - now_ns) / CLOCK_NS_PER_MS) : 0);
	} while (ready < 0 && errno == EINTR);
	return ready != 0;
}

/* Has it written all? Else its thread is left alone, with what it uses. */
static bool end_writer(struct log_writer *writer, uint64_t until_ns)
{
	log_writer_stop(writer);
	if (!wait_for_end(writer, until_ns)) {
		pthread_detach(writer->thread);
		return false;
	}
	pthread_join(writer->thread, NULL);
	return true;
}

static int start_writers(struct log *log)
{
	int error = log_writer_start(&log->writer[LOG_CHANNEL_ERROR]);

	if (error != 0)
		return error;
	error = log_writer_start(&log->writer[LOG_CHANNEL_ACCESS]);
	if (error != 0)
		end_writer(&log->writer[LOG_CHANNEL_ERROR],
			clock_monotonic_ns() + CLOSE_MS * CLOCK_NS_PER_MS);
	return error;
}

struct log *log_open(unsigned threads, size_t ring_bytes, enum log_level level,
	struct log_target error_log, struct log_target access_log)
{
	struct log *log = calloc(1, sizeof(*log));
	int error = log ? 0 : ENOMEM;

	if (log) {
		log->threads = threads;
		pthread_mutex_init(&log->pair.lock, NULL);
		atomic_init(&log->level, (int)level);
		atomic_init(&log->access, access_log.sink != LOG_SINK_OFF);
		error = init_writers(log, ring_bytes);
	}
	if (error) {
		free(log);
		errno = error;
		return NULL;
	}
	struct log_output *outputs[] = {
		[LOG_CHANNEL_ERROR] = &log->writer[LOG_CHANNEL_ERROR].output,
		[LOG_CHANNEL_ACCESS] = &log->writer[LOG_CHANNEL_ACCESS].output};
	error = log_output_open(outputs[LOG_CHANNEL_ERROR], error_log);
	if (!error)
		error = log_output_open(outputs[LOG_CHANNEL_ACCESS], access_log);
	atomic_init(&log->pair.is_one_file, log_output_is_same(outputs[0], outputs[1]));
	outputs[0]->pair = outputs[1]->pair = &log->pair;
	if (!error && (!copy_path(&log->paths[LOG_CHANNEL_ERROR], error_log) ||
			      !copy_path(&log->paths[LOG_CHANNEL_ACCESS], access_log)))
		error = ENOMEM;
	if (!error)
		error = start_writers(log);
	if (error) {
		log_free(log);
		errno = error;
		return NULL;
	}
	return log;
}

void log_reopen(struct log *log)
{
	for (int i = 0; i < LOG_CHANNELS; i++)
		log_writer_reopen(&log->writer[i]);
}

void log_close(struct log *log)
{
	static const char lost[] = "sluice: a log can't be written: its last lines are lost\n";
	struct pollfd standard = {.fd = STDERR_FILENO, .events = POLLOUT};

	if (!log)
		return;
	uint64_t now_ns = clock_monotonic_ns();
	/* The error log after the other, of which it says what was dropped. */
	bool access_ended = end_writer(
		&log->writer[LOG_CHANNEL_ACCESS], now_ns + CLOSE_ACCESS_MS * CLOCK_NS_PER_MS);
	bool error_ended =
		end_writer(&log->writer[LOG_CHANNEL_ERROR], now_ns + CLOSE_MS * CLOCK_NS_PER_MS);
	if (self.log == log)
		log_thread_attach(NULL, 0);
	if (access_ended && error_ended)
		log_free(log);
	else if (poll(&standard, 1, 0) > 0 && standard.revents == POLLOUT &&
		 write(STDERR_FILENO, lost, sizeof(lost) - 1) < 0)
		return;
}

void log_thread_attach(struct log *log, unsigned index)
{
	self.log = log;
	self.ring = index;
	for (int i = 0; i < LOG_CHANNELS; i++)
		self.has_ring[i] = log && index < log->threads;
}

uint64_t log_dropped(const struct log *log)
{
	return log_writer_dropped(&log->writer[LOG_CHANNEL_ERROR]) +
	       log_writer_dropped(&log->writer[LOG_CHANNEL_ACCESS]);
}
