/* Sections by kind and name: a hash table, so that tens of thousands are read in no time. */
#ifndef CONF_NAME_INDEX_H
#define CONF_NAME_INDEX_H

#include <stddef.h>

#include "base/slice.h"
#include "conf/options.h"

struct arena;
struct instance;

/* All zero is an empty one. Its memory is the arena's. */
struct name_index {
	struct instance **slots; /* open addressing; a power of two, at most half of it in use */
	size_t size, used;
};

/* The section is not there yet. */
void name_index_add(struct name_index *index, struct arena *arena, struct instance *instance);

/* NULL when there is none. */
struct instance *name_index_find(
	const struct name_index *index, enum section_id id, struct slice name);

#endif
