/* A worker's hold on the channels of its node, its held responses, and the signature by which a
 * backend knows sluice. */
#ifndef CHANNELS_CHANNELS_PART_H
#define CHANNELS_CHANNELS_PART_H

#include "base/slice.h"
#include "channels/channels.h"
#include "worker/worker.h"

struct grip_hold;
struct publish_line;

/* The last signature of grip_signature. */
struct grip_signature {
	char *text; /* malloc'ed; NULL: none yet */
	size_t bytes;
	uint64_t made_s;
};

struct worker_channels {
	struct publish_line *line;
	struct channel_view *view; /* of the line */
	struct grip_hold *holds;   /* responses that are held */
	struct grip_signature signature;
	bool drains;
	uint64_t random; /* spreads the ends of held responses; no secret */
};

static inline struct worker_channels *channels_of(const struct worker *worker)
{
	return worker->memory[PART_CHANNELS];
}

/* The value of Grip-Sig, a token signed with grip_key that expires within an hour; empty without a
 * key or memory. It is valid until the worker's next call. */
struct slice grip_signature(struct worker *worker);

extern const struct worker_part channels_part;

#endif
