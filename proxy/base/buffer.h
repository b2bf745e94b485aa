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

/* Gives an empty buffer a block. False without memory. */
bool buffer_acquire(struct buffer *buffer, struct buffer_pool *pool);

/* Makes room for a run of `bytes` from start on, moving or enlarging the block (then it is of no
 * pool, which buffer_release knows by its size). False without memory. */
bool buffer_reserve(struct buffer *buffer, struct buffer_pool *pool, size_t bytes);

void buffer_release(struct buffer *buffer, struct buffer_pool *pool);

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
