/*
 * Buffers that are there only while they hold bytes, so that an idle connection costs none.
 *
 *   block:  |  taken  |  start ... bytes ... end  |  free  |
 *
 * Blocks of one size come from a worker's pool (last freed, first used: it is still in the cache)
 * and go back when they are empty. Invariant: at == NULL, or start <= end <= capacity.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct buffer_pool {
	size_t block_bytes;
	void *free; /* a list through the blocks themselves */
	size_t free_count, keep;
};

struct buffer {
	char *at;
	uint32_t start, end, capacity;
};

/* Keeps at most `keep` free blocks for reuse. */
void buffer_pool_init(struct buffer_pool *pool, size_t block_bytes, size_t keep);
void buffer_pool_clear(struct buffer_pool *pool);

/* As buffer_acquire, with a block that was in no pool yet. */
bool buffer_acquire_new(struct buffer *buffer, const struct buffer_pool *pool);

/* Gives an empty buffer a block, the last one that was given back if there is one. False without
 * memory. */
static inline bool buffer_acquire(struct buffer *buffer, struct buffer_pool *pool)
{
	char *block = pool->free;

	if (!block)
		return buffer_acquire_new(buffer, pool);
	memcpy(&pool->free, block, sizeof(void *));
	pool->free_count--;
	*buffer = (struct buffer){block, 0, 0, (uint32_t)pool->block_bytes};
	return true;
}

/* Makes room for a run of `bytes` from start on, moving or enlarging the block (then it is of no
 * pool, which buffer_release knows by its size). False without memory. */
bool buffer_reserve(struct buffer *buffer, struct buffer_pool *pool, size_t bytes);

/* Gives the block back, if there is one: the buffer is empty then. */
static inline void buffer_release(struct buffer *buffer, struct buffer_pool *pool)
{
	char *block = buffer->at;

	if (!block)
		return;
	if (buffer->capacity == pool->block_bytes && pool->free_count < pool->keep) {
		memcpy(block, &pool->free, sizeof(void *));
		pool->free = block;
		pool->free_count++;
	} else {
		free(block);
	}
	*buffer = (struct buffer){0};
}

static inline size_t buffer_used(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

static inline size_t buffer_room(const struct buffer *buffer)
{
	return buffer->capacity - buffer->end;
}

static inline char *buffer_head(const struct buffer *buffer)
{
	return buffer->at + buffer->start;
}

#endif
