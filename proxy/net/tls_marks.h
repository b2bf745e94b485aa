/*
 * How many of the plain bytes that were written the peer has taken, by how many of the encrypted
 * ones it has: marks of both counts at the ends of records, the oldest first.
 *
 *   plain      |----a----|--b--|------c------|        taken: all before the last mark that is
 *   encrypted  |-----a------|---b---|------c-------|  reached, so at most a record too few
 *
 * When there is no room, every second mark is dropped: the count is coarser then, and exact again
 * when all is taken.
 */
#ifndef NET_TLS_MARKS_H
#define NET_TLS_MARKS_H

#include <stdint.h>

#define TLS_MARKS 16

struct tls_mark {
	uint64_t plain, encrypted;
};

struct tls_marks {
	struct tls_mark at[TLS_MARKS];
	unsigned count;
	uint64_t taken; /* plain, as far as was counted */
};

static inline void tls_marks_add(struct tls_marks *marks, uint64_t plain, uint64_t encrypted)
{
	if (marks->count == TLS_MARKS) {
		for (unsigned i = 0; i < TLS_MARKS / 2; i++)
			marks->at[i] = marks->at[2 * i + 1];
		marks->count = TLS_MARKS / 2;
	}
	marks->at[marks->count++] = (struct tls_mark){plain, encrypted};
}

/* `encrypted` of them are taken: the plain bytes that are. It never falls. */
static inline uint64_t tls_marks_take(struct tls_marks *marks, uint64_t encrypted)
{
	unsigned reached = 0;

	while (reached < marks->count && marks->at[reached].encrypted <= encrypted)
		marks->taken = marks->at[reached++].plain;
	for (unsigned i = reached; i < marks->count; i++)
		marks->at[i - reached] = marks->at[i];
	marks->count -= reached;
	return marks->taken;
}

#endif
