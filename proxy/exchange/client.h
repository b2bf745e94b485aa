/*
 * The client of an exchange, as the exchange knows it: what its request is read from and its
 * response is written to. No unit on the exchange's side names a connection; it reads what is here
 * and does the rest by these operations. The client calls the exchange directly (exchange_begin,
 * exchange_run, exchange_client_gone): it is the one above.
 *
 *   exchange --> struct client (operations) <-- http1/http1_client.c, http2/h2_stream.c
 *
 * An exchange whose client has left has none (NULL).
 */
#ifndef EXCHANGE_CLIENT_H
#define EXCHANGE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "body/flow.h"
#include "body/pump.h"

struct client;
struct client_entry;
struct exchange;
struct forwarded_peer;
struct forwarding;
struct hop;
struct listener;
struct tls_facts;

/* Why a message is refused whose session drains, closes or was aborted. */
#define CLIENT_SESSION_CLOSED "session closed"

/* The result of an interim response. */
enum client_interim {
	CLIENT_INTERIM_PASSED,
	CLIENT_INTERIM_UNKNOWN, /* the client knows none: it is left out */
	CLIENT_INTERIM_EARLY,   /* it is not the exchange's turn on its connection yet */
	CLIENT_INTERIM_NO_MEMORY,
};

/* The rest of a client that continues as something else. */
struct client_rest {
	struct stream_export stream;
	struct buffer in;           /* bytes that it has sent and that were not consumed */
	struct flow out;            /* what is composed for it; nothing in there is borrowed */
	struct client_entry *entry; /* for listener_client_gone; NULL: none */
};

struct client_calls {
	/* Acts on what has changed; when it is at it already, once more at its end. */
	void (*advance)(struct client *client);
	/* Sets its deadline again: the exchange being read has changed what it waits for. */
	void (*watch)(struct client *client);
	/* No further request. */
	void (*finish)(struct client *client);
	/* Cuts it, and ends its exchanges by exchange_client_gone. `why` for the log. */
	void (*close)(struct client *client, const char *why);
	/* Its first exchange is over: on to the next. */
	void (*exchange_ended)(struct client *client, struct exchange *exchange);

	/* How its request's body is framed: sets exchange.framing, and marks the fields of this
	 * hop. 0, or the status that the request is refused with. */
	unsigned (*frame_request)(struct client *client, struct exchange *exchange);
	/* The exchange has read all that is its own. `upgrades`: what follows is not known before
	 * its response is. Nothing is done when another's bytes are due already. */
	void (*request_read)(struct client *client, struct exchange *exchange, bool upgrades);
	/* Passes a 101 on; from here on the bytes are its only exchange's. False: no memory. */
	bool (*begin_tunnel)(struct client *client, struct exchange *exchange);
	/* Behind begin_tunnel, in TUNNEL: what is left of the exchange continues without it, as
	 * bytes, or read as what it asked for (`is_read`). It has ended then. False, and nothing
	 * was done: no memory. */
	bool (*become_tunnel)(struct client *client, struct exchange *exchange, bool is_read);
	/* Behind begin_tunnel: it is the caller's now, with its place among its listener's clients,
	 * which listener_client_gone gives back. Its exchange has no client any more. */
	void (*leave)(struct client *client, struct client_rest *rest);
	/* Bytes of the request's body that were read and not consumed; valid until the next
	 * call. */
	struct slice (*body_here)(struct client *client);
	void (*take_body)(struct client *client, uint32_t bytes);
	/* Bytes of memory that this takes. */
	uint64_t (*body_memory)(struct client *client);
	/* The request's body, as far as it was not taken yet. NULL: all of it was. */
	struct body_source *(*open_body)(struct client *client, struct exchange *exchange);
	/* Before it is opened: is all of the request's body here? Its length may be known then. */
	bool (*body_is_whole)(struct client *client, struct exchange *exchange);
	/* Is what is left of the request's body cheaper to read than to do without its connection?
	 */
	bool (*body_is_short)(struct client *client, const struct exchange *exchange);

	/* Passes on an interim response, whose head is the exchange's `response`; `is_own`: a 100
	 * of our own instead. */
	enum client_interim (*interim)(
		struct client *client, struct exchange *exchange, bool is_own);
	/* The final response's head, framed as this client can read its body, and what is here of
	 * that. DONE, WANTS_READ, WANTS_WRITE: it is composed. NO_MEMORY. Or what is wrong with the
	 * body, and then nothing of it all has left, or will. */
	enum pump_result (*head)(struct client *client, struct exchange *exchange);
	/* Can a reply be composed now? Not behind what is still borrowed of a response. */
	bool (*takes_reply)(const struct client *client);
	/* A locally generated response, defined by answer and outcome. False: no memory. */
	bool (*reply)(struct client *client, struct exchange *exchange);
	/* This client as the sink of a response's body, behind its head. */
	struct body_sink *(*open_response)(struct client *client);
	/* One more interim response this turn, or has it to take some first, or to let others
	 * continue? */
	bool (*takes_interim)(struct client *client);
	/* Has it left something untaken that was sent to it? */
	bool (*is_behind)(struct client *client);
	/* In a drain: is this the last exchange? */
	bool (*is_last)(struct client *client, const struct exchange *exchange);

	/* Messages only (EXCHANGE_MESSAGE and above); NULL otherwise. The message's turn has come:
	 * passes it on, or makes it a request; true: that is to be forwarded to a server. May be
	 * called again after `retry`. */
	bool (*serve)(struct client *client, struct exchange *message);
	/* No byte of that request has left for a server, and none will now. Tries it again later
	 * (exchange_try_later), or returns false: it is refused. NULL: it always is. */
	bool (*retry)(struct client *client, struct exchange *message);
	/* This rider and those behind it do not leave with the message: they wait for turns of
	 * their own (turn_enter_behind). NULL: it has no riders. */
	void (*part)(struct client *client, struct exchange *message, struct exchange *rider);
	/* It is not passed on; what a request would be answered with. Ends it. */
	void (*refuse)(struct client *client, struct exchange *message, unsigned status,
		const char *why, uint64_t retry_after_ms);
};

struct client {
	const struct client_calls *calls;
	struct listener *listener;
	const struct forwarded_peer *peer;
	struct forwarding *forwarding; /* what servers learn of it */
	struct exchange *first;        /* the oldest: only it may write */
	unsigned work;                 /* requests begun and reads made in this turn */
	bool again;                  /* something has changed: it looks once more before it rests */
	struct hop *hop;             /* exchange/hop.h; NULL: it is no node of the fleet */
	struct tls_facts *tls;       /* as long as its stream; NULL: without TLS */
	const struct stream *stream; /* its connection's; NULL: it has none of its own */
};

static inline void client_advance(struct client *client)
{
	client->calls->advance(client);
}

static inline void client_watch(struct client *client)
{
	client->calls->watch(client);
}

static inline void client_finish(struct client *client)
{
	client->calls->finish(client);
}

static inline void client_close(struct client *client, const char *why)
{
	client->calls->close(client, why);
}

static inline void client_exchange_ended(struct client *client, struct exchange *exchange)
{
	client->calls->exchange_ended(client, exchange);
}

static inline void client_request_read(
	struct client *client, struct exchange *exchange, bool upgrades)
{
	client->calls->request_read(client, exchange, upgrades);
}

static inline bool client_begin_tunnel(struct client *client, struct exchange *exchange)
{
	return client->calls->begin_tunnel(client, exchange);
}

static inline bool client_become_tunnel(
	struct client *client, struct exchange *exchange, bool is_read)
{
	return client->calls->become_tunnel(client, exchange, is_read);
}

static inline void client_leave(struct client *client, struct client_rest *rest)
{
	client->calls->leave(client, rest);
}

static inline struct slice client_body_here(struct client *client)
{
	return client->calls->body_here(client);
}

static inline void client_take_body(struct client *client, uint32_t bytes)
{
	client->calls->take_body(client, bytes);
}

static inline uint64_t client_body_memory(struct client *client)
{
	return client->calls->body_memory(client);
}

static inline struct body_source *client_open_body(struct client *client, struct exchange *exchange)
{
	return client->calls->open_body(client, exchange);
}

static inline bool client_body_is_whole(struct client *client, struct exchange *exchange)
{
	return client->calls->body_is_whole(client, exchange);
}

static inline bool client_body_is_short(struct client *client, const struct exchange *exchange)
{
	return client->calls->body_is_short(client, exchange);
}

static inline enum client_interim client_interim(
	struct client *client, struct exchange *exchange, bool is_own)
{
	return client->calls->interim(client, exchange, is_own);
}

static inline enum pump_result client_head(struct client *client, struct exchange *exchange)
{
	return client->calls->head(client, exchange);
}

static inline bool client_reply(struct client *client, struct exchange *exchange)
{
	return client->calls->reply(client, exchange);
}

static inline struct body_sink *client_open_response(struct client *client)
{
	return client->calls->open_response(client);
}

static inline bool client_takes_interim(struct client *client)
{
	return client->calls->takes_interim(client);
}

static inline bool client_is_behind(struct client *client)
{
	return client->calls->is_behind(client);
}

static inline bool client_serve(struct client *client, struct exchange *message)
{
	return client->calls->serve(client, message);
}

static inline bool client_retry(struct client *client, struct exchange *message)
{
	return client->calls->retry && client->calls->retry(client, message);
}

static inline void client_part(
	struct client *client, struct exchange *message, struct exchange *rider)
{
	client->calls->part(client, message, rider);
}

static inline void client_refuse(struct client *client, struct exchange *message, unsigned status,
	const char *why, uint64_t retry_after_ms)
{
	client->calls->refuse(client, message, status, why, retry_after_ms);
}

static inline bool client_is_last(struct client *client, const struct exchange *exchange)
{
	return client->calls->is_last(client, exchange);
}

#endif
