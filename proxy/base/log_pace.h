/*
 * How often the log may have lines of one kind, of what others can make happen as often as they
 * like: one in ten seconds, with the number of those that had none.
 */
#ifndef BASE_LOG_PACE_H
#define BASE_LOG_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_PACE_MS 10000

/* All zeroes is a new one. Any thread; the clocks of threads may differ a little. */
struct log_pace {
	_Atomic uint64_t logged_ms; /* of the last line; 0: there was none */
	atomic_uint unlogged;       /* of which there is no line since */
};

/* It has happened. May it have a line? Then `unlogged` is how many had none since the last one.
 * `now_ms` is monotonic, and not 0. */
bool log_pace_may_log(struct log_pace *pace, uint64_t now_ms, unsigned *unlogged);
/* The same for one in `every_ms`. */
bool log_pace_may_log_each(
	struct log_pace *pace, uint64_t every_ms, uint64_t now_ms, unsigned *unlogged);

/* How many had no line, if the last line is old enough: they count as written at now_ms. Else 0. */
unsigned log_pace_take_unlogged(struct log_pace *pace, uint64_t now_ms);

bool log_pace_has_unlogged(const struct log_pace *pace);

#endif
