#include "frames/shared_frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "frames/frames.h"

/* Of its holders and bytes. */
static uint64_t memory_of(size_t payload_bytes)
{
	return sizeof(struct shared_frame) + FRAME_HEAD_BYTES + payload_bytes;
}

bool node_sends_take(struct node_sends *sends, uint64_t bytes)
{
	/* Relaxed: a sum, which orders nothing. */
	uint64_t most = atomic_load_explicit(&sends->most, memory_order_relaxed);
	uint64_t before = atomic_fetch_add_explicit(&sends->bytes, bytes, memory_order_relaxed);

	if (most == 0 || (before < most && bytes <= most - before))
		return true;
	node_sends_give(sends, bytes);
	return false;
}

void node_sends_give(struct node_sends *sends, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&sends->bytes, bytes, memory_order_relaxed);
}

/* Where the frame is composed. */
struct frame_room {
	struct frame_sink sink;
	struct shared_frame *frame;
};

static bool put(struct frame_sink *sink, struct slice bytes)
{
	struct shared_frame *frame = CONTAINER_OF(sink, struct frame_room, sink)->frame;

	assert(frame->bytes + bytes.len <= FRAME_HEAD_BYTES + frame->payload_bytes);
	if (bytes.len > 0)
		memcpy(frame->at + frame->bytes, bytes.at, bytes.len);
	frame->bytes += bytes.len;
	return true;
}

static bool compose(struct shared_frame *frame, struct slice payload)
{
	struct frame_room room = {{put}, frame};
	struct frame_pool pool; /* of this thread: it may be none of a worker's */

	frame_pool_init(&pool);
	bool good = frame_write_whole(&pool, frame->opcode, 0, false, payload, &room.sink);
	frame_pool_clear(&pool);
	return good;
}

struct shared_frame *shared_frame_new(
	struct node_sends *budget, uint8_t opcode, struct slice payload)
{
	uint64_t memory = memory_of(payload.len);
	struct shared_frame *frame;

	if (!node_sends_take(budget, memory))
		return NULL;
	frame = malloc(memory);
	if (frame) {
		*frame = (struct shared_frame){
			.budget = budget, .payload_bytes = payload.len, .opcode = opcode};
		atomic_init(&frame->holders, 1);
	}
	if (frame && compose(frame, payload))
		return frame;
	free(frame);
	node_sends_give(budget, memory);
	return NULL;
}

struct shared_frame *shared_frame_hold(struct shared_frame *frame)
{
	/* Relaxed: who holds it already keeps it. */
	atomic_fetch_add_explicit(&frame->holders, 1, memory_order_relaxed);
	return frame;
}

void shared_frame_release(struct shared_frame *frame)
{
	/* Releases this holder's reads to the last one, which acquires them and frees. */
	if (!frame || atomic_fetch_sub_explicit(&frame->holders, 1, memory_order_acq_rel) != 1)
		return;
	node_sends_give(frame->budget, memory_of(frame->payload_bytes));
	free(frame);
}
