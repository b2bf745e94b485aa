/* See slots.h. */
#include "semaphore/slots.h"

#include <stdio.h>

void slots_name_queue(const struct slots *slots, uint32_t number, enum slots_half half,
	char queue[static SLOTS_QUEUE_BYTES])
{
	snprintf(queue, SLOTS_QUEUE_BYTES, "%.64s-%u-%c", slots->name, number, (char)half);
}

/* Which queues from `first` on are there. */
static enum broker_result probe_batch(const struct slots *slots, enum slots_half half,
	uint32_t first, size_t count, bool present[BROKER_BATCH_MOST])
{
	char names[BROKER_BATCH_MOST][SLOTS_QUEUE_BYTES];
	const char *queues[BROKER_BATCH_MOST];

	for (size_t i = 0; i < count; i++) {
		slots_name_queue(slots, first + (uint32_t)i, half, names[i]);
		queues[i] = names[i];
	}
	return slots->broker->calls->probe(slots->broker, queues, count, present);
}

bool slots_set_has(const struct slots_set *set, uint32_t number)
{
	return set->bits[number / 64] & UINT64_C(1) << number % 64;
}

void slots_set_add(struct slots_set *set, uint32_t number)
{
	set->count += !slots_set_has(set, number);
	set->bits[number / 64] |= UINT64_C(1) << number % 64;
}

void slots_set_remove(struct slots_set *set, uint32_t number)
{
	set->count -= slots_set_has(set, number);
	set->bits[number / 64] &= ~(UINT64_C(1) << number % 64);
}

uint32_t slots_set_below(const struct slots_set *set, uint32_t number)
{
	if (set->count == 0 || number == 0)
		return 0;
	uint32_t word = (number - 1) / 64;
	uint64_t bits = set->bits[word] & UINT64_MAX >> (63 - (number - 1) % 64);

	while (bits == 0 && word > 0)
		bits = set->bits[--word];
	return bits == 0 ? 0 : word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
}

static uint32_t end_of_search(uint32_t last, uint32_t gap)
{
	return last < SLOTS_MOST ? last + gap : SLOTS_MOST + gap;
}

enum broker_result slots_find(const struct slots *slots, enum slots_half half, uint32_t first,
	uint32_t last, uint32_t gap, struct slots_set *found)
{
	uint32_t end = end_of_search(last, gap);
	bool present[BROKER_BATCH_MOST];

	while (first <= end) {
		uint32_t left = end - first + 1;
		size_t count = left < BROKER_BATCH_MOST ? left : BROKER_BATCH_MOST;
		enum broker_result result = probe_batch(slots, half, first, count, present);
		if (result != BROKER_DONE)
			return result;
		for (size_t i = 0; i < count; i++, first++) {
			if (!present[i])
				continue;
			slots_set_add(found, first);
			if (first > last)
				end = end_of_search(first, gap);
		}
	}
	return BROKER_DONE;
}

enum broker_result slots_count(const struct slots *slots, uint32_t *max)
{
	bool present[BROKER_BATCH_MOST];
	uint32_t first = 1;

	for (;; first += BROKER_BATCH_MOST) {
		size_t i = 0;
		enum broker_result result =
			probe_batch(slots, SLOTS_A, first, BROKER_BATCH_MOST, present);
		if (result != BROKER_DONE)
			return result;
		while (i < BROKER_BATCH_MOST && present[i])
			i++;
		*max = first - 1 + (uint32_t)i;
		if (i < BROKER_BATCH_MOST || *max >= SLOTS_MOST)
			return BROKER_DONE;
	}
}
