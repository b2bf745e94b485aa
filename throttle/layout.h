/* How a table lies in its memory: the header, and what is where behind it (generation.h). */
#ifndef THROTTLE_LAYOUT_H
#define THROTTLE_LAYOUT_H

#include "throttle/generation.h"

#define LAYOUT_MAGIC      UINT64_C(0x454c54544f524854) /* "THROTTLE" on a little-endian machine */
#define LAYOUT_VERSION    1
#define LAYOUT_LEVELS_MAX 40

struct header {
	/* Fixed when the table is made; `checksum` is over these and the limits. */
	uint64_t magic;
	uint32_t version, limit_bytes;
	uint64_t bytes, callers, buckets, epoch_ns;
	struct throttle_seed seed;
	uint32_t count, levels;
	_Atomic(uint64_t) checksum;
	/* On cache lines of their own. */
	_Alignas(64) _Atomic(uint64_t) latest;
	_Atomic(uint64_t) latest_copy;
	_Alignas(64) struct throttle_limit limits[];
};

/* The content of a whole header. */
uint64_t layout_checksum(const struct header *header);

/* The bytes of the header and the limits, and of the words of levels and the tallies behind it. */
uint64_t layout_header_bytes(size_t count);
uint64_t layout_tally_bytes(size_t count, uint32_t levels);

/* Of the sections of a limit, in a level of so many buckets; and of a whole table. */
uint64_t layout_level_bytes(const struct throttle_limit *limit, uint64_t buckets);
uint64_t layout_bytes(
	const struct throttle_limit *limits, size_t count, uint64_t buckets, uint32_t levels);

/* Makes the process's side of the limits in the header. 0 or errno. */
int layout_lay(struct generation *generation);

/* Takes a lane that no other process has. 0 or errno. */
int layout_take_lane(struct generation *generation);

#endif
