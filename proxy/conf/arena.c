/* Chunks in a list, each larger than the last up to a bound. See arena.h. */
#include "conf/arena.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

struct chunk {
	struct chunk *next;
	size_t used, size;
	alignas(max_align_t) unsigned char bytes[];
};

struct finalizer {
	struct finalizer *next;
	void (*free_it)(void *thing); /* NULL: it was */
	void *thing;
};

struct arena {
	struct chunk *chunks;
	struct finalizer *finalizers;
	size_t next_chunk_bytes;
	bool is_running;
	jmp_buf no_memory;
};

struct arena *arena_new(void)
{
	struct arena *arena = calloc(1, sizeof(*arena));

	if (arena)
		arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
	return arena;
}

bool arena_run(struct arena *arena, void (*run)(void *ctx), void *ctx)
{
	arena->is_running = true;
	if (setjmp(arena->no_memory) != 0) {
		arena->is_running = false;
		return false;
	}
	run(ctx);
	arena->is_running = false;
	return true;
}

void arena_free(struct arena *arena)
{
	if (!arena)
		return;
	for (struct finalizer *f = arena->finalizers; f; f = f->next)
		arena_free_now(f);
	for (struct chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(arena);
}

/* NULL without memory. */
static struct chunk *add_chunk(struct arena *arena, size_t at_least)
{
	size_t size = at_least > arena->next_chunk_bytes ? at_least : arena->next_chunk_bytes;
	struct chunk *chunk = calloc(1, sizeof(*chunk) + size);

	if (!chunk)
		return NULL;
	chunk->size = size;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES)
		arena->next_chunk_bytes *= 2;
	return chunk;
}

static void *try_alloc(struct arena *arena, size_t size)
{
	size_t rounded = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	struct chunk *chunk = arena->chunks;
	void *memory;

	if (!chunk || chunk->size - chunk->used < rounded)
		chunk = add_chunk(arena, rounded);
	if (!chunk)
		return NULL;
	memory = chunk->bytes + chunk->used;
	chunk->used += rounded;
	return memory;
}

static _Noreturn void leave(struct arena *arena)
{
	assert(arena->is_running);
	longjmp(arena->no_memory, 1);
}

void *arena_alloc(struct arena *arena, size_t size)
{
	void *memory = try_alloc(arena, size);

	if (!memory)
		leave(arena);
	return memory;
}

char *arena_text(struct arena *arena, struct slice text)
{
	char *copy = arena_alloc(arena, text.len + 1);

	if (text.len)
		memcpy(copy, text.at, text.len);
	return copy;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
	va_list args, again;
	int len;
	char *text;

	va_start(args, format);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, format, args);
	text = arena_alloc(arena, len < 0 ? 1 : (size_t)len + 1);
	if (len >= 0)
		vsnprintf(text, (size_t)len + 1, format, again);
	va_end(again);
	va_end(args);
	return text;
}

void *arena_grow(struct arena *arena, void *items, size_t count, size_t item_size)
{
	void *larger;

	/* Full exactly when the count is 0, 4, 8, 16, ... */
	if (count != 0 && (count < 4 || (count & (count - 1)) != 0))
		return items;
	larger = arena_alloc(arena, (count ? count * 2 : 4) * item_size);
	if (count)
		memcpy(larger, items, count * item_size);
	return larger;
}

struct finalizer *arena_on_free(struct arena *arena, void (*free_it)(void *thing), void *thing)
{
	struct finalizer *finalizer = try_alloc(arena, sizeof(*finalizer));

	if (!finalizer) {
		free_it(thing);
		leave(arena);
	}
	finalizer->free_it = free_it;
	finalizer->thing = thing;
	finalizer->next = arena->finalizers;
	arena->finalizers = finalizer;
	return finalizer;
}

void *arena_lend(struct arena *arena, size_t size, struct finalizer **loan)
{
	void *memory = malloc(size);

	if (!memory)
		leave(arena);
	*loan = arena_on_free(arena, free, memory);
	return memory;
}

void arena_free_now(struct finalizer *finalizer)
{
	if (finalizer->free_it)
		finalizer->free_it(finalizer->thing);
	finalizer->free_it = NULL;
}
