/*
 * One owner for all that a snapshot is made of: memory is handed out in order and given back all at
 * once. Things that are not plain memory (a compiled regex) are given a function that frees them
 * then.
 *
 * No caller looks whether memory ran out, as there is no half-built snapshot worth keeping: all
 * that is built runs within arena_run, which ends then. Pass memory that is not the arena's to
 * arena_on_free before you allocate more, or it would be lost.
 */
#ifndef CONF_ARENA_H
#define CONF_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct arena;
struct finalizer;

/* NULL without memory. */
struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* Calls `run(ctx)`. False: memory ran out, and it was left at once, in the middle of whatever it
 * did.
 */
bool arena_run(struct arena *arena, void (*run)(void *ctx), void *ctx);

/* `size` zeroed bytes, aligned for anything. Like all that allocates, within arena_run only. */
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

/* arena_free calls `free_it(thing)`; the last one given goes first. So does arena_free_now, and
 * then arena_free does not. */
struct finalizer *arena_on_free(struct arena *arena, void (*free_it)(void *thing), void *thing);
void arena_free_now(struct finalizer *finalizer);

/* `size` bytes that arena_free_now gives back. */
void *arena_lend(struct arena *arena, size_t size, struct finalizer **loan);

#endif
