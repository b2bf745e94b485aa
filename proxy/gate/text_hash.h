/* A fast hash for tables of the operator's texts, eight bytes at a time. Not keyed: nothing that a
 * client sends is put into such a table, only looked up. */
#ifndef GATE_TEXT_HASH_H
#define GATE_TEXT_HASH_H

#include <stdint.h>
#include <string.h>

#include "base/slice.h"

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
