/*
 * The values that a server stores in a gateway for a socket: it sets values by `Set-Meta-NAME:
 * value` in its answers and finds them as `Meta-NAME: value` in each later request (Pushpin,
 * "WebSocket-Over-HTTP Protocol", State Management).
 */
#ifndef CHANNELS_META_H
#define CHANNELS_META_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "http/field_sink.h"

/* So many values, and bytes of them all with their names, does a socket have at most. */
#define META_COUNT 32
#define META_BYTES 4096

struct meta_item {
	char *text; /* the name, then the value; owned */
	size_t name_len, value_len;
};

/* All zero: none. */
struct meta {
	struct meta_item *items;
	unsigned count;
	size_t bytes; /* of names and values */
};

enum meta_result {
	META_SET,
	META_FULL, /* beyond one of the bounds: nothing is changed */
	META_NO_MEMORY,
};

/* Sets a value, or forgets it when `value` is empty. Names are compared without case. Both are
 * copied. */
enum meta_result meta_set(struct meta *meta, struct slice name, struct slice value);

/* The value of this name, or SLICE_NONE; until the next meta_set. */
struct slice meta_find(const struct meta *meta, struct slice name);

/* Their fields; meta_field_bytes returns the total length of these. */
void meta_put_fields(const struct meta *meta, struct field_sink *sink);
size_t meta_field_bytes(const struct meta *meta);

void meta_clear(struct meta *meta);

#endif
