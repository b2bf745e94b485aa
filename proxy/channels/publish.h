/*
 * Publishing to channels: one publication is composed once, and each worker with subscribers takes
 * it from a line of its own.
 *
 *   any thread: publish --lock--> line of worker 0 --message--> walks: item 1, item 2, ...
 *                            `--> line of worker 2                  `- its subscriptions, oldest
 *                                                                      publication first
 *
 * All lines have the publications in one order, that of the calls, so that two of a channel reach
 * every socket in that order. A worker walks at most PUBLISH_STEPS items and subscriptions in a
 * turn of its loop; sockets that subscribe meanwhile are not part of what is walked. A published
 * item is stored once, held by the publication and by the sockets in which it waits.
 */
#ifndef CHANNELS_PUBLISH_H
#define CHANNELS_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "channels/grip_control.h"
#include "worker/node.h"

struct channels;
struct shared_frame;
struct publish_line;
struct publishing;
struct worker;

/* Items and subscriptions that a worker goes through in a turn. */
#define PUBLISH_STEPS 256

/* Publications that may be on their way. */
#define PUBLICATIONS_WAITING 10000

enum publish_action {
	PUBLISH_SEND,
	PUBLISH_CLOSE,
	PUBLISH_REFRESH, /* its sockets' servers get a request without events */
	PUBLISH_NOTHING, /* a hint, or nothing for WebSockets */
};

struct publish_item {
	struct slice channel;
	enum publish_action action;
	uint8_t opcode; /* SEND: of the frame, FRAME_TEXT, FRAME_BINARY, FRAME_PING, FRAME_PONG */
	struct slice content; /* SEND; CLOSE: the reason */
	uint16_t code;        /* CLOSE: a code that a close frame may contain */
	/* For held responses, whatever `action` is: */
	struct slice response; /* a whole one, head and content; NULL: none */
	struct slice stream;   /* content; NULL: none */
	bool closes_stream;    /* behind that */
	struct grip_meta meta;
};

/* The forms of a publication for held responses. */
struct grip_http {
	struct shared_frame *response; /* NULL: none */
	struct shared_frame *stream;   /* NULL: none */
	bool closes;                   /* streams end, behind `stream` */
};

/* A publication, as its subscribers get it; borrowed for the call. */
struct delivery {
	struct shared_frame *frame;   /* for sockets; NULL: none */
	struct grip_http http;        /* for held responses */
	const struct grip_meta *meta; /* NULL: none */
	bool refreshes;               /* servers of sockets get a request without events */
};

enum publish_result {
	PUBLISH_DONE,
	PUBLISH_FULL, /* too many are on their way, or socket_queue_total_bytes is reached */
	PUBLISH_NO_MEMORY,
};

/* Of a node, whose workers are counted. NULL without memory or randomness. */
struct publishing *publishing_new(struct node *node);

/* The line of a worker, which holds `publishing` until publishing_leave. */
struct publish_line *publishing_enter(struct publishing *publishing, struct worker *worker);
/* A worker that entered has ended, with its sockets. True: it was the last, and `publishing` was
 * freed with what was still on its way. */
bool publishing_leave(struct publishing *publishing);

/* The rest of what is published waits for the next turn, which waits for no event. At the end of
 * each turn of the line's worker. */
void publish_line_end_turn(struct publish_line *line);

/* The channels as the line's worker sees them. */
struct channel_view *publish_line_view(struct publish_line *line);

/* The counts. */
enum publish_count {
	PUBLISH_ITEMS,            /* published */
	PUBLISH_DELIVERIES,       /* of them, to sockets' queues */
	PUBLISH_CONTROLS_REFUSED, /* control messages of backends */
	PUBLISH_CHANNELS,         /* now */
	PUBLISH_SUBSCRIPTIONS,    /* now */
};

/* Any thread. */
uint64_t publishing_count(const struct publishing *publishing, enum publish_count count);

/* One control message more was refused. The line's worker. */
void publish_line_refuse(struct publish_line *line);

/* Publishes `count` items, in their order. `*subscriptions` is to how many subscriptions, all items
 * together. All or nothing is published. Any thread; the items are borrowed for the call. */
enum publish_result publish(struct publishing *publishing, const struct publish_item *items,
	size_t count, uint64_t *subscriptions);

static inline struct publishing *node_publishing(const struct node *node)
{
	return node->shared[NODE_PUBLISHING];
}

#endif
