#include "gate/text_set.h"

#include <stdlib.h>

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
	uint32_t hash = (uint32_t)text_hash(text);
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
	const struct text_set_entry *entry = find_place(set, text, (uint32_t)text_hash(text));
	return entry->text.at ? entry->number : TEXT_SET_NONE;
}
