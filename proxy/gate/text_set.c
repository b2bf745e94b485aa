#include "gate/text_set.h"

#include <stdlib.h>

/* The texts in the set are the operator's, so a client cannot make them collide. */
static uint32_t text_hash(struct slice text)
{
	uint64_t hash = text.len, word;

	for (; text.len >= 8; text.at += 8, text.len -= 8) {
		memcpy(&word, text.at, 8);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	word = 0;
	if (text.len > 0)
		memcpy(&word, text.at, text.len);
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(hash >> 32);
}

bool text_set_init(struct text_set *set, size_t count)
{
	size_t size = 8;

	while (size < count * 2)
		size *= 2;
	*set = (struct text_set){.mask = size - 1};
	set->entries = calloc(size, sizeof(*set->entries));
	return set->entries != NULL;
}

void text_set_free(struct text_set *set)
{
	free(set->entries);
	*set = (struct text_set){0};
}

static struct text_set_entry *find_place(
	const struct text_set *set, struct slice text, uint32_t hash)
{
	size_t i = hash & set->mask;

	while (set->entries[i].text.at &&
		(set->entries[i].hash != hash || !slice_equal(set->entries[i].text, text)))
		i = (i + 1) & set->mask;
	return &set->entries[i];
}

void text_set_add(struct text_set *set, struct slice text, uint32_t number)
{
	uint32_t hash = text_hash(text);
	struct text_set_entry *entry = find_place(set, text, hash);

	if (entry->text.at)
		return;
	*entry = (struct text_set_entry){text, hash, number};
	set->count++;
}

uint32_t text_set_find(const struct text_set *set, struct slice text)
{
	if (set->count == 0 || text.len == 0)
		return TEXT_SET_NONE;
	const struct text_set_entry *entry = find_place(set, text, text_hash(text));
	return entry->text.at ? entry->number : TEXT_SET_NONE;
}
