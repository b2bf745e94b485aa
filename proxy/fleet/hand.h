/*
 * The units of callers' quotas that this node has in hand: leases that the store gave it, from
 * which all of its workers take without a lock. It knows no store; time is passed in.
 *
 *   store --hand_adopt--> left until its end --hand_take--> requests
 *     ^                        ^-- hand_put: taken, and not used
 *     `-- hand_report: used so much, keep so much (one worker at a time: hand_lock)
 *
 * A hand is one word: units left, when its lease ends, and a number that changes whenever its use
 * is reported. What was taken is known by that number and end: it comes back into the hand only as
 * long as the store does not count it as used.
 *
 * Hands lie in an array of sets, found by the caller, and are used again in place, never freed: who
 * holds on to one, or comes late, finds that the word has changed, or that the hand is another
 * caller's. A caller whose set is full of leases has no hand, and the store is asked about each of
 * its requests.
 */
#ifndef FLEET_HAND_H
#define FLEET_HAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "throttle/throttle.h"

#define HAND_UNITS_MOST ((1u << 20) - 1) /* on lease at a time */
#define HAND_TERM_MOST  60000            /* ms: longest lease */

struct hand {
	_Atomic uint64_t word;           /* number, units left, end */
	_Atomic uint64_t hi, lo;         /* the caller and the limit */
	_Atomic uint64_t closed;         /* until when all is refused, when something may be free */
	_Atomic uint32_t low;            /* at so many left a new lease is due */
	_Atomic uint32_t spare;          /* free at the store when it last said so */
	_Atomic uint32_t uses, since_ms; /* units asked for, since then */
	_Atomic uint32_t lock, listed;
	/* Of the lock's holder: what the store has on lease for this hand. */
	uint32_t units;
	uint64_t slot;
	_Atomic uint64_t epoch; /* others may read it, */
	_Atomic uint64_t
		given_us; /* and the store's time when it last gave a part of what is in hand */
};

struct hands {
	struct hand *all;
	uint64_t multiplier; /* a secret that scatters callers, */
	unsigned shift;      /* and what is left of its products */
	size_t count;
};

/* `count`: a power of two, at least 4. False without memory or random bytes. To be ended all the
 * same. */
bool hands_init(struct hands *hands, size_t count);
void hands_end(struct hands *hands);

/* Milliseconds as a hand has them; they wrap. */
static inline uint32_t hand_ms(uint64_t now_ns)
{
	return (uint32_t)(now_ns / 1000000);
}

/* The hand of a caller, its own or one that became so; NULL: all of its set are in use. */
struct hand *hands_find(struct hands *hands, struct throttle_key caller, uint32_t now_ms);

/* The units in hand at a moment: of how many callers, and how many units. It reads all hands, and
 * is not for a worker's turn. */
struct hands_sight {
	uint64_t callers, units;
};
struct hands_sight hands_look(const struct hands *hands, uint32_t now_ms);

/* Takes units of the caller's lease. Returns its name, for hand_put, or 0: too few are left, it is
 * over, or the hand has become another caller's. `*left`: what is left then. */
uint64_t hand_take(struct hand *hand, struct throttle_key caller, uint32_t units, uint32_t now_ms,
	uint32_t *left);
/* Back into the lease of that name. False: its use was reported, or another hand is there. */
bool hand_put(struct hand *hand, uint64_t lease, uint32_t units);
/* Milliseconds until the lease ends; 0: there is none. */
uint32_t hand_time_left(const struct hand *hand, uint32_t now_ms);

/* One worker at a time speaks with the store about a hand. */
bool hand_lock(struct hand *hand);
void hand_unlock(struct hand *hand);
/* Is it this caller's? It stays so as long as the lock is held, or it has a lease. */
bool hand_is_of(const struct hand *hand, struct throttle_key caller);

/* The report to the store, with the lock held. From here on what was taken before counts as
 * used. */
struct hand_report {
	uint64_t slot, epoch;
	uint32_t units, used, keep;
};
/* `ends`: nothing is kept. */
struct hand_report hand_report(struct hand *hand, uint32_t now_ms, bool ends);
/* The store's answer to that: `kept` of it and `got` new ones until `ends_ms`; slot 0: no lease. */
void hand_adopt(struct hand *hand, uint64_t slot, uint64_t epoch, uint32_t kept, uint32_t got,
	uint32_t ends_ms);
/* No answer: the store may or may not have done it. What is in hand may be used until its end; the
 * store counts all of it for longer, and is told nothing of it. */
void hand_lose(struct hand *hand);
/* The lease is over, and what was left of it is for nobody: milliseconds wrap, and it would seem to
 * begin again. With the lock held. */
void hand_clear(struct hand *hand);

/* The store has nothing free: all is refused for `for_ms`; something may be free in `free_ms`. */
void hand_close(struct hand *hand, uint32_t now_ms, uint32_t for_ms, uint32_t free_ms);
/* Milliseconds until something may be free, if the hand is closed; 0: it is not. */
uint32_t hand_closed(const struct hand *hand, uint32_t now_ms);

/* Notes that so many units were asked for. */
void hand_note_use(struct hand *hand, uint32_t units);
/* They were given back: a request that was turned away later, or cost less, is no demand. */
void hand_forget_use(struct hand *hand, uint32_t units);
/* How many units its caller asks for in `term_ms`, by what was noted; with the lock held. */
uint32_t hand_expected(struct hand *hand, uint32_t now_ms, uint32_t term_ms);

#endif
