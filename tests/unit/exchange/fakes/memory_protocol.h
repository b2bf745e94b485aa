/*
 * A second protocol on both sides of an exchange, without a wire: heads are names and values in a
 * form of its own, bodies are runs in memory with windows of bytes that their sinks accept. Nothing
 * here, and nothing that the exchange does for it, is HTTP/1.
 *
 *   memory_client (exchange/client.h) --> exchange --> memory_server (upstream/server.h)
 */
#ifndef TESTS_EXCHANGE_FAKES_MEMORY_PROTOCOL_H
#define TESTS_EXCHANGE_FAKES_MEMORY_PROTOCOL_H

#include "exchange/client.h"
#include "exchange/exchange.h"
#include "flight.h"

/* The forms of heads, of clients and of servers: heads of the one are no runs of the other. */
enum { CLIENT_MAJOR = 7, SERVER_MAJOR = 8 };

struct text {
	char at[4096];
	size_t len;
};

struct memory_source {
	struct body_source source;
	const char *content; /* what has come, */
	size_t len, lent;    /* how much that is, and how much of it was lent */
	bool is_all, is_cut;
	unsigned released;
};

struct memory_sink {
	struct body_sink sink;
	struct slice run; /* borrowed */
	struct text *text;
	size_t window; /* so many bytes may leave */
	bool ended;
	struct buffer kept;
};

struct memory_client {
	struct client client;
	struct forwarded_peer peer;
	struct forwarding forwarding;
	struct memory_source source;
	struct memory_sink sink;
	struct text head, got;
	bool busy, is_closed, has_ended;
	unsigned status;
};

struct memory_server {
	struct server_connection connection;
	struct memory_source source;
	struct memory_sink sink;
	struct http_head *response;
	struct text head;
	unsigned status;                          /* of a head that has come and was not read */
	bool has_stopped, is_malformed, has_more; /* its head is; behind the response */
};

extern const struct body_source_calls memory_source_calls;
extern const struct body_sink_calls memory_sink_calls;
extern const struct client_calls memory_client_calls;
extern const struct server_calls memory_server_calls;

/* The latest request that a server got, with its content. */
extern struct text memory_received;

/* The content so far; `is_all`: there is no more. */
void memory_feed(struct memory_source *source, const char *content, bool is_all);

/* Makes the head with this beginning and one field, whose bytes are in `text`. */
void memory_make_head(struct http_head *head, struct text *text, const char *start,
	struct slice name, struct slice value, unsigned major);

struct memory_server *memory_server_of(const struct server_connection *connection);

#endif
