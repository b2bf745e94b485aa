/*
 * libthrottle: exact rate limits, shared by any number of threads and processes without a lock.
 *
 *   a caller's key --throttle_hash--> struct throttle_key
 *                                          |
 *   charges { limit, caller, cost }[] -----+--throttle_take(table, ..., now)--> verdict + receipt
 *                                                     |                                  |
 *                table: one block of memory, of a     |          refund, settle, charge, |
 *                bounded size, in a file or not <-----'          release <---------------'
 *
 * The promise. For each ring limit of L per W and each caller, no trailing window of length W holds
 * more than L admitted, whatever the interleaving of threads, over crashes and restarts; and over
 * changes of limits for all that throttle_table_apply remembers. When fewer than L were admitted in
 * the trailing window a charge is admitted: with exact slots at the latest three ticks
 * later (of 2 us, or a 2^18th of W and 2 s), with quantised ones at the latest W/slots later.
 *
 * No thread waits for another: one that is stopped anywhere in a call holds up nobody else, and
 * every change is one compare-and-swap on one word of one caller. (A thread whose swap comes too
 * late tries again about a microsecond later, whatever the others do.) A process killed at any
 * instant leaves a valid table; at worst a charge of several limits that it was in the middle of
 * stays charged, as it may when limits change in the middle of it.
 *
 * Time is passed in: nanoseconds since 1970. Callers should derive it from the wall clock at start
 * plus a clock that never steps (CLOCK_BOOTTIME) since, so that it continues over a restart. The
 * exact rule for times:
 *  - A charge is recorded at the later of its `now_ns` and the newest time already recorded for
 * that caller and limit, its first verdict included (outcome.at_ns). Of a limit with precision only
 * the quantum of the newest time is known, and a charge counts until W after that has ended. The
 * promise holds over recorded times, in whatever order the threads' different `now_ns` arrive. A
 * ring judges by the thread's own `now_ns`, so that a slow clock only waits longer.
 *  - If every `now_ns` is at most d behind the true time, true windows of W - d hold at most L.
 *    A limit's `guard_ns` >= d makes that W again; use it for clocks read once a loop turn.
 *  - A clock that steps back by more than a second stands still for the table until it has caught
 *    up: nothing is forgiven, retry_after_ns says how long it takes. throttle_rebase (and opening a
 *    file) ends that: the table's time then goes on from where it was.
 *  - A step forward of `now_ns` is taken for time that passed.
 *  - Of a time, a throttle has the lower bits. A caller that returns to the second when these have
 *    wrapped can find of a ring of up to 31 (after 417 days) what was in use then, for a window;
 *    of a large divided one (2^30 in 4095 slots of 1 s: after 4.5 hours) what is charged then
 *    counts up to two seconds longer. No more than L are admitted.
 *  - So a step of the wall clock must not become a step of `now_ns`. throttle_set_wall hands it to
 *    the calendar limits alone: their periods begin and end by the wall, all windows continue
 *    undisturbed.
 */
#ifndef THROTTLE_H
#define THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define THROTTLE_MAX_CHARGES 16         /* charges in one take */
#define THROTTLE_NAME_BYTES  64         /* of a limit's name, with its NUL */
#define THROTTLE_ZONE_BYTES  48         /* of a time zone's name, with its NUL */
#define THROTTLE_NEVER       UINT64_MAX /* a wait without end: the cost is above the limit */
#define THROTTLE_EXACT       UINT32_MAX /* slots: as many as the quota, at most 4095 */
#define THROTTLE_MAX_LIMITS  1024       /* limits of one table at a time */

/* ---- what a limit is ------------------------------------------------------------------------- */

enum throttle_kind {
	THROTTLE_RING,        /* quota per trailing window, the promise above */
	THROTTLE_GCRA,        /* quota per window, evenly paced, `burst` at once */
	THROTTLE_CALENDAR,    /* quota per hour, day, week or month of a time zone */
	THROTTLE_CONCURRENCY, /* quota in flight */
};

enum throttle_unit { THROTTLE_REQUESTS, THROTTLE_BYTES };
enum throttle_period { THROTTLE_HOUR, THROTTLE_DAY, THROTTLE_WEEK, THROTTLE_MONTH };
enum throttle_mode { THROTTLE_ENFORCE, THROTTLE_SHADOW };

/* All zero but name, quota and window_ns is a valid ring. */
struct throttle_limit {
	char name[THROTTLE_NAME_BYTES]; /* what finds its counters again: unique, not empty */
	char was[THROTTLE_NAME_BYTES];  /* the name that it had before, whose counters it continues
					   with unless the table has its own; "": none */
	enum throttle_kind kind;
	enum throttle_unit unit;
	uint64_t quota;     /* L, at least 1 */
	uint64_t window_ns; /* W of ring and gcra: 1 ms to 400 days */
	uint64_t guard_ns;  /* ring: added to W when judging, see "The exact rule" */
	uint32_t slots; /* ring: 0 = as many as fit in 128 bytes a caller, N = N, or THROTTLE_EXACT.
			   A quota up to the slots is exact in any case. */
	uint64_t burst; /* gcra: how much at once; 0 = 1 */
	enum throttle_period period;    /* calendar */
	char zone[THROTTLE_ZONE_BYTES]; /* calendar: IANA name; "" = UTC */
	enum throttle_mode mode;        /* shadow: judged and counted, never refuses */
	bool count_refused;             /* ring: what it refused counts, too */
	uint64_t delay_max_ns; /* on_exceed = delay: wait at most so long; 0 = refuse at once */
	uint32_t ban_count;    /* refused so often (1 to 4095) ...; 0 = no ban */
	uint64_t ban_per_ns;   /* ... within this ... */
	uint64_t ban_for_ns;   /* ... is refused outright for this long */
};

/* 0, or -1 with a sentence in `why` (never NULL; `why_bytes` of it) saying what is wrong. */
int throttle_limit_check(const struct throttle_limit *limit, char *why, size_t why_bytes);

/* Bytes that one caller of this limit takes up in the table, its share of the index included. */
size_t throttle_limit_bytes(const struct throttle_limit *limit);

/* ---- who is charged -------------------------------------------------------------------------- */

/* 128 bits, as throttle_hash makes them. The table distinguishes callers by the 60 upper bits of
 * `lo`, of which all values are valid. */
struct throttle_key {
	uint64_t hi, lo;
};

/* The secret of a table's keys: SipHash-2-4 with 128 bits of output. It lives in the table (and its
 * file), so that callers are found again after a restart. */
struct throttle_seed {
	uint64_t k0, k1;
};

/* One string. Not the same as a key of one part. */
struct throttle_key throttle_hash(const struct throttle_seed *seed, const void *data, size_t bytes);

/* Keys of several parts, without joining them: ("ab", "c") and ("a", "bc") differ. `domain` (for
 * example a limit's or key expression's number) separates keys that must not be equal. */
struct throttle_hasher {
	uint64_t v[4], tail;
	uint64_t length;
};
void throttle_hash_begin(
	struct throttle_hasher *h, const struct throttle_seed *seed, uint64_t domain);
void throttle_hash_part(struct throttle_hasher *h, const void *data, size_t bytes);
struct throttle_key throttle_hash_end(struct throttle_hasher *h);

/* ---- the table ------------------------------------------------------------------------------- */

/*
 * All limits' throttles, each limit with room for `callers`. A caller new to a full bucket of the
 * table shares its bucket's one overflow throttle; what is forgotten is only ever a throttle whose
 * window is empty.
 *
 * Limits are known by number, given to a name when it is first seen by this handle and kept for the
 * handle's life, also while throttle_table_apply changes the limit behind it.
 */
struct throttle_table;

struct throttle_table_options {
	const char *folder; /* the file's, which must exist; NULL: memory only */
	uint64_t callers;   /* capacity for each limit; at least 3840 are made room for */
	uint64_t now_ns;
	bool memory_if_unwritable; /* continue without a file when the folder can't be used */
	bool grows;                /* takes memory as callers come: see throttle_table_grow */
	/* An upgrade: another process has the table open and continues with it. It is opened with
	 * these limits and this capacity, or not at all (EBUSY): nothing in it is changed, made or
	 * set aside. */
	bool joins;
	int shared; /* with joins: a descriptor of throttle_table_share, inherited; -1: the folder's
		     */
	const struct throttle_seed *seed; /* for tests; NULL: random */
};

/* The result of opening, for the log. */
enum throttle_found {
	THROTTLE_FOUND_NONE,      /* a new table */
	THROTTLE_FOUND_TABLE,     /* counters continue where they stood */
	THROTTLE_FOUND_SET_ASIDE, /* the file was of no use; it is now `*.set-aside` */
	THROTTLE_FOUND_UNUSABLE,  /* the folder can't be used: memory only, or not opened */
};

struct throttle_report {
	enum throttle_found found;
	char text[256]; /* one sentence, never empty */
};

/*
 * Opens, or makes, the table for these limits. Two processes may have one folder's table open at a
 * time (an upgrade) as long as their limits are the same. NULL with errno: EINVAL (a limit is wrong
 * or named twice, report says which), ENOMEM, or with a folder that can't be used and
 * !memory_if_unwritable its reason (EACCES, ENOSPC, ...); with `joins` EBUSY or the error of
 * opening. `report` may be NULL.
 */
struct throttle_table *throttle_table_open(const struct throttle_table_options *options,
	const struct throttle_limit *limits, size_t count, struct throttle_report *report);

/*
 * Makes the table of a memory only one that another process can join, while other threads continue
 * taking: its callers are moved to memory behind a descriptor, as a change of limits moves them.
 * Returns the descriptor, which stays the table's and good until limits change or the table is
 * closed; throttle_table_collect is due as after a change. -1 with errno: ENOMEM, EINVAL (it has a
 * folder), ... As for apply, only one thread may do this.
 */
int throttle_table_share(struct throttle_table *table, uint64_t now_ns);

/* The folder that the table's file is in; NULL: memory only. */
const char *throttle_table_folder(const struct throttle_table *table);

/* No other thread may be in a call. The file stays. NULL is ignored. */
void throttle_table_close(struct throttle_table *table);

/*
 * Changes limits (and capacity; 0: as before, and never less) while other threads continue taking.
 * Limits are matched by name (or by the one that `was` says, for which receipts of it are then
 * valid, too); what was admitted under the old one still counts under the new:
 *  - Of a ring, its newest admissions: as many as the new limit (four times that of a divided one),
 *    as far back as the old one's window. A limit that is lowered to L and raised again within its
 *    window has kept only L. Each counts as of the latest time that it can have had: that of the
 *    end of its quantum, or of the change.
 *  - Between kinds, the use that the old one counts, at most the new limit, as of the change.
 *  - A calendar's count stays as long as period and zone do; what is in flight stays in flight, but
 *    for what another process has.
 * What was charged before is given back as long as the limit counts as it did then (unchanged, but
 * for burst, mode and bans; a calendar of the same period), else it stays charged; what is in
 * flight is always given back. One bucket of callers at a time is moved, by whichever thread needs
 * it first. Only one thread may apply. 0, or -1 with errno as throttle_table_open has it, and
 * nothing changed.
 */
int throttle_table_apply(struct throttle_table *table, const struct throttle_limit *limits,
	size_t count, uint64_t callers, uint64_t now_ns, struct throttle_report *report);

/*
 * The same in two steps. throttle_table_prepare does all that can fail and changes nothing; it
 * returns what throttle_table_commit puts in force or throttle_table_discard drops (one of them,
 * before the next prepare, and before the table is closed), or NULL as apply fails.
 * throttle_table_commit puts the limits in force whatever happens; -1 with errno: the table's file
 * could not be renamed, so a restart continues moving from the old one.
 */
struct throttle_change;
struct throttle_change *throttle_table_prepare(struct throttle_table *table,
	const struct throttle_limit *limits, size_t count, uint64_t callers, uint64_t now_ns,
	struct throttle_report *report);
int throttle_table_commit(struct throttle_table *table, struct throttle_change *change,
	uint64_t now_ns, struct throttle_report *report);
void throttle_table_discard(struct throttle_change *change); /* NULL is ignored */

/*
 * Growth. A table that was opened with `grows` begins with room for a few hundred callers and gets
 * more as they come, up to its capacity: throttle_table_wants_growth (any thread; two loads)
 * reports that throttle_table_grow is due, and collect after it. (Without `grows` all of the
 * capacity is there from the beginning: nothing is to be called, and each caller costs a page until
 * there are many.)
 *
 * Growth changes nothing that is promised: each caller keeps its throttle as it is, refunds and
 * what is in flight included; other threads and processes continue meanwhile, and may be killed; so
 * may this one. Until it is called, or where it fails, those new to a full bucket share an overflow
 * as in a table that has reached its capacity. The thread that applies grows, between changes. 0,
 * or -1 with errno: EAGAIN or EWOULDBLOCK (the table is being changed, here or by another process),
 * ENOSPC, ENOMEM, ...; all stays as it was, and it can be called again.
 */
bool throttle_table_wants_growth(const struct throttle_table *table);
int throttle_table_grow(struct throttle_table *table);

/* Frees what apply and growth have left behind. To be called when every thread that was in a call
 * during the last of them has left it (a loop turn later, for example), and all others know of
 * it. */
void throttle_table_collect(struct throttle_table *table);

/*
 * Gives back what processes that have ended had in flight, as opening the table does: for a process
 * whose table another one had open, too, and that has seen it end. One that only stands still keeps
 * what it has. Other threads may continue; the thread that applies calls this, between changes. 0,
 * or -1 with errno: EAGAIN or EWOULDBLOCK (another process has the table open, or is changing it;
 * a process that is ending may still have it for a moment), ...; it can be called again.
 */
int throttle_table_end_others(struct throttle_table *table);

/* The number of a limit, or -1. These two belong to the thread that changes limits. */
int throttle_table_find(const struct throttle_table *table, const char *name);
/* The same for a limit that the table has, had, or will have by a prepared change. */
int throttle_table_number(const struct throttle_table *table, const char *name);

/* A copy: the seed stays the same for the table's life, the memory it lies in does not. */
struct throttle_seed throttle_table_seed(const struct throttle_table *table);

/* Says that the clock was set back on purpose: time continues from the newest the table has seen.
 * No other thread may be in a call with a time from before the step. */
void throttle_rebase(struct throttle_table *table, uint64_t now_ns);

/* Says that the wall clock shows `wall_ns` at `now_ns`: from now on periods of calendar limits
 * begin and end by that. Call it after a step of the wall clock; until the first call, and after
 * opening or a rebase, the times passed in are the wall's. A step back forgives nothing: a caller
 * that was charged in a later period stays in that period. Any thread. */
void throttle_set_wall(struct throttle_table *table, uint64_t now_ns, uint64_t wall_ns);

/* ---- verdicts -------------------------------------------------------------------------------- */

struct throttle_charge {
	uint32_t limit; /* from throttle_table_find */
	struct throttle_key caller;
	uint64_t cost; /* requests or bytes; 0 asks only whether anything is free */
};

struct throttle_outcome {
	uint64_t quota;
	uint64_t remaining;      /* after this charge, if it was admitted */
	uint64_t more_ns;        /* after this charge, too: until something of what is used is free
				    again; 0: nothing used */
	uint64_t reset_ns;       /* until all of it is free again */
	uint64_t retry_after_ns; /* when violated: until this cost fits, exact; THROTTLE_NEVER */
	uint64_t at_ns;          /* the time it was recorded at; with precision, when that quantum
				    begins */
	bool violated;
	bool shadow;   /* of a limit in shadow mode: a violation refused nothing */
	bool banned;   /* violated because of a ban: until its end nothing remains */
	bool overflow; /* judged by an overflow throttle */
	bool absent;   /* the table has no such limit (any more): not judged */
};

struct throttle_verdict {
	bool admitted;
	bool delay; /* refused, but every violated limit allows to wait for retry_after_ns */
	uint32_t count, violated, shadowed;
	uint64_t retry_after_ns; /* the latest of the violated */
	struct throttle_outcome outcome[THROTTLE_MAX_CHARGES];
};

/* The charges of one admitted take: plain memory of the caller's, all zero is "nothing". It
 * outlives changes of limits, and is good for as long as the handle is open. */
struct throttle_held {
	uint32_t limit;
	uint32_t flags;
	struct throttle_key caller;
	uint64_t cost, at_ns, given_ns;
	/* by throttle_settle; of an overflow: which one it was */
	uint64_t added, added_at_ns, added_given_ns;
};

struct throttle_receipt {
	uint32_t count;
	struct throttle_held held[THROTTLE_MAX_CHARGES];
};

/*
 * Takes all charges or none. 0, or EINVAL when count is above THROTTLE_MAX_CHARGES.
 * A refusal in a steady state writes nothing (with count_refused or a ban it must). When threads
 * race for the last of several limits, one of them gets it all; another may be refused by what is
 * given back the moment after. `receipt` may be NULL when nothing will be given back.
 */
int throttle_take(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt);

/* The same verdict, taking nothing and counting no refusal. */
int throttle_peek(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict);

/* Brings the caller's memory near, before a take that is to come soon. */
void throttle_prefetch(struct throttle_table *table, uint32_t limit, struct throttle_key caller);

/* ---- afterwards: each works on the i-th of a receipt, or does nothing when it holds none
 * --------- */

/* Gives all of it back, as if never taken (also to concurrency): of a ring or calendar what is
 * still in the window or period, of gcra what has not drained (a last charge whole). */
void throttle_refund(struct throttle_table *table, struct throttle_receipt *receipt, uint32_t i,
	uint64_t now_ns);

/* The true cost is known: the difference is given back, or charged whether it fits or not; also
 * again, when another is known later. Not for concurrency. */
void throttle_settle(struct throttle_table *table, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns);

/* More of it is used up (bytes that passed): charged whether it fits or not, a debt that the next
 * verdicts wait for. It is no part of the receipt: no refund gives it back. */
void throttle_charge(struct throttle_table *table, struct throttle_receipt *receipt, uint32_t i,
	uint64_t cost, uint64_t now_ns);

/* The exchange has ended: concurrency is given back, all else stays taken; the receipt is zeroed.
 * To be called exactly once however the exchange ended, but for receipts that hold no concurrency,
 * where it may be left out; a receipt of a zeroed memory is ignored. */
void throttle_release(
	struct throttle_table *table, struct throttle_receipt *receipt, uint64_t now_ns);

/* Gives everything back and zeroes the receipt: the request was never forwarded. */
void throttle_refund_all(
	struct throttle_table *table, struct throttle_receipt *receipt, uint64_t now_ns);

/* ---- looking and counting -------------------------------------------------------------------- */

/* Returns a caller's use of a limit; takes nothing. false: it has used nothing (no throttle), or
 * there's no such limit. */
bool throttle_explain(struct throttle_table *table, uint32_t limit, struct throttle_key caller,
	uint64_t now_ns, struct throttle_outcome *outcome);

/* The wait until charges of one unit each, of this sum, were admitted one after another, if the
 * caller is charged nothing else meanwhile: for who waits behind others, with their costs in
 * `cost`, which may be above the quota. Exact; with precision, up to a quantum too short for each
 * time that the quota is in it. Takes nothing. */
uint64_t throttle_wait(struct throttle_table *table, uint32_t limit, struct throttle_key caller,
	uint64_t cost, uint64_t now_ns);

/* Forgets what a caller has used up of a limit, and its ban (not what is in flight). false: there
 * was nothing. */
bool throttle_reset(
	struct throttle_table *table, uint32_t limit, struct throttle_key caller, uint64_t now_ns);

struct throttle_counters {
	uint64_t capacity;   /* callers */
	uint64_t entries;    /* callers there are throttles for, empty ones included */
	uint64_t evicted;    /* empty throttles that were given to another caller */
	uint64_t overflowed; /* charges judged by an overflow throttle */
	uint64_t bytes;      /* of the table, all of this limit */
};

/* 0, or -1 when there's no such limit. Sums that other threads are adding to. */
int throttle_table_counters(
	const struct throttle_table *table, uint32_t limit, struct throttle_counters *counters);

/* ---- periods of the calendar, for those who count elsewhere by the same
 * --------------------------
 */

/* A time zone. Immutable: any thread may ask. */
struct throttle_zone;

/* The IANA zone of this name; "" and "UTC" need no file. NULL with errno: EINVAL (not a name),
 * ENOENT (no such zone), EBADMSG (its file is not one), ENOMEM. */
struct throttle_zone *throttle_zone_open(const char *name);
void throttle_zone_close(struct throttle_zone *zone); /* NULL is ignored */

/* The period that `time_s` is in, [*begin_s, *end_s): seconds since 1970, as calendar limits have
 * it. */
void throttle_zone_period(const struct throttle_zone *zone, enum throttle_period period,
	int64_t time_s, int64_t *begin_s, int64_t *end_s);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
