/*
 * `store_down = strict`: never more than L in any window of W, also while nodes lose the store,
 * each at its own time, and find it again. Private to the fleet; pure, and time is passed in.
 *
 *   list of nodes in the store (strict.lua) --strict_list.h--> struct strict --strict_look--> view
 *                                                                               |
 *          strict_quota: what the store may admit  <----------------------------+
 *          strict_rung: store, wait or share       <----------------------------'
 *
 * The hard case is a node A that is cut off alone: the store continues admitting for the others, so
 * they must leave A's share free before A uses it, and until A has paid for it.
 *
 *  1. The store gives each node a divisor d, in one step and only so that the sum of 1/d over all
 *     nodes of the list is at most 1; a node's share of any limit is floor(L/d). The list has the
 *     smallest d that a node may hold: a larger share counts from when it is given, a smaller one
 *     from when the node has said that it holds no more. So a joiner has no share until the others
 *     have reported that they use less.
 *  2. A node of the list is live until its last echo + 2 leases; an echo is the store's time in the
 *     last answer that the node has got. So however late its calls are executed (a store that stood
 *     still, a connection that died), it is lost at the latest 2 leases after the node got its last
 *     answer, by the node's own clock.
 *  3. While a node is lost, nodes ask the store for L less its floor(L/d) (strict_quota). Who knows
 *     the list from an answer that was asked for more than a lease ago asks no more and waits; a
 *     verdict that comes later than that and the tail is not taken. The tail is how long what was
 *     asked for may be used: the wait for an answer, or the term of a lease (fleet = lease: leases
 *     of strict limits are never kept for another term), and 200 ms until the head has left.
 *  4. So at answer + D, D = 3 leases + tail, nobody admits by a quota with A's share in it any
 *     more, and at answer + D + W no window has such an admission. Then A uses its share. Of a
 *     window that has any of A's: all of the store's admissions in it were made while at most L
 * less the shares of all those who use theirs was used at the store; shares admit at most
 * themselves. The sum is at most L. With all nodes cut off, only shares admit: at most L.
 *  5. A returns: it charges what its share admitted (debts.h) and only then echoes the store's time
 *     of an answer; until then it is lost for all, and for itself, so that the quota is smaller by
 *     its share. Once it is live, the store counts all that A has admitted.
 *  6. A lost node is dropped from the list lost_share after its last call, which is never before
 *     the last one that was answered was asked. A uses its share until then, less a sixteenth (the
 *     clocks' speed), the tail and W; so a killed node's share returns to the others. A node that
 *     leaves owes nothing, holds nothing, and is taken off the list.
 *  7. A store that has lost its memory has lost the list, too, and so those who are lost. If a node
 *     comes that knew the list before, then for lost_share no new shares are given, and the store
 *     admits the sum of the live nodes' shares only: all others, known or not, hold at most the
 *     rest. When all have come back, that is L. All wait for W and the tail after it began again,
 * as well. Any new list may be such a one: it is young for two leases, in which the same holds, so
 *     that nodes which remember the one before have called.
 *
 * It holds as long as a store that keeps its memory keeps all of it, some node that remembers calls
 * within two leases of the first call otherwise, its clock does not step forward, and all nodes
 * have the same [fleet].
 */
#ifndef FLEET_STRICT_H
#define FLEET_STRICT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of the quota that lost nodes may use: so many parts of this. */
#define STRICT_PARTS (UINT64_C(1) << 32)

/* A node's copy of the list; one thread sets it, all read it. Times are of worker_throttle_ns,
 * which continues while the process stands still. */
struct strict {
	_Atomic uint64_t asked_ns; /* of the last answer: when it was asked for, 0: none; */
	_Atomic uint64_t answered_ns;
	_Atomic uint64_t lost; /* of STRICT_PARTS */
	_Atomic uint64_t divisor;
	_Atomic uint64_t ahead_ns; /* of the monotonic clock, for people; modulo 2^64 */
};

struct strict_view {
	uint64_t asked_ns, answered_ns; /* 0: there was no answer */
	uint64_t lost;                  /* of STRICT_PARTS */
	uint64_t divisor;               /* of this node's share; 0: it has none */
	uint64_t ahead_ns;              /* the clock of these times, of the monotonic one */
};

void strict_init(struct strict *strict);
/* The thread that sets it. */
void strict_set(struct strict *strict, const struct strict_view *view);
/* Any thread. `lost` and `divisor` are as of asked_ns, or newer. */
struct strict_view strict_look(const struct strict *strict);

/* The part of a quota that the store may admit. */
static inline uint64_t strict_quota(uint64_t quota, uint64_t lost)
{
	return quota - (uint64_t)((unsigned __int128)quota * lost / STRICT_PARTS);
}

/* ms: how nodes are configured, and a limit's tail. */
struct strict_times {
	uint64_t lease_ms, kept_ms; /* membership_lease, lost_share */
	uint64_t tail_ms, window_ms;
};

/* Point 3; `term_ms` of leases, 0: none are given. */
uint64_t strict_tail_ms(uint64_t timeout_ms, uint64_t term_ms);

enum strict_state {
	STRICT_ASKS,  /* the store may be asked for strict_quota */
	STRICT_WAITS, /* nothing is admitted */
	STRICT_USES,  /* its share */
};

enum strict_state strict_state_of(
	const struct strict_view *view, const struct strict_times *times, uint64_t now_ns);

/* The divisor that the node says it holds: none once the store may have given its share to others.
 */
uint64_t strict_held(const struct strict_view *view, uint64_t kept_ms, uint64_t now_ns);

/* From when on an answer comes too late for what was known when it was asked for. */
uint64_t strict_late_ns(const struct strict_view *view, const struct strict_times *times);

#endif
