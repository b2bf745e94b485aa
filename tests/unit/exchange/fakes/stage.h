/*
 * A daemon for tests of its units: one worker with its site, queue, gate and counters, all real,
 * and without a thread, a socket or a clock. The test plays both sides, and the time.
 *
 *   fake client (client.h) --> exchange --> the unit under test --> memory stream --> the test
 *
 * Connections to servers are streams in memory: socket_stream_connect is replaced at link time, and
 * so are the lines of the logs (lines.h). Programs need $(stage_sources) and $(stage_flags).
 */
#ifndef TESTS_EXCHANGE_FAKES_STAGE_H
#define TESTS_EXCHANGE_FAKES_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"
#include "http/forwarded.h"
#include "lines.h"
#include "exchange/client.h"
#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "http1/http1_sink.h"
#include "http1/http1_source.h"
#include "listen/listener.h"
#include "daemon/daemon.h"
#include "upstream/server_inside.h"
#include "exchange/turn.h"
#include "exchange/turn_place.h"
#include "tests/unit/net/memory_stream.h"

#define STAGE_SERVERS  256
#define STAGE_START_MS 1000000
#define STAGE_ROOM     65536 /* bytes that a stream in memory holds each way */

/* What the configuration has besides a listener `l`, an upstream `u` of one server and a route `r`:
 * lines of these sections, and other sections. */
struct stage_conf {
	const char *node, *listener, *upstream, *route, *more;
	bool two_workers; /* a second one, which has nothing to do before the test gives it work */
};

/* A client that notes what it is asked for, and has a stream in memory. It reads requests only when
 * the test gives it one. */
struct stage_client {
	struct client client;
	struct forwarded_peer peer;
	struct forwarding forwarding;
	struct stream stream;
	struct memory_peer *wire;
	struct buffer in;
	struct flow out;
	struct http_parser parser;
	struct http1_source source;
	struct http1_sink sink;
	struct exchange *last;
	bool is_behind, is_last, takes_no_interim; /* what it says of itself */
	unsigned advanced, watched;
	char trace[1024]; /* `read ` `finish ` `close(why) ` `ended ` `tunnel `, in that order */
};

/* A connection that was made to a server. */
struct stage_server {
	struct memory_peer *wire;
	struct stream *stream;
	char address[64];
};

struct stage {
	struct daemon daemon;
	struct worker *workers[2];
	struct worker *worker; /* the first */
	struct connection_bound bound;
	struct binding binding;
	struct listener listener;
	struct stage_client client, other;
	struct stage_client *asks; /* whose requests come next; `client` at first */
	struct stage_server servers[STAGE_SERVERS];
	unsigned server_count;
	int connect_error; /* what the next connects fail with */
	bool connects_later;
};

struct stage *stage_begin(const struct stage_conf *conf);
/* Closes the client and all servers. Nothing may be left: no exchange, no place, no ticket. */
void stage_end(struct stage *stage);

/* The time, since the beginning. */
void stage_at(struct stage *stage, uint64_t ms);
/* Rounds until nothing is left to do, in a turn of its own. */
void stage_turn(struct stage *stage);
/* A deadline that is to be set passes. */
void stage_pass(struct stage *stage, struct deadline *deadline);

/* The client sends these bytes; a request whose head is whole by now is the next exchange, in
 * EXCHANGE_HEAD. NULL: it is not whole. */
struct exchange *stage_request(struct stage *stage, const char *bytes);
/* The same, and the exchange is judged. */
struct exchange *stage_ask(struct stage *stage, const char *bytes);
/* The same of the other client, for this one call. */
struct exchange *stage_other_asks(struct stage *stage, const char *bytes);
/* More bytes from the client, of a body. They wait in its stream. */
void stage_client_sends(struct stage *stage, const char *bytes);
/* Ends all that is under way at the client and its servers, and forgets these, what the
 * client noted and the lines of the log: for the next of many. */
void stage_forget(struct stage *stage);
/* What was written, or composed and not written yet, for the client so far; since the last call. */
const char *stage_client_got(struct stage *stage);

/* What the n-th connection to a server has got since the last call; what it answers. */
const char *stage_server_got(struct stage *stage, unsigned n);
void stage_server_sends(struct stage *stage, unsigned n, const char *bytes);
/* A connection of `connects_later` is there. */
void stage_server_connected(struct stage *stage, unsigned n);

/* The sum of a counter of the node. */
uint64_t stage_count(const struct stage *stage, unsigned slot);

/* Asserts that a text holds another, and shows both when it does not. */
void assert_has(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);

#endif
