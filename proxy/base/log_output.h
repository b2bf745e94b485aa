/*
 * The destination of one log: a file descriptor with a buffer before it, or syslog. Used by the
 * thread that writes the log alone, save for log_output_open, which the thread that configures
 * calls.
 */
#ifndef BASE_LOG_OUTPUT_H
#define BASE_LOG_OUTPUT_H

#include "base/log.h"
#include "base/log_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Two outputs that may be one file (one pipe, a terminal): then their writes must not interleave,
 * as the kernel would let them. */
struct log_pair {
	pthread_mutex_t lock;
	_Atomic bool is_one_file;
};

struct log_output {
	enum log_sink sink;
	char *path;            /* LOG_SINK_FILE: owned */
	int fd;                /* -1 for off and syslog; stdout and stderr are not ours to close */
	bool failing;          /* the last write failed and was reported */
	size_t used;           /* bytes of `buffer` to be written, whole lines */
	unsigned lines;        /* lines in them */
	uint64_t lost;         /* lines that could not be written */
	char *buffer;          /* LOG_OUTPUT_BYTES, owned */
	struct log_pair *pair; /* NULL: it has no other */
};

/*
 * Opens `target`. Returns 0, or errno after a line on stderr that names the file; `output` is then
 * nothing that needs closing.
 */
int log_output_open(struct log_output *output, struct log_target target);

/* Do the two write to the same file? */
bool log_output_is_same(const struct log_output *one, const struct log_output *other);

/* The explanation of an errno value of opening a log. */
const char *log_output_error(int error);

/* Writes out what is buffered, then closes. */
void log_output_close(struct log_output *output);

/* Takes a line in; it is written when the buffer is full or by log_output_flush. */
void log_output_line(
	struct log_output *output, const struct log_record *record, const struct iovec span[2]);
void log_output_flush(struct log_output *output);

/*
 * Closes and opens a file by its name. On failure the old file stays in use and errno is returned;
 * 0 otherwise, and for what isn't a file.
 */
int log_output_reopen(struct log_output *output);

#endif
