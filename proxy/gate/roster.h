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

#include <stdbool.h>
#include <stdint.h>

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

#endif
