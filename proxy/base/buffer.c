#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

void buffer_pool_init(struct buffer_pool *pool, size_t block_bytes, size_t keep)
{
	*pool = (struct buffer_pool){.block_bytes = block_bytes, .keep = keep};
}

void buffer_pool_clear(struct buffer_pool *pool)
{
	while (pool->free) {
		void *block = pool->free;
		memcpy(&pool->free, block, sizeof(void *));
		free(block);
	}
	pool->free_count = 0;
}

bool buffer_acquire_new(struct buffer *buffer, const struct buffer_pool *pool)
{
	char *block = malloc(pool->block_bytes);

	if (!block)
		return false;
	*buffer = (struct buffer){block, 0, 0, (uint32_t)pool->block_bytes};
	return true;
}

bool buffer_reserve(struct buffer *buffer, struct buffer_pool *pool, size_t bytes)
{
	size_t used = buffer_used(buffer);

	if (buffer->start > 0 && buffer->capacity - buffer->start < bytes) {
		memmove(buffer->at, buffer_head(buffer), used);
		buffer->start = 0;
		buffer->end = (uint32_t)used;
	}
	if (buffer->capacity - buffer->start >= bytes)
		return true;
	char *block = malloc(bytes);
	if (!block)
		return false;
	memcpy(block, buffer->at, used);
	buffer_release(buffer, pool);
	*buffer = (struct buffer){block, 0, (uint32_t)used, (uint32_t)bytes};
	return true;
}
