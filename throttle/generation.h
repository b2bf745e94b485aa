/*
 * One set of limits over one block of memory.
 *
 *   header | limit 0 .. n-1 as written | levels in use, tallies | limit 0 | limit 1 | ...
 *                                                                 |
 *           level 0: section, its bans | level 1: section, its bans | ... each twice the last
 *
 * The header says whose table this is (version, machine, size, limits, all under a checksum); what
 * changes in it is the newest time seen. A file of the name GENERATION_NEXT beside a table is one
 * that its callers are being moved to.
 *
 * Of each limit only some levels are in use, and only their memory is reserved (store.h):
 *
 *   opening one   reserved, then the word of levels says so; if there is no room all stays as it is
 *   giving up     all buckets of the lowest were split, then the word says so; its memory is given
 *   the lowest    back when no thread of any process can be in it any more
 *
 * A process killed in the middle of either has done it or not. All processes that have the table
 * open see the same word, and continue from level to level by what the buckets say (section.h).
 */
#ifndef THROTTLE_GENERATION_H
#define THROTTLE_GENERATION_H

#include "throttle/section.h"
#include "throttle/store.h"

#define GENERATION_FILE "throttle.table"
#define GENERATION_NEXT "throttle.next"

#define GENERATION_NEAR_IDS 64

/* The memory before the limits. */
struct header;

/* By which way of quick.c verdicts are given, as a rule. */
enum quick {
	QUICK_NOT,    /* none: take.c */
	QUICK_ANY,    /* a kind's plan */
	QUICK_WINDOW, /* window_judge_now */
	QUICK_RING,   /* ring_short_view */
};

/* One limit with what belongs to it. */
struct limit_state {
	struct throttle_limit limit;
	unsigned level;
	uint64_t at, bytes; /* of the level's memory */
	unsigned begins;    /* of the first level: the one that lookups of this process begin at */
	struct section section, bans;
	bool has_bans;
	enum quick quick;
	uint64_t reported_quota; /* the quota as verdicts report it */
	uint32_t number;         /* the generation's */
	struct zone *zone;
	_Atomic(uint64_t) period_cache; /* the first level's is that of all */
};

struct generation {
	struct store store;
	struct header *header;
	_Atomic(uint64_t) *latest; /* the newest time seen, about; in the header */
	uint64_t epoch_ns, callers;
	uint64_t buckets; /* of the first level */
	uint32_t number;  /* how many this handle had before: generation_set_number */
	unsigned lane;
	uint32_t count, levels;
	struct limit_state *limits;       /* [count][levels] */
	_Atomic(uint64_t) *levels_in_use; /* [count]; in the memory */
	_Atomic(uint64_t) wants_growth;   /* levels_grow may find something to do */
	bool has_given_up;                /* levels whose memory can be given back */
	bool was_alone;                   /* when it was opened, no other process had it open */
	/* By a handle's number of a limit: its lowest level in use, or one that was; generation_id.
	 * The first are here, where a verdict finds them by one load less. */
	_Atomic(struct limit_state *) near_ids[GENERATION_NEAR_IDS], *far_ids;
	uint32_t ids;
	struct generation *retired; /* the next in the list of what awaits collection */
};

enum generation_check { GENERATION_GOOD, GENERATION_BAD };

/* Where the memory is to come from. */
struct generation_source {
	const char *folder; /* NULL: anonymous */
	bool shareable;     /* that, but with a descriptor for another process */
	const char *name;
	struct throttle_seed seed;
	uint64_t epoch_ns, latest;
	uint64_t callers, buckets;
	uint32_t levels;
	const struct generation *last; /* whose limits' levels it begins with; NULL: the first */
	bool grows;                    /* else all levels above are made ready at once */
};

/* A new one. NULL with errno. The limits have been checked. */
struct generation *generation_create(
	const struct generation_source *source, const struct throttle_limit *limits, size_t count);

/* The one in a file, with the limits that it was made for. NULL with errno: ENOENT, EBADMSG (with
 * `why`: it can't be used), or the error of opening it. */
struct generation *generation_open(
	const char *folder, const char *name, uint64_t now_ns, char *why, size_t why_bytes);

/* The newest time in a file's table, in ns since 1970: what another process that has it open goes
 * by. 0: there is none, or it says none. */
uint64_t generation_peek(const char *folder, const char *name);

/* The same of the one behind a descriptor (store_open_shared), which it leaves locked. */
struct generation *generation_open_shared(int shared, uint64_t now_ns, char *why, size_t why_bytes);

void generation_free(struct generation *generation);

const struct throttle_seed *generation_seed(const struct generation *generation);
/* As they were written. */
const struct throttle_limit *generation_limits(const struct generation *generation);
static inline uint64_t generation_latest(const struct generation *generation)
{
	/* relaxed: a time by itself; what orders it is said where that matters */
	return atomic_load_explicit(generation->latest, memory_order_relaxed) & ~LATEST_CLOSED;
}

/* Where the limit of a number below `ids` is. */
static inline _Atomic(struct limit_state *) *generation_id(struct generation *g, uint32_t id)
{
	return id < GENERATION_NEAR_IDS ? &g->near_ids[id] : &g->far_ids[id - GENERATION_NEAR_IDS];
}

/* Before any other thread knows of it. */
void generation_set_number(struct generation *generation, uint32_t number);

/* The lowest level in use of the i-th limit. */
static inline struct limit_state *generation_limit(const struct generation *g, uint32_t i)
{
	return &g->limits[i * g->levels + levels_bottom(atomic_load_explicit(
						  &g->levels_in_use[i], memory_order_acquire))];
}

/* How many buckets and levels are room for so many callers, in one level or from few buckets on. */
void generation_size(struct generation_source *source, uint64_t callers, bool grows);

bool generation_has_limits(
	const struct generation *generation, const struct throttle_limit *limits, size_t count);
struct limit_state *generation_find(const struct generation *generation, const char *name);
/* The one whose callers this limit continues with, or NULL. */
struct limit_state *generation_predecessor(
	const struct generation *last, const struct throttle_limit *limit);

/* Lets each section of `next` find its callers in `last`'s section of the same name. */
void generation_link(struct generation *next, struct generation *last);
void generation_move_all(struct generation *generation);

/* Forgets what was in flight in processes that have ended, if no other one has it open; false: one
 * has. While no other opens it. */
bool generation_clear_ended(struct generation *generation);

/* At opening: a move that was under way is not to be continued. */
void generation_thaw(struct generation *generation);

/*
 * A caller's time as the table has it: since the epoch, and never more than a second behind the
 * newest that any thread has passed in. `offset` is the handle's (throttle_rebase). False: the
 * table is closed, its callers are being moved to a newer one.
 */
bool generation_time(
	struct generation *generation, uint64_t now_ns, uint64_t offset, uint64_t *now);

#endif
