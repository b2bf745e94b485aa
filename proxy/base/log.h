/*
 * Log lines, written by threads of their own so that a slow disk delays no request: one for the
 * error log and one for the access log, so that neither delays the other.
 *
 *   worker 0 --ring--\
 *   worker 1 --ring---> thread --> stderr | file | syslog   (error log)
 *   main     --ring--/
 *                 and the same rings again --> thread --> stdout | file | syslog   (access log)
 *
 * Each thread writes whole lines into its own single-producer rings; a writer (base/log_writer.h)
 * drains those of its log. A full ring drops the line and counts it; no thread waits. A thread with
 * no ring (before log_thread_attach, or in a unit test) writes to stderr at once.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The destination of a log. `file:` targets are reopened by log_reopen (SIGUSR1). */
enum log_sink { LOG_SINK_OFF, LOG_SINK_STDERR, LOG_SINK_STDOUT, LOG_SINK_FILE, LOG_SINK_SYSLOG };

struct log_target {
	enum log_sink sink;
	const char *path; /* LOG_SINK_FILE only */
};

struct log;

/*
 * Opens both logs and starts their threads, with a ring of `ring_bytes` in each log for each of
 * `threads` threads. Returns NULL with errno and a line on stderr when a file can't be opened.
 */
struct log *log_open(unsigned threads, size_t ring_bytes, enum log_level level,
	struct log_target error_log, struct log_target access_log);

/*
 * Another level and other targets, while running (a reload). log_prepare opens the files and
 * changes nothing; it returns NULL with errno, and a line in the error log, when one can't be
 * opened. A file that is in use already and can't be opened again stays in use, with a warning.
 * log_commit can't fail. Its own thread's lines come to the old targets before it and to the new
 * ones after it; those of other threads may for a moment differ. One of log_commit and log_discard
 * takes the change. One thread only.
 */
struct log_change;
struct log_change *log_prepare(struct log *log, enum log_level level, struct log_target error_log,
	struct log_target access_log);
void log_commit(struct log *log, struct log_change *change);
void log_discard(struct log_change *change); /* NULL is ignored */

/* Both in one step: 0, or errno and nothing has changed. */
int log_configure(struct log *log, enum log_level level, struct log_target error_log,
	struct log_target access_log);

/* Gives the files to a user, so that this user can open them again. Before log_reopen and
 * log_prepare can happen; failures are reported and change nothing. */
void log_give_to(struct log *log, uid_t user, gid_t group);

/*
 * Closes and opens the files again by name; done by its thread soon after. From any thread, and
 * from a signal handler. A file that can't be opened is kept unchanged, and a line reports it.
 */
void log_reopen(struct log *log);

/*
 * Writes out what is in the rings and ends the threads. No other thread may log through it
 * afterwards; the calling one is detached. NULL does nothing. When that takes more than 5 s, as
 * with a pipe whose reader has stopped, the lines are given up, with a line on stderr, and the
 * thread and its memory are left to the end of the process.
 */
void log_close(struct log *log);

/* From now on the calling thread logs into the rings `index` (0 .. threads-1) of `log`; NULL
 * detaches.
 */
void log_thread_attach(struct log *log, unsigned index);

/* Lines dropped so far because a ring was full or the file could not be written. */
uint64_t log_dropped(const struct log *log);

/* Is this level written at all? To spare the work of composing a line. Without a log: up to info.
 */
bool log_enabled(enum log_level level);

/* One line to the error log: `2026-11-21T03:36:37.123Z warn  text`. No newline at the end of
 * `format`. */
void log_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_enabled(LOG_LEVEL_DEBUG))                                                  \
			log_line(LOG_LEVEL_DEBUG, __VA_ARGS__);                                    \
	} while (0)

/* Is there an access log to write to? */
bool log_access_enabled(void);

/* One finished line of the access log, with its newline. Keeps errno. */
void log_access(const char *line, size_t len);

#endif
