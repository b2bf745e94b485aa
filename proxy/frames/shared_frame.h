/*
 * A frame to clients, composed once and sent on any number of sockets of any worker. Frames of a
 * server are not masked (RFC 6455 section 5.1), so that all clients get the same bytes.
 *
 *   text --shared_frame_new--> head + payload --hold--> send queues (send_queue.h), by reference
 *                                                            `--> written from here, never copied
 *
 * It never changes once it is made, so threads need no more than its count of holders.
 */
#ifndef FRAMES_SHARED_FRAME_H
#define FRAMES_SHARED_FRAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "worker/node.h"

struct shared_frame {
	atomic_uint holders;
	struct node_sends *budget; /* what it is counted in */
	size_t bytes;              /* of head and payload */
	size_t payload_bytes;
	uint8_t opcode;
	char at[];
};

/* Counts `bytes` of memory for send queues. False: the bound would be passed, and nothing is
 * counted. Any thread. */
bool node_sends_take(struct node_sends *sends, uint64_t bytes);
void node_sends_give(struct node_sends *sends, uint64_t bytes);

/* A whole frame of `opcode` (frames.h) with a copy of the payload; a control frame's has at most
 * FRAME_CONTROL_BYTES. The caller has a hold on it. NULL without memory, or where the send queues
 * of all sockets are at their bound. Any thread; `budget` must outlive it. */
struct shared_frame *shared_frame_new(
	struct node_sends *budget, uint8_t opcode, struct slice payload);

/* Any thread. The last release frees it; NULL is ignored. */
struct shared_frame *shared_frame_hold(struct shared_frame *frame);
void shared_frame_release(struct shared_frame *frame);

#endif
