/* Declarations that the two files of the roster share. */
#ifndef GATE_ROSTER_INTERNAL_H
#define GATE_ROSTER_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "gate/roster.h"

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
