/*
 * libthrottle: exact, non-locking rate limits in a block of memory.
 *
 *   struct throttle_table          one a program
 *     limit "burst", limit "daily" ...    each a bounded map: caller's hash --> throttle
 *
 *   take(charges, now) --> all admitted, with a receipt each | refused, nothing taken anywhere
 *   release / refund / settle / charge          what becomes known later
 *
 * The promise: for a limit of L per W and any caller, no trailing window of length W ever holds
 * more than L admitted, under any interleaving of any number of threads, across restart (with a
 * state folder) and across change of the limit. And the other side: when fewer than L were admitted
 * in the trailing window, a request is admitted (exact), or at the latest W / slots later.
 *
 * No clock, no locks, no log, no global state: the time is passed in, every function may be called
 * from any thread unless it says otherwise, and a thread that is stopped anywhere stops no other.
 * Nothing is allocated but in throttle_open and throttle_configure.
 */
#ifndef THROTTLE_H
#define THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Time: `now_ns` is nanoseconds since 1970 of a clock that goes on over a restart; best one that is
 * read from the wall once and then advanced by a monotonic clock. When it steps back, a throttle
 * stays at the latest time that it has seen, so a step never admits more; calendar limits need it
 * to be the wall's. Must be at least 2^32 (four seconds) and below 2^62 (the year 2116).
 */

enum throttle_kind {
	THROTTLE_RING,       /* L in any trailing window W */
	THROTTLE_GCRA,       /* smooth: one each W / L, `burst` at once */
	THROTTLE_CALENDAR,   /* L in each hour, day, week or month of a time zone */
	THROTTLE_CONCURRENCY /* L in flight, until released */
};

enum throttle_unit {
	THROTTLE_HOUR,
	THROTTLE_DAY,
	THROTTLE_WEEK, /* from Monday */
	THROTTLE_MONTH
};

#define THROTTLE_NAME_BYTES 64         /* with the NUL */
#define THROTTLE_EXACT      UINT32_MAX /* slots: L of them; up to THROTTLE_EXACT_MAX */
#define THROTTLE_EXACT_MAX  8192       /* the largest L that has a slot for each admission */
#define THROTTLE_SLOTS_MAX  65536      /* the finest division of a window */
#define THROTTLE_QUOTA_MAX  ((uint64_t)1 << 50)
#define THROTTLE_WINDOW_MIN ((uint64_t)1000)                         /* 1 us, in ns */
#define THROTTLE_WINDOW_MAX ((uint64_t)400 * 24 * 3600 * 1000000000) /* 400 days, in ns */
#define THROTTLE_CHARGES    16   /* the most charges of one take */
#define THROTTLE_LIMITS     1024 /* the most limits of one table */

struct throttle_limit {
	const char *name; /* what it is found by again after a change or a restart */
	enum throttle_kind kind;
	uint64_t quota;     /* L, at least 1. Above 2^30 costs are rounded up to L / 2^30 */
	uint64_t window_ns; /* W: ring, gcra */
	/* ring: 0: as many as keep a caller within 128 bytes: exact while L fits, else divided;
	 * THROTTLE_EXACT; or how finely the window is divided when L is larger than that. */
	uint32_t slots;
	uint64_t burst;          /* gcra: 0 means L */
	enum throttle_unit unit; /* calendar */
	const char *time_zone;   /* calendar: IANA name, or a TZif file's path; NULL is UTC */
	uint32_t ban_count;      /* refused that often ... 0: never; up to 16383 */
	uint64_t ban_per_ns;     /* ... in that time from the first on ... */
	uint64_t ban_for_ns;     /* ... refused outright for so long */
	bool count_refused;      /* refused requests are charged too */
};

struct throttle_seed {
	uint64_t word[2];
};

struct throttle_options {
	const char *folder;               /* where the state is kept; NULL: memory only */
	uint64_t capacity;                /* callers for each limit, at least 1 */
	const struct throttle_seed *seed; /* NULL: the folder's, else random */
};

/* Why open or configure failed; errno is set too. What was set aside is no failure: `warning` then
 * says what, and may be set on success. */
struct throttle_error {
	char text[256];
	char warning[256];
};

struct throttle_table;

/*
 * Opens a table with these limits. With a folder, each limit's state is a file there, mapped: it is
 * found again after a crash. A file of another version, machine, size, seed or with garbage in it
 * is renamed to *.aside, with a warning, and one for a limit that changed is converted. NULL on
 * failure: EINVAL (a limit's values; `error` says which), ENOMEM, or what the file system said.
 */
struct throttle_table *throttle_open(const struct throttle_options *options,
	const struct throttle_limit *limits, size_t count, uint64_t now_ns,
	struct throttle_error *error);

/*
 * Changes the limits while others go on using the table. Limits are matched by name; what was
 * admitted under the old form counts under the new one, on the safe side where the two differ.
 * Indices of names that stay do not change; a name that is gone can still be charged until
 * throttle_reclaim. On failure (-1, errno, `error`) nothing has changed. Not to be called by two
 * threads at once.
 */
int throttle_configure(struct throttle_table *table, const struct throttle_limit *limits,
	size_t count, uint64_t now_ns, struct throttle_error *error);

/* Gives back the memory of earlier forms of limits. To be called when every thread that was inside
 * of one of these functions at the last throttle_configure has left it, and nobody uses the indices
 * of names that are gone any more. Without it they are kept until throttle_close. */
void throttle_reclaim(struct throttle_table *table);

/* Nobody may use the table any more. The folder's files stay. NULL is fine. */
void throttle_close(struct throttle_table *table);

/* The index of a limit by its name, for charges; -1: no such. */
int throttle_find(const struct throttle_table *table, const char *name);

/* The seed of throttle_hash. It is kept in the folder, so that callers are found again. */
struct throttle_seed throttle_seed(const struct throttle_table *table);

struct throttle_caller {
	uint64_t word[2];
};

/* SipHash-2-4 with 128 bits of result: a caller by its key. */
struct throttle_caller throttle_hash(
	const struct throttle_seed *seed, const void *bytes, size_t count);

struct throttle_charge {
	uint32_t limit; /* index: throttle_find */
	struct throttle_caller caller;
	uint64_t cost; /* usually 1; 0 asks only whether debt or a ban stands against it */
};

struct throttle_verdict {
	uint64_t remaining; /* after this request, or now when it is refused */
	uint64_t reset_ns;  /* until the next of what was taken is free again; 0: none is taken */
	uint64_t retry_after_ns; /* 0: not violated; else when this cost fits; UINT64_MAX: never
				    (cost over L), or unknown (concurrency) */
	bool violated;
	bool banned;
	bool overflow; /* the table is full here: judged together with other newcomers */
};

/* What was taken. Plain memory of the caller's, all zeroes stands for nothing. It is spent by
 * refund, settle or release; a receipt that is used for none of them need not be given back, but
 * for concurrency. It stays valid across throttle_configure. */
#define THROTTLE_RECEIPT_WORDS 8
struct throttle_receipt {
	uint64_t word[THROTTLE_RECEIPT_WORDS];
};

/*
 * Takes all charges or none; true: taken. `verdicts` has `count` elements, all are set; `receipts`
 * may be NULL, and is zeroed on refusal. At most THROTTLE_CHARGES. A refused request is told by
 * every limit that it violated, each with its time. When threads race for the last of several
 * limits, one may be refused because of another that was taken back an instant later.
 */
bool throttle_take(struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdicts,
	struct throttle_receipt *receipts);

/* What throttle_take would say. Writes nothing; `remaining` is before the cost. */
bool throttle_peek(const struct throttle_table *table, const struct throttle_charge *charges,
	size_t count, uint64_t now_ns, struct throttle_verdict *verdicts);

/* Gives back what the receipt took, as if it had not been, and zeroes it. What has left the window
 * meanwhile is not given back again. For a concurrency limit it is throttle_release. */
void throttle_refund(
	struct throttle_table *table, struct throttle_receipt *receipt, uint64_t now_ns);

/* The true cost is known: gives back what was too much, or charges what is missing as debt. Zeroes
 * the receipt. Nothing for concurrency. */
void throttle_settle(struct throttle_table *table, struct throttle_receipt *receipt,
	uint64_t true_cost, uint64_t now_ns);

/* Concurrency: no longer in flight. Zeroes the receipt. Does nothing for receipts of other kinds.
 */
void throttle_release(struct throttle_table *table, struct throttle_receipt *receipt);

/* Charges what has already passed (bytes of a body), over the limit if need be: the debt stands
 * against the next verdicts. */
void throttle_charge(
	struct throttle_table *table, const struct throttle_charge *charge, uint64_t now_ns);

/* Forgets a caller's admissions and ban. An operator's act: it forgives. True: it was known. */
bool throttle_reset(
	struct throttle_table *table, uint32_t limit, const struct throttle_caller *caller);

/* Of one limit, since open. Sums of counters that are not read at one instant. */
struct throttle_counts {
	uint64_t capacity;     /* callers that have room */
	uint64_t callers;      /* rooms in use, those with an empty window among them */
	uint64_t evicted;      /* rooms taken over from a caller whose window was empty */
	uint64_t overflowed;   /* charges that shared an overflow throttle */
	uint64_t bytes;        /* mapped */
	uint32_t caller_bytes; /* for each caller */
	uint32_t slots;        /* the division in use; the quota when exact; 0: not a ring */
	bool exact;
	bool stored; /* in a file */
};

bool throttle_counts(
	const struct throttle_table *table, uint32_t limit, struct throttle_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
