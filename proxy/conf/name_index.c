/* See name_index.h. */
#include "conf/name_index.h"

#include <stdint.h>

#include "conf/build.h"

enum { SLOTS_AT_FIRST = 64 };

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv */
static size_t hash(enum section_id id, struct slice name)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)id;

	for (size_t i = 0; i < name.len; i++)
		sum = (sum ^ (unsigned char)name.at[i]) * UINT64_C(0x100000001b3);
	return (size_t)(sum ^ sum >> 32);
}

/* Where it is, or where it would be put. */
static struct instance **slot_of(
	const struct name_index *index, enum section_id id, struct slice name)
{
	size_t at = hash(id, name) & (index->size - 1);

	for (;; at = (at + 1) & (index->size - 1)) {
		struct instance *instance = index->slots[at];

		if (!instance || (instance->section->id == id &&
					 slice_equal(name, slice_of(instance->name))))
			return &index->slots[at];
	}
}

static void grow(struct name_index *index, struct arena *arena)
{
	struct name_index larger = {
		.size = index->size ? index->size * 2 : SLOTS_AT_FIRST, .used = index->used};

	larger.slots = arena_alloc(arena, larger.size * sizeof(struct instance *));
	for (size_t i = 0; i < index->size; i++) {
		struct instance *instance = index->slots[i];

		if (instance)
			*slot_of(&larger, instance->section->id, slice_of(instance->name)) =
				instance;
	}
	*index = larger;
}

void name_index_add(struct name_index *index, struct arena *arena, struct instance *instance)
{
	if (2 * (index->used + 1) > index->size)
		grow(index, arena);
	*slot_of(index, instance->section->id, slice_of(instance->name)) = instance;
	index->used++;
}

struct instance *name_index_find(
	const struct name_index *index, enum section_id id, struct slice name)
{
	return index->size ? *slot_of(index, id, name) : NULL;
}
