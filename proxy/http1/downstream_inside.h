/* The parts of a client's connection (http1/downstream.h): the affair of this room. */
#ifndef HTTP1_DOWNSTREAM_INSIDE_H
#define HTTP1_DOWNSTREAM_INSIDE_H

#include <assert.h>

#include "base/container.h"
#include "exchange/client.h"
#include "exchange/forwarding.h"
#include "http/forwarded.h"
#include "http/parser.h"
#include "http1/http1_sink.h"
#include "http1/http1_source.h"
#include "http1/idle_wait.h"
#include "listen/idle_list.h"
#include "listen/listener.h"
#include "net/stream.h"
#include "site/site_use.h"
#include "worker/wait.h"
#include "worker/worker.h"

/* Requests and reads of one connection, before it is the others' turn. */
#define DOWNSTREAM_TURN_WORK 32

enum downstream_state {
	DOWNSTREAM_OPEN,
	DOWNSTREAM_FINISHING,
	DOWNSTREAM_LINGERING,
	DOWNSTREAM_CLOSED,
};

/* The meaning of the next bytes from the client. downstream_set_input is the one place that changes
 * it.
 *
 *   NONE --> HEAD --> BODY --> UPGRADE --> TUNNEL     and from each of them back to NONE
 *                `-------------^
 */
enum downstream_input {
	INPUT_NONE,    /* a request's beginning */
	INPUT_HEAD,    /* of `reading`'s head: not in the list yet, only `reading` knows it */
	INPUT_BODY,    /* of `reading`'s body, the last in the list */
	INPUT_UPGRADE, /* `reading`, the last in the list, has asked for an upgrade: not known yet
			*/
	INPUT_TUNNEL,  /* of `reading`'s tunnel, the only one in the list */
};

struct downstream {
	struct client client; /* as its exchanges know it */
	struct stream stream;
	struct deferred_free deferred;
	struct wait wait;
	struct worker *worker;
	struct downstream *prev, *next; /* all of the worker's */
	struct exchange *last;          /* of those from client.first on */
	struct exchange *reading;       /* whose `input` is; NULL with INPUT_NONE only */
	enum downstream_input input;
	unsigned exchange_count;
	uint64_t begun; /* exchanges so far */
	enum downstream_state state;
	bool busy;        /* inside downstream_advance: no second entry */
	bool stalled;     /* no request was begun, as too much is composed but unsent */
	bool yields;      /* has done its share of this turn: continues in the next */
	uint64_t turn_ns; /* of client.work */
	bool unflushed;   /* on the worker's list: written at the turn's end */
	struct downstream *next_unflushed;
	struct buffer in;
	struct flow out; /* what is composed and not yet written */
	struct http_parser parser;
	struct http1_source source; /* of `reading`'s body */
	struct http1_sink sink;     /* of `client.first`'s response */
	bool rest_comes; /* of a request that was answered before it was read, or that is none */
	bool was_slow;   /* the request that was being read took too long */
	uint64_t lingered_bytes, lingers_since_ms;
	struct downstream *older, *newer; /* of its listener's that linger (http1/linger.h) */
	struct idle_link idle;            /* of its listener's, since when it was idle last */
	struct idle_wait idle_wait;
	uint64_t written;           /* while flushing replies of our own */
	struct client_entry *entry; /* listen/accepted.h; NULL: none */
	struct forwarded_peer peer;
	uint64_t judged_by; /* serial of the site whose trusted_proxies the peer was judged by */
	struct forwarding forwarding; /* what servers learn of it */
	struct client_rates *rates;   /* http1/client_wait.c; NULL: no min_rate so far */
};

static inline struct downstream *downstream_of(struct client *client)
{
	return CONTAINER_OF(client, struct downstream, client);
}

/* One more piece of work for this connection in this turn of the loop? If not, it continues in the
 * next: a client that never stops sending must not keep its worker from the others. */
static inline bool downstream_may_work(struct downstream *downstream)
{
	uint64_t now_ns = worker_now_ns(downstream->worker);

	if (downstream->turn_ns != now_ns) {
		downstream->turn_ns = now_ns;
		downstream->client.work = 0;
	}
	downstream->yields = downstream->client.work >= DOWNSTREAM_TURN_WORK;
	return !downstream->yields;
}

/* The next input belongs to `exchange` (NULL with INPUT_NONE only). A caller that leaves INPUT_HEAD
 * has put the exchange into the list or ends it. */
static inline void downstream_set_input(
	struct downstream *downstream, enum downstream_input input, struct exchange *exchange)
{
	static const unsigned char leads_to[] = {
		[INPUT_NONE] = 1 << INPUT_HEAD,
		[INPUT_HEAD] = 1 << INPUT_NONE | 1 << INPUT_BODY,
		[INPUT_BODY] = 1 << INPUT_NONE | 1 << INPUT_UPGRADE,
		[INPUT_UPGRADE] = 1 << INPUT_NONE | 1 << INPUT_TUNNEL,
		[INPUT_TUNNEL] = 1 << INPUT_NONE,
	};

	_Static_assert(INPUT_TUNNEL < 8, "inputs are bits of a row");
	assert(leads_to[downstream->input] >> input & 1);
	assert((input == INPUT_NONE) == !exchange);
	assert(downstream->input == INPUT_NONE || !exchange || exchange == downstream->reading);
	assert(input <= INPUT_HEAD || exchange == downstream->last);
	downstream->input = input;
	downstream->reading = exchange;
}

/* Has the client left something untaken that was sent to it? */
static inline bool downstream_is_behind(const struct downstream *downstream)
{
	return !downstream->stream.writable;
}

/* Judges its peer by the trusted_proxies that are in force now: a reload may have changed them. */
static inline void downstream_judge_peer(struct downstream *downstream)
{
	uint64_t serial = site_part(downstream->worker)->use->site->serial;

	if (downstream->judged_by == serial)
		return;
	forwarded_peer_judge(
		&downstream->peer, &downstream->client.listener->conf->trusted_proxies);
	downstream->judged_by = serial;
}

#endif
