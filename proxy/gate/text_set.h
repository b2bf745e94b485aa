/* A set of texts with a number each, built once, then only read: plans' callers, allowed and denied
 * keys. Looking up costs one hash and, nearly always, one comparison. */
#ifndef GATE_TEXT_SET_H
#define GATE_TEXT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
