/*
 * An operator's settings for single callers while sluice runs, in addition to the configuration:
 * which plan a key has, and overrides of callers that end by themselves.
 *
 *   admin: put --> file in the state folder (write, fsync, rename, fsync) --> tables in memory
 *   gate (any thread): find in the tables, without a lock
 *
 * A key here takes precedence over the lists in the files of plans. A change is on disk before it
 * is seen, or nothing has changed. The tables grow and never shrink: what was taken out leaves its
 * place for when it comes back, and all of it is freed with the roster.
 */
#ifndef GATE_ROSTER_H
#define GATE_ROSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"

struct roster;

/* A plan's name as the roster knows it; the same for its life. */
#define ROSTER_PLAN_NONE 0U /* the key has no setting */
#define ROSTER_PLAN_REVOKED                                                                        \
	UINT32_MAX /* it is refused even if a file or an override lets it pass */

enum roster_override_kind {
	ROSTER_NO_OVERRIDE,
	ROSTER_EXEMPT, /* no limits */
	ROSTER_DENY,   /* 403 */
	ROSTER_PLAN,   /* as if its key had that plan */
};

struct roster_override {
	enum roster_override_kind kind;
	uint32_t plan;    /* ROSTER_PLAN */
	uint64_t until_s; /* unix time; from then on there is none */
};

/* Reads `folder`'s file when there is one; NULL: memory only. A file that is no roster is renamed
 * to `roster.set-aside`. NULL with a sentence in `why` when it can't be read, has another version
 * (it stays as it is), or without memory.
 * `why` has a sentence, too, when a file was set aside; else it is empty. */
struct roster *roster_open(const char *folder, uint64_t now_s, char *why, size_t why_bytes);
/* No thread may look anything up any more. NULL is ignored. */
void roster_close(struct roster *roster);

/* Does it outlive the process? */
bool roster_is_kept(const struct roster *roster);

/* The number of a plan, made if need be; 0 without memory. The name of a number, or NULL. These and
 * the puts belong to one thread. */
uint32_t roster_plan_number(struct roster *roster, const char *name);
const char *roster_plan_name(const struct roster *roster, uint32_t plan);

/* A key may be its SHA-256 (base/digest.h), which finds the key that it is of. ROSTER_PLAN_NONE
 * takes it out. 0, or errno: ENOMEM, or what writing the file met; nothing has
 * changed then. Overrides that are over at `now_s` (unix time) leave the file, and are not read by
 * roster_open. */
int roster_put_key(struct roster *roster, struct slice key, uint32_t plan, uint64_t now_s);
int roster_put_override(struct roster *roster, uint64_t caller,
	const struct roster_override *override, uint64_t now_s);

/* Is a key or an override in force at `now_s`? Those that were taken out or are over do not count.
 * On the thread of the puts. */
bool roster_is_in_force(const struct roster *roster, uint64_t now_s);

/* ---- any thread ------------------------------------------------------------------------------ */

/* Was anything ever in it? Most never have anything. */
bool roster_has_keys(const struct roster *roster);
bool roster_has_overrides(const struct roster *roster);

/* Of the key itself, else of its digest. */
uint32_t roster_find_key(const struct roster *roster, struct slice key);
/* The setting of exactly this text. */
uint32_t roster_find_text(const struct roster *roster, struct slice text);
/* One that has not ended at `now_s`; else kind is ROSTER_NO_OVERRIDE. `caller` is `lo` of its key
 * in the throttles. */
struct roster_override roster_find_override(
	const struct roster *roster, uint64_t caller, uint64_t now_s);

/* ---- roster internal ------------------------------------------------------------------------ */

/* Declarations that the two files of the roster share. */

#define ROSTER_PLANS_MAX 65535 /* a plan's number fits 16 bits of an override */

/* A key, or a caller's override. */
struct roster_entry {
	struct roster_entry *next; /* of the side's */
	uint64_t hash, caller;     /* caller: of an override */
	struct slice key;          /* of a key: `text` */
	_Atomic uint64_t value;    /* 0: nothing. A plan's number, or roster_pack */
	char text[];
};

/* Open addressing, at most half full. */
struct roster_table {
	struct roster_table *older;
	size_t mask;
	struct roster_entry *_Atomic places[];
};

struct roster_side {
	struct roster_table *_Atomic table; /* NULL: none was ever put */
	struct roster_entry *entries;
	size_t count;
};

struct roster {
	char *folder; /* NULL: memory only */
	char **plans; /* by number - 1 */
	uint32_t plan_count;
	struct roster_side keys, overrides;
	atomic_bool has_digests;
	bool is_reading; /* nothing is written then */
};

/* An override in one word: kind, plan and time. */
static inline uint64_t roster_pack(const struct roster_override *override)
{
	return override->kind == ROSTER_NO_OVERRIDE
		       ? 0
		       : override->until_s << 20 | (uint64_t)(override->plan & 0xffff) << 4 |
				 (uint64_t) override->kind;
}
static inline struct roster_override roster_unpack(uint64_t value)
{
	return (struct roster_override){(enum roster_override_kind)(value & 0xf),
		(uint32_t)(value >> 4 & 0xffff), value >> 20};
}

/* Writes the file as it will be when `entry` of `side`, which need not be in it yet, has `value`.
 * 0, or errno and the file is as before. Whether the new file outlives a failure of the machine may
 * be unsure; then the log reports it. */
int roster_write(struct roster *roster, const struct roster_side *side,
	const struct roster_entry *entry, uint64_t value, uint64_t now_s);

/* Reads the file. False with a sentence when it can't be read; see roster_open. */
bool roster_read(struct roster *roster, uint64_t now_s, char *why, size_t why_bytes);

#endif
