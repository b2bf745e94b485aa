/*
 * Where the primary is, as Redis's Sentinels say (redis.io/docs/latest/develop/reference/
 * sentinel-clients): one Sentinel after the other is asked until one knows the primary. That one is
 * heard from then on, when it reports another primary (+switch-master). Its answer is only an
 * address to connect to: whether that is a primary is asked there (store_server.h).
 */
#ifndef STORE_SENTINEL_H
#define STORE_SENTINEL_H

#include "store/redis_peer.h"
#include "store/store_where.h"

struct sentinel {
	struct redis_peer peer;
	const struct store_where *where; /* not owned */
	unsigned next;                   /* Sentinel to ask */
	unsigned left;                   /* to ask before it is a failure */
	bool is_asking;
	struct deadline timer; /* to ask again after one that was heard is lost */
	char host[REDIS_HOST_BYTES];
	uint16_t port;
	/* The primary is at host and port: the answer to sentinel_ask, or another one. */
	void (*found)(struct sentinel *sentinel);
	/* No Sentinel knew it; peer.why is of the last; they are asked again after a second.
	 */
	void (*failed)(struct sentinel *sentinel);
};

/* Zeroed memory becomes one that does not ask. */
void sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel));
/* Asks the Sentinels of `where`, which must stay until it is closed. */
void sentinel_ask(struct sentinel *sentinel, const struct store_where *where);
/* Stops asking and listening. */
void sentinel_close(struct sentinel *sentinel);
/* Nothing of it is on the loop any more. */
void sentinel_end(struct sentinel *sentinel);

#endif
