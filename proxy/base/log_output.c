#include "base/log_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

enum { LOG_OUTPUT_BYTES = 64 * 1024 };

/* Waits for nobody to open the other end of a pipe; writing then waits as usual. */
static int open_file(const char *path)
{
	int fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);

	if (fd >= 0)
		fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

const char *log_output_error(int error)
{
	return error == ENXIO ? "no program reads this pipe" : strerror(error);
}

int log_output_open(struct log_output *output, struct log_target target)
{
	int error = 0;

	*output = (struct log_output){.sink = target.sink, .fd = -1};
	switch (target.sink) {
	case LOG_SINK_OFF:
	case LOG_SINK_SYSLOG:
		return 0;
	case LOG_SINK_STDERR:
		output->fd = STDERR_FILENO;
		break;
	case LOG_SINK_STDOUT:
		output->fd = STDOUT_FILENO;
		break;
	case LOG_SINK_FILE:
		output->fd = open_file(target.path);
		if (output->fd < 0) {
			error = errno;
			fprintf(stderr, "sluice: cannot open log %s: %s\n", target.path,
				log_output_error(error));
			return error;
		}
		output->path = strdup(target.path);
		if (!output->path)
			error = ENOMEM;
		break;
	}
	output->buffer = malloc(LOG_OUTPUT_BYTES);
	if (!output->buffer)
		error = ENOMEM;
	if (error) {
		fprintf(stderr, "sluice: cannot open log: %s\n", strerror(error));
		log_output_close(output);
	}
	return error;
}

bool log_output_is_same(const struct log_output *one, const struct log_output *other)
{
	struct stat a, b;

	return one->fd >= 0 && other->fd >= 0 && fstat(one->fd, &a) == 0 &&
	       fstat(other->fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void log_output_close(struct log_output *output)
{
	log_output_flush(output);
	if (output->sink == LOG_SINK_FILE && output->fd >= 0)
		close(output->fd);
	free(output->path);
	free(output->buffer);
	*output = (struct log_output){.sink = LOG_SINK_OFF, .fd = -1};
}

/* Writes all of it, waiting where the descriptor is a non-blocking one. Returns 0 or errno. */
static int write_all(int fd, const char *at, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, at, len);
		if (n >= 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd ready = {.fd = fd, .events = POLLOUT};
			poll(&ready, 1, -1);
		} else if (errno != EINTR) {
			return errno;
		}
	}
	return 0;
}

static void write_lines(struct log_output *output, const char *at, size_t len, unsigned lines)
{
	/* Relaxed: a reload that changes it may cut a line in two, and no more than that. */
	bool locks = output->pair &&
		     atomic_load_explicit(&output->pair->is_one_file, memory_order_relaxed);

	if (locks)
		pthread_mutex_lock(&output->pair->lock);
	int error = write_all(output->fd, at, len);
	if (locks)
		pthread_mutex_unlock(&output->pair->lock);
	if (error) {
		output->lost += lines;
		/* Once, not a line for each line lost; the count is in log_dropped(). */
		if (!output->failing && output->sink != LOG_SINK_STDERR)
			fprintf(stderr, "sluice: cannot write log %s: %s\n",
				output->path ? output->path : "to stdout", strerror(error));
	}
	output->failing = error != 0;
}

void log_output_flush(struct log_output *output)
{
	if (output->used == 0)
		return;
	write_lines(output, output->buffer, output->used, output->lines);
	output->used = 0;
	output->lines = 0;
}

/* syslog(3) wants a NUL and has date, level and newline of its own. */
static void syslog_line(const struct log_record *record, const struct iovec span[2])
{
	static const int priority[] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARN] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};
	char text[8192];
	size_t used = 0;

	for (int i = 0; i < 2; i++) {
		size_t part = span[i].iov_len;
		if (part > sizeof(text) - 1 - used)
			part = sizeof(text) - 1 - used;
		memcpy(text + used, span[i].iov_base, part);
		used += part;
	}
	text[used] = '\0';
	syslog(LOG_DAEMON | priority[record->level], "%s",
		text + (record->prefix < used ? record->prefix : used));
}

void log_output_line(
	struct log_output *output, const struct log_record *record, const struct iovec span[2])
{
	if (output->sink == LOG_SINK_SYSLOG)
		syslog_line(record, span);
	if (output->fd < 0)
		return;
	if (record->len > LOG_OUTPUT_BYTES - output->used)
		log_output_flush(output);
	if (record->len > LOG_OUTPUT_BYTES) {
		write_lines(output, span[0].iov_base, span[0].iov_len, 1);
		write_lines(output, span[1].iov_base, span[1].iov_len, 0);
		return;
	}
	for (int i = 0; i < 2; i++) {
		memcpy(output->buffer + output->used, span[i].iov_base, span[i].iov_len);
		output->used += span[i].iov_len;
	}
	output->lines++;
}

int log_output_reopen(struct log_output *output)
{
	if (output->sink != LOG_SINK_FILE)
		return 0;
	log_output_flush(output);
	int fd = open_file(output->path);
	if (fd < 0)
		return errno;
	close(output->fd);
	output->fd = fd;
	return 0;
}
