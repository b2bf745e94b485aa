/* A set of texts with a number each, built once, then only read: plans' callers, allowed and denied
 * keys. Looking up costs one hash and, nearly always, one comparison. */
#ifndef GATE_TEXT_SET_H
#define GATE_TEXT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"

struct text_set_entry {
	struct slice text;
	uint32_t hash;
	uint32_t number;
};

struct text_set {
	struct text_set_entry *entries; /* open addressing; text.at == NULL: free */
	size_t mask;                    /* entries - 1; entries is 0 or a power of two */
	size_t count;
};

/* Room for `count` texts. False when there is no memory. */
bool text_set_init(struct text_set *set, size_t count);
void text_set_free(struct text_set *set);

/* Adds a text, whose bytes must outlive the set; one that is there already keeps its number. At
 * most the number passed to text_set_init. */
void text_set_add(struct text_set *set, struct slice text, uint32_t number);

#define TEXT_SET_NONE UINT32_MAX

/* The text's number, or TEXT_SET_NONE. */
uint32_t text_set_find(const struct text_set *set, struct slice text);

/* ---- text hash ------------------------------------------------------------------------------ */

/* A fast hash for tables of the operator's texts, eight bytes at a time. Not keyed: nothing that a
 * client sends is put into such a table, only looked up. */

static inline uint64_t text_hash_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static inline uint64_t text_hash(struct slice text)
{
	uint64_t hash = text.len, word;

	for (; text.len >= 8; text.at += 8, text.len -= 8) {
		memcpy(&word, text.at, 8);
		hash = text_hash_mix(hash, word);
	}
	/* The rest by sizes that are known, so that each is one load. */
	word = 0;
	if (text.len & 4) {
		uint32_t half;
		memcpy(&half, text.at, 4);
		word = half;
		text.at += 4;
	}
	if (text.len & 2) {
		uint16_t quarter;
		memcpy(&quarter, text.at, 2);
		word = word << 16 | quarter;
		text.at += 2;
	}
	if (text.len & 1)
		word = word << 8 | (unsigned char)text.at[0];
	return text_hash_mix(hash, word);
}

#endif
