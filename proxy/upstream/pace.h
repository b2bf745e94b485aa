/*
 * An upstream's pace: a ring limit at the servers' door that delays and never rejects.
 *
 *   run queue --pace_charge, at each dispatch--> a throttle table of this upstream's own, in memory
 *                                                with one caller: the upstream itself
 *
 * No window of the pace's length holds more dispatches than its amount. A dispatched request is
 * sent a little later, and reaches the server still later, by a varying time: a guard of a fiftieth
 * of the window (1 to 50 ms) is added to it. A request that was delayed longer inside sluice, for
 * example by a connect, or is sent a second time, is charged once more when it is sent. So no
 * window holds more that was sent; and none holds more that arrived, as long as the way to the
 * server takes no longer for one request than for another by more than the guard.
 */
#ifndef UPSTREAM_PACE_H
#define UPSTREAM_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace;
struct pace_change;

/* `amount` dispatches in any `per_ns`. NULL without memory. */
struct pace *pace_new(uint64_t amount, uint64_t per_ns);
/* NULL is ignored. */
void pace_free(struct pace *pace);

/*
 * A change of the pace of one upstream over reloads: what was sent counts under the new one too.
 * pace_prepare returns NULL without memory and changes nothing; pace_commit can't fail, and frees
 * the change, as pace_discard does. Main thread only.
 */
struct pace_change *pace_prepare(struct pace *pace, uint64_t amount, uint64_t per_ns);
void pace_commit(struct pace *pace, struct pace_change *change);
void pace_discard(struct pace_change *change);
/* Frees what pace_commit left behind, once no thread can be in a charge that began before it. */
void pace_collect(struct pace *pace);

/* run_queue_config.pace: 0 and charged, or the nanoseconds after which to ask again. Reads the
 * clock itself, as the caller's may be a loop turn old. */
uint64_t pace_charge(void *pace, uint64_t now_ns);

/* A request that was charged at charged_ns (ticket.placed_ns) is being sent now; `again` when it
 * was sent before. Charges it once more if that is needed; when nothing is free, the next charge
 * waits for it. */
void pace_sent(struct pace *pace, uint64_t charged_ns, bool again);

#endif
