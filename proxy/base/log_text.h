/* The text of one line of the error log. */
#ifndef BASE_LOG_TEXT_H
#define BASE_LOG_TEXT_H

#include "base/clock.h"
#include "base/log.h"
#include "base/log_ring.h"

#include <stdarg.h>

/* A longer line is cut and ends in "...". */
#define LOG_TEXT_BYTES 2048

struct log_text {
	char text[LOG_TEXT_BYTES]; /* record.len bytes, the last a newline; no NUL */
	struct log_record record;
};

/* Composes `2026-11-21T03:36:37.123Z warn  message`, dated now. `clock` is the calling thread's. */
void log_text_compose(struct log_text *line, struct clock_cache *clock, enum log_level level,
	const char *format, va_list args) __attribute__((format(printf, 4, 0)));

#endif
