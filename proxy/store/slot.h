/*
 * The hash slots of a Redis Cluster (redis.io/docs/latest/operate/oss_and_stack/reference/
 * cluster-spec), and how callers are spread over them. Pure; private to the fleet.
 *
 * A call of a function may only have keys of one slot. So callers are divided into parts: all keys
 * of a part have its number in braces, the hash tag, and so lie in one slot; the part's epoch
 * (judge.lua) is one of them. Part 0 is all callers, of a store that is no cluster.
 */
#ifndef STORE_SLOT_H
#define STORE_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "throttle/throttle.h"

#define SLOTS      16384
#define SLOT_PARTS 1024 /* their numbers are 1 to this */

/* The slot of a key: of the text between its first '{' and the next '}', if there is any. */
uint16_t slot_of_key(const char *key, size_t len);

/* The part that a caller belongs to. */
static inline unsigned slot_part_of(struct throttle_key caller)
{
	return 1 + (unsigned)((caller.lo >> 8 ^ caller.hi) % SLOT_PARTS);
}

#define SLOT_TAG_BYTES 4 /* with its NUL */

/* Writes the tag of a part, without braces. */
void slot_write_tag(unsigned part, char tag[SLOT_TAG_BYTES]);
/* The slot of a part, 0 of part 0. */
uint16_t slot_of_part(unsigned part);

#endif
