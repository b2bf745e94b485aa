/* The parts of a client's connection that speaks HTTP/2 (http2/h2_connection.h) and of its streams
 * (http2/h2_stream.h): the affair of this room. */
#ifndef HTTP2_H2_INSIDE_H
#define HTTP2_H2_INSIDE_H

#include <nghttp2/nghttp2.h>

#include "base/container.h"
#include "base/log.h"
#include "exchange/client.h"
#include "exchange/forwarding.h"
#include "http/forwarded.h"
#include "http/parser.h"
#include "http2/h2_flood.h"
#include "http2/h2_head.h"
#include "http2/h2_link.h"
#include "http2/h2_sink.h"
#include "http2/h2_source.h"
#include "listen/idle_list.h"
#include "listen/listener.h"
#include "net/stream.h"
#include "site/site_use.h"
#include "worker/wait.h"
#include "worker/worker.h"

/* Requests begun and reads made for one connection, before it is the others' turn. */
#define H2_TURN_WORK 32
/* Interim responses passed in one turn, before it is the others' turn. */
#define H2_TURN_INTERIMS 64

struct h2_connection;
struct h2_place;
struct h2_server;

/* Places with an event for their exchanges, by next_ready. */
struct h2_ready {
	struct h2_place *first, **last;
};

/* What a worker's connections have in common. */
struct h2_worker {
	struct worker *worker;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct h2_connection *connections;                 /* all */
	struct h2_connection *unflushed, **last_unflushed; /* written at the round's end */
	struct h2_connection *oldest_lingering, *newest_lingering;
	unsigned lingering;
	struct loop_stage write_stage;

	nghttp2_session_callbacks *server_callbacks;
	struct h2_server *servers; /* all connections to servers */
	struct h2_server *unflushed_servers, **last_unflushed_server; /* as above */
	struct loop_stage server_stage;
	struct h2_link no_link; /* of places that have lost their connection, */
	struct h2_ready lost;   /* and those of them with an event for their exchanges */

	struct h2_stream *spare; /* by `next` */
	unsigned spare_count;
	struct http_parser parser; /* of one head, within a call */
	nghttp2_nv *fields;        /* of one head that leaves */
	size_t field_room;
};

/*
 *   GREETING --> OPEN --> DRAINING --> FINISHING --> LINGERING --> CLOSED
 *      |  (no preface: HTTP/1's)  a GOAWAY announces    the last GOAWAY is composed: no stream
 *      `--> CLOSED                the one that follows  begins any more
 */
enum h2_state {
	H2_GREETING, /* its first bytes show whether it speaks HTTP/2 */
	H2_OPEN,
	H2_DRAINING,
	H2_FINISHING,
	H2_LINGERING,
	H2_CLOSED,
};

/* The work of a connection in one turn of the loop. */
struct h2_turn {
	uint64_t ns;
	unsigned work, interims;
};

/* Of one that lingers, among the worker's. */
struct h2_lingering {
	struct h2_connection *older, *newer;
	uint64_t bytes, since_ms;
};

struct h2_connection {
	struct h2_worker *h2;
	struct worker *worker;
	struct listener *listener;
	struct stream stream;
	struct deferred_free deferred;
	struct wait wait;
	struct h2_connection *prev, *next; /* all of the worker's */
	enum h2_state state;
	struct h2_link link; /* without a session: GREETING, or CLOSED */
	struct buffer in;    /* GREETING: the first bytes; else empty between calls */

	struct h2_connection *next_unflushed;
	bool unflushed; /* on the worker's list */

	struct h2_stream *streams; /* all, by prev and next */
	unsigned stream_count;
	struct h2_stream *ready, **last_ready; /* those that have something to do */
	uint64_t begun;                        /* streams so far */

	struct h2_head head;
	struct h2_flood flood;
	enum h2_flood_kind flooded; /* by which kind of frame; NONE: it is not */
	uint64_t head_since_ms;     /* when the header block began that is open */
	uint64_t since_ms;          /* of the connection */
	uint64_t owed_window;       /* to be given back when our SETTINGS are acknowledged */
	bool settings_known;        /* they are */
	bool busy;                  /* within h2_connection_advance */
	bool stalled;               /* too many frames wait: the rest is read when they have left */
	bool has_interims;          /* a stream has one that waits for room */

	struct h2_turn turn;
	struct h2_lingering linger;
	uint64_t untaken_ms,
		taken; /* the client takes nothing more since, of what it has by then */
	struct idle_link idle;

	struct accepted *accepted;  /* GREETING: as it came, for HTTP/1 */
	struct client_entry *entry; /* listen/accepted.h; NULL: none */
	struct forwarded_peer peer;
	uint64_t judged_by; /* serial of the site whose trusted_proxies the peer was judged by */
	struct forwarding forwarding;
	struct tls_facts *tls;
};

/* A stream, the client of one exchange. It lives until its exchange has ended and the session has
 * closed it. */
struct h2_stream {
	struct client client;
	struct h2_worker *h2;
	struct h2_connection *connection;
	struct h2_stream *prev, *next; /* of the connection's; or spare */
	struct h2_stream *next_ready;
	struct deferred_free deferred;
	struct wait wait;
	struct h2_source source;
	struct h2_sink sink;
	int32_t id;
	bool ready;         /* on the connection's list */
	bool busy;          /* within h2_stream_advance */
	bool closed;        /* the session knows it no more */
	bool has_responded; /* its final head is the session's */
	bool was_reset;     /* by us */
	bool has_interim;   /* its server's interim response waits for the connection's room */
	char *reply;        /* the content of a local response, until it is composed */
};

static inline struct h2_worker *h2_part(const struct worker *worker)
{
	return worker->memory[PART_HTTP2];
}

static inline struct h2_stream *h2_stream_of(struct client *client)
{
	return CONTAINER_OF(client, struct h2_stream, client);
}

static inline struct h2_connection *h2_connection_of(struct h2_link *link)
{
	return CONTAINER_OF(link, struct h2_connection, link);
}

static inline void h2_enter(struct h2_connection *connection, enum h2_state state)
{
	static const char *const names[] = {
		"greeting", "open", "draining", "finishing", "lingering", "closed"};

	log_debug("client %.*s: HTTP/2 %s -> %s",
		SLICE_ARGS(forwarded_peer_text(&connection->peer)), names[connection->state],
		names[state]);
	connection->state = state;
}

/* Something is composed, or will be: it is written at the round's end. */
static inline void h2_write_later(struct h2_connection *connection)
{
	if (connection->unflushed || connection->state == H2_CLOSED)
		return;
	connection->unflushed = true;
	connection->next_unflushed = NULL;
	*connection->h2->last_unflushed = connection;
	connection->h2->last_unflushed = &connection->next_unflushed;
}

/* The stream has something to do in this round. */
static inline void h2_run_later(struct h2_stream *stream)
{
	struct h2_connection *connection = stream->connection;

	if (!stream->ready) {
		stream->ready = true;
		stream->next_ready = NULL;
		*connection->last_ready = stream;
		connection->last_ready = &stream->next_ready;
	}
	h2_write_later(connection);
}

/* What the connection has done in this turn of the loop. */
static inline struct h2_turn *h2_turn(struct h2_connection *connection)
{
	struct h2_turn *turn = &connection->turn;
	uint64_t now_ns = worker_now_ns(connection->worker);

	if (turn->ns != now_ns)
		*turn = (struct h2_turn){.ns = now_ns};
	return turn;
}

/* One more piece of work for this connection in this turn of the loop? */
static inline bool h2_may_work(struct h2_connection *connection)
{
	return h2_turn(connection)->work < H2_TURN_WORK;
}

#endif
