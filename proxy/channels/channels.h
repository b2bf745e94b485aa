/*
 * GRIP's channels: which of a node's sockets are subscribed to which.
 *
 *   shard --- "room" --- worker 0 --- subscription - subscription - ...
 *        `              `- worker 2 --- subscription
 *         `-- "news" --- worker 2 --- subscription - ...
 *
 * Shards, channels and the parts of workers are shared, each shard with its lock; the subscriptions
 * of a part are its worker's alone, and no lock is held while they are walked. A channel exists as
 * long as a socket is subscribed to it or a publication holds it.
 */
#ifndef CHANNELS_CHANNELS_H
#define CHANNELS_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct channels;
struct channel;
struct channel_part;
struct subscriber;

struct subscription {
	struct subscription *prev, *next; /* of a channel and worker, the newest first */
	struct subscription *prev_of_subscriber, *next_of_subscriber;
	struct subscription *next_of_bucket;
	struct channel_part *part;
	struct subscriber *subscriber;
	unsigned filters; /* see grip_control.h; 0: none */
};

struct delivery;

/* Takes what is published: a socket (websocket/grip.h) or a held response (grip_hold.h). Returns
 * whether it was queued or written. May end the subscriber. */
struct subscriber_calls {
	bool (*deliver)(const struct subscription *subscription, const struct delivery *delivery);
};

/* Embedded in a socket, or a held response; its owner sets `calls`. Else all zero: subscribed to
 * nothing. One with many subscriptions has a table of them, by their parts. */
struct subscriber {
	const struct subscriber_calls *calls;
	struct subscription *first; /* the newest */
	struct subscription **buckets;
	uint32_t count, mask;
};

/* A worker's hold on the channels. Its calls are the worker's thread's. */
struct channel_view {
	struct channels *channels;
	unsigned worker;
	/* Where a walk continues (channel_first, then subscription.next), or NULL. It moves on when
	 * that subscription ends. */
	struct subscription *cursor;
};

/* NULL without memory or randomness. */
struct channels *channels_new(void);
/* No socket is subscribed, and no channel is held. NULL is ignored. */
void channels_free(struct channels *channels);

/* How many there are now. Any thread. */
uint64_t channels_count(const struct channels *channels);
uint64_t channels_subscriptions(const struct channels *channels);

/* ---- subscribing ----------------------------------------------------------------------------- */

struct channel_bounds {
	uint64_t channels;      /* of the node */
	uint32_t subscriptions; /* of a subscriber */
};

enum channel_result {
	CHANNEL_SUBSCRIBED, /* also when it was before */
	CHANNEL_TOO_MANY,   /* channels of the node */
	CHANNEL_TOO_MANY_OF_SUBSCRIBER,
	CHANNEL_NO_MEMORY,
};

/* Subscribes to the channel `name`, which is valid (grip_channel_is_valid). */
enum channel_result channel_subscribe(struct channel_view *view, struct subscriber *subscriber,
	struct slice name, const struct channel_bounds *bounds);
/* Sets the filters of its subscription; does nothing where there is none. */
void channel_set_filters(const struct channel_view *view, const struct subscriber *subscriber,
	struct slice name, unsigned filters);
/* Ends its subscription; does nothing where there is none. */
void channel_unsubscribe(
	struct channel_view *view, struct subscriber *subscriber, struct slice name);
/* Ends all of them. */
void channel_unsubscribe_all(struct channel_view *view, struct subscriber *subscriber);

/* Is it subscribed to the channel `name`? */
bool channel_has_subscriber(
	const struct channel_view *view, const struct subscriber *subscriber, struct slice name);

/* ---- publishing ------------------------------------------------------------------------------ */

/* Holds the channel `name`. NULL: no socket is subscribed to it. `*subscriptions` is how many are;
 * `workers[i]` becomes true for each worker, below `worker_count`, that has some. Any thread. */
struct channel *channel_hold(struct channels *channels, struct slice name, uint64_t *subscriptions,
	bool *workers, unsigned worker_count);
/* NULL is ignored. Any thread. */
void channel_release(struct channels *channels, struct channel *channel);

/* The newest subscription at the view's worker, or NULL. */
struct subscription *channel_first(const struct channel_view *view, struct channel *channel);

#endif
