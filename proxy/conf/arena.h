/*
 * One owner for all that a snapshot is made of: memory is handed out in order and given back all at
 * once. Things that are not plain memory (a compiled regex) are given a function that frees them
 * then.
 *
 * There is no half-built snapshot worth keeping when memory runs out while a file is read, and no
 * peer can bring that about: the process ends with a line that says so.
 */
#ifndef CONF_ARENA_H
#define CONF_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* `size` zeroed bytes, aligned for anything. */
void *arena_alloc(struct arena *arena, size_t size);

/* A NUL-terminated copy. */
char *arena_text(struct arena *arena, struct slice text);

char *arena_format(struct arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * `items` holds `count` items of `item_size`; returns it, or a larger copy, with room for one more,
 * zeroed. Room doubles, so arrays grow in linear time; only arrays grown here may be passed.
 */
void *arena_grow(struct arena *arena, void *items, size_t count, size_t item_size);

/* arena_free calls `free_it(thing)`; the last one given goes first. */
void arena_on_free(struct arena *arena, void (*free_it)(void *thing), void *thing);

#endif
