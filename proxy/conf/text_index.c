/* See text_index.h. */
#include "conf/text_index.h"

#include <stdint.h>
#include <string.h>

#include "conf/arena.h"

enum { SLOTS_AT_FIRST = 64 };

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv */
static size_t hash(const void *list, const char *text)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)(uintptr_t)list;

	for (; *text; text++)
		sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (size_t)(sum ^ sum >> 32);
}

/* Where it is, or where it would be put. */
static struct text_entry *slot_of(
	const struct text_index *index, const void *list, const char *text)
{
	size_t at = hash(list, text) & (index->size - 1);

	for (;; at = (at + 1) & (index->size - 1)) {
		struct text_entry *entry = &index->slots[at];

		if (!entry->text || (entry->list == list && strcmp(entry->text, text) == 0))
			return entry;
	}
}

static void grow(struct text_index *index, struct arena *arena)
{
	struct text_index larger = {
		.size = index->size ? index->size * 2 : SLOTS_AT_FIRST, .used = index->used};

	larger.slots = arena_alloc(arena, larger.size * sizeof(*larger.slots));
	for (size_t i = 0; i < index->size; i++) {
		const struct text_entry *entry = &index->slots[i];

		if (entry->text)
			*slot_of(&larger, entry->list, entry->text) = *entry;
	}
	*index = larger;
}

bool text_index_add(
	struct text_index *index, struct arena *arena, const void *list, const char *text)
{
	struct text_entry *entry;

	if (2 * (index->used + 1) > index->size)
		grow(index, arena);
	entry = slot_of(index, list, text);
	if (entry->text)
		return false;
	*entry = (struct text_entry){list, text};
	index->used++;
	return true;
}

bool text_index_has(const struct text_index *index, const void *list, const char *text)
{
	return index->used > 0 && slot_of(index, list, text)->text;
}
