/*
 * An upstream's pace: a ring limit at the servers' door that delays and never rejects.
 *
 *   run queue --pace_charge, at each dispatch--> a throttle table of this upstream's own, in memory
 *                                                with one caller: the upstream itself
 *
 * No window of the pace's length holds more dispatches than its amount. What is dispatched reaches
 * the server a little later, not always by the same little: a guard of a fiftieth of the window
 * (1 to 50 ms) is added to it, so that the promise holds at the server as long as the way there
 * takes no longer for one request than for another by more than that.
 */
#ifndef RELAY_PACE_H
#define RELAY_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace;

/* `amount` dispatches in any `per_ns`; held once. NULL without memory. */
struct pace *pace_new(uint64_t amount, uint64_t per_ns);
/* Of one upstream over reloads: what went counts under the new pace too. False without memory. Main
 * thread only. */
bool pace_configure(struct pace *pace, uint64_t amount, uint64_t per_ns);
/* Frees what pace_configure left behind, once no thread can be in a charge that began before it. */
void pace_collect(struct pace *pace);
struct pace *pace_hold(struct pace *pace);
void pace_release(struct pace *pace);

/* run_queue_config.pace: 0 and charged, or the nanoseconds after which to ask again. Reads the
 * clock itself, as the caller's may be a loop turn old. */
uint64_t pace_charge(void *pace, uint64_t now_ns);

#endif
