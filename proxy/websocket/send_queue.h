/*
 * Frames that wait to be sent to a socket's client, in addition to the messages of its server:
 * frames in two lanes, by reference.
 *
 *   add --> high    a b c  \   at most `high_burst` of the high lane
 *   add --> normal  d e f  /   before one of the normal lane that waits
 *             `--drop_oldest     `--peek--> written by the caller --took--> WRITTEN
 *
 * It has no clock and writes nothing itself. A frame of which some bytes were taken is the next
 * until all of it was: nothing passes it, drops it or clears it but send_queue_end.
 */
#ifndef WEBSOCKET_SEND_QUEUE_H
#define WEBSOCKET_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "frames/shared_frame.h"

enum send_lane { SEND_NORMAL, SEND_HIGH, SEND_LANES };

/* The result of a frame. */
enum send_result {
	SEND_WRITTEN, /* the connection has taken all of it */
	SEND_DROPPED, /* the queue was full */
	SEND_GONE,    /* the socket closes, or has ended */
	SEND_RESULTS,
};

/* The receiver of results. `tell` is called once for each frame, on the thread of the socket; it
 * must touch no socket. The report must outlive all its frames. */
struct send_report {
	void (*tell)(struct send_report *report, enum send_result result);
};

struct send_item {
	struct send_item *next;
	struct shared_frame *frame;
	struct send_report *report; /* NULL: no receiver */
};

struct send_line {
	struct send_item *first, **end;
	uint32_t messages;
	uint64_t bytes; /* of their frames */
};

/* By send_queue_init. */
struct send_queue {
	struct send_line lanes[SEND_LANES];
	struct send_item *current; /* some of it was taken; in no lane */
	size_t taken;              /* of `current` */
	uint32_t high_run;         /* of the high lane since the last of the normal one */
	uint32_t messages;         /* all of them, `current` included */
	uint64_t bytes;            /* of their frames, what was taken of `current` included */
};

struct send_bounds {
	uint64_t bytes;
	uint32_t messages;
};

void send_queue_init(struct send_queue *queue);

/* Frees all, `current` included; each report gets SEND_GONE. It is as after send_queue_init. */
void send_queue_end(struct send_queue *queue);

/* The same for all but `current`. */
void send_queue_clear(struct send_queue *queue);

static inline bool send_queue_is_empty(const struct send_queue *queue)
{
	return queue->messages == 0;
}

/* Were some bytes of a frame taken, and not yet all? */
static inline bool send_queue_is_within(const struct send_queue *queue)
{
	return queue->current != NULL;
}

/* Would a frame of so many bytes keep the bounds? */
bool send_queue_fits(
	const struct send_queue *queue, const struct send_bounds *bounds, size_t frame_bytes);
/* Would it if all of the normal lane went? */
bool send_queue_can_fit(
	const struct send_queue *queue, const struct send_bounds *bounds, size_t frame_bytes);

/* At the end of the lane; takes a hold on the frame. False without memory, or where the queues of
 * all sockets are at their bound: then no report is made. */
bool send_queue_add(struct send_queue *queue, enum send_lane lane, struct shared_frame *frame,
	struct send_report *report);

/* The oldest of the normal lane is dropped, and its report gets SEND_DROPPED. False: there is
 * none. */
bool send_queue_drop_oldest(struct send_queue *queue);

/*
 * The next bytes in the order in which they are due: at most `most` pieces and about `bytes_most`
 * bytes, one piece at least unless it is empty. Returns how many pieces. They stay valid until the
 * queue changes. Nothing is taken.
 */
int send_queue_peek(const struct send_queue *queue, uint32_t high_burst, struct iovec *pieces,
	int most, size_t bytes_most);

/* The frames that send_queue_took has finished. */
struct send_taken {
	uint64_t messages, payload_bytes;
};

/* So many bytes of those were taken, with the same `high_burst` as they were peeked with: frames
 * that were taken whole are reported as SEND_WRITTEN, and removed. */
struct send_taken send_queue_took(struct send_queue *queue, uint32_t high_burst, size_t bytes);

#endif
