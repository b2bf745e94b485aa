/* Texts of lists by their list: a hash table, so that tens of thousands are read in no time. */
#ifndef CONF_TEXT_INDEX_H
#define CONF_TEXT_INDEX_H

#include <stdbool.h>
#include <stddef.h>

struct arena;

struct text_entry {
	const void *list;
	const char *text; /* NULL: a free slot */
};

/* All zero is an empty one. Its memory is the arena's. */
struct text_index {
	struct text_entry *slots; /* open addressing; a power of two, at most half of it in use */
	size_t size, used;
};

/* False: the list has the text already. The text is not copied. */
bool text_index_add(
	struct text_index *index, struct arena *arena, const void *list, const char *text);
bool text_index_has(const struct text_index *index, const void *list, const char *text);

#endif
