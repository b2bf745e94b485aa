#include "base/log_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RING_MIN_BYTES = 4096 };

_Static_assert(sizeof(struct log_record) == 8, "a record's header fills one unit of padding");

static uint64_t record_bytes(uint32_t len)
{
	return sizeof(struct log_record) + (((uint64_t)len + 7) & ~(uint64_t)7);
}

int log_ring_init(struct log_ring *ring, size_t size)
{
	size_t bytes = RING_MIN_BYTES;

	while (bytes < size && bytes <= SIZE_MAX / 2)
		bytes *= 2;
	*ring = (struct log_ring){.mask = bytes - 1};
	ring->bytes = malloc(bytes);
	return ring->bytes ? 0 : ENOMEM;
}

void log_ring_free(struct log_ring *ring)
{
	free(ring->bytes);
	ring->bytes = NULL;
}

uint64_t log_ring_put(struct log_ring *ring, struct log_record record, const char *line)
{
	/* Only this thread writes head: its own value needs no ordering. */
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint64_t size = ring->mask + 1, need = record_bytes(record.len);

	/*
	 * The consumer's line is fetched only when the ring looks half full. Pairs with
	 * log_ring_release: the consumer has done with what it gave back.
	 */
	if (head + need - ring->tail_seen > size / 2)
		ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
	if (need > size - (head - ring->tail_seen)) {
		atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
		return 0;
	}
	uint64_t at = head & ring->mask;
	memcpy(ring->bytes + at, &record, sizeof(record));
	at = (at + sizeof(record)) & ring->mask;
	size_t first = record.len < size - at ? record.len : (size_t)(size - at);
	memcpy(ring->bytes + at, line, first);
	memcpy(ring->bytes, line + first, record.len - first);
	/*
	 * Release for log_ring_peek; seq_cst so that either the consumer, which says that it sleeps
	 * and then looks once more (log_ring_used), sees this record, or the producer sees it
	 * asleep.
	 */
	atomic_store_explicit(&ring->head, head + need, memory_order_seq_cst);
	return head + need - ring->tail_seen;
}

uint64_t log_ring_used(struct log_ring *ring)
{
	/* Pairs with the head store of log_ring_put, see there. */
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_seq_cst);

	return head - atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

bool log_ring_peek(struct log_ring *ring, struct log_record *record, struct iovec span[2])
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t size = ring->mask + 1;

	/* Pairs with the head store of log_ring_put: the record's bytes are there. */
	if (atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
		return false;
	uint64_t at = tail & ring->mask;
	memcpy(record, ring->bytes + at, sizeof(*record));
	at = (at + sizeof(*record)) & ring->mask;
	size_t first = record->len < size - at ? record->len : (size_t)(size - at);
	span[0] = (struct iovec){ring->bytes + at, first};
	span[1] = (struct iovec){ring->bytes, record->len - first};
	return true;
}

uint64_t log_ring_release(struct log_ring *ring)
{
	struct log_record record;
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	memcpy(&record, ring->bytes + (tail & ring->mask), sizeof(record));
	uint64_t bytes = record_bytes(record.len);
	/* Pairs with the acquire load in log_ring_put: the spans were read before. */
	atomic_store_explicit(&ring->tail, tail + bytes, memory_order_release);
	return bytes;
}
