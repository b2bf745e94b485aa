/*
 * The ring between a thread that logs and one that writes the log: bytes, one producer, one
 * consumer, no lock.
 *
 *           tail                      head
 *     free   |  record | record | ...  |   free
 *            ^ log_ring_release        ^ log_ring_put
 *
 * head and tail only grow and are taken modulo the size; head - tail bytes are in use. Each is
 * written by one side alone. A record is a header of 8 bytes and the line, padded to 8, so that a
 * header never wraps around and a line is at most two spans.
 */
#ifndef BASE_LOG_RING_H
#define BASE_LOG_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The header of each line in the ring. */
struct log_record {
	uint32_t len;        /* of the line, with its newline */
	uint16_t epoch;      /* how often the log had been configured then, in its lower bits */
	uint8_t prefix;      /* bytes of date and level at its start, which syslog has of its own */
	uint8_t channel : 4; /* enum log_channel */
	uint8_t level : 4;   /* enum log_level */
};

enum log_channel { LOG_CHANNEL_ERROR, LOG_CHANNEL_ACCESS, LOG_CHANNELS };

struct log_ring {
	/* The producer's line. */
	_Alignas(64) _Atomic uint64_t head;
	uint64_t tail_seen;
	_Atomic uint64_t dropped;
	/* The consumer's line. */
	_Alignas(64) _Atomic uint64_t tail;
	/* Never written after log_ring_init. */
	_Alignas(64) uint64_t mask;
	char *bytes;
};

/* `size` bytes, rounded up to a power of two of at least 4096. Returns 0 or ENOMEM. */
int log_ring_init(struct log_ring *ring, size_t size);
void log_ring_free(struct log_ring *ring);

/*
 * Producer: puts the line in, whole or not at all. Returns the bytes now in use (an upper
 * bound while that is below half the ring), or 0 when there was no room and the line was counted as
 * dropped.
 */
uint64_t log_ring_put(struct log_ring *ring, struct log_record record, const char *line);

/* Consumer: bytes in use. Pairs with the head store of log_ring_put, in one total order (seq_cst).
 */
uint64_t log_ring_used(struct log_ring *ring);

/*
 * Consumer: the oldest record and its line in one or two spans (the second may be empty), valid
 * until log_ring_release takes it out. False when the ring is empty. log_ring_release returns the
 * bytes given back; only after a log_ring_peek that found something.
 */
bool log_ring_peek(struct log_ring *ring, struct log_record *record, struct iovec span[2]);
uint64_t log_ring_release(struct log_ring *ring);

#endif
