/*
 * A socket whose server speaks HTTP, as opened.h has those whose server speaks WebSocket: the
 * client's connection and those to the server are streams in memory, the test plays both peers and
 * the time. A program has one such socket at a time.
 *
 *   begin --> say, opened_client --> request_got, answer --> opened_to_client --> end
 */
#ifndef TESTS_WEBSOCKET_GATEWAYED_H
#define TESTS_WEBSOCKET_GATEWAYED_H

#include "tests/unit/websocket/opened.h"

#include <errno.h>

#include "gateway/gateway.h"

#define ROUTE                                                                                      \
	"websocket = gateway\nping_interval = 0s\nsocket_idle_timeout = 0s\nsession = ip\n"        \
	"ordering = strict\n"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\n"

static const struct stage_conf plain = {.route = ROUTE};

static struct opened o;

/* ---- the server ------------------------------------------------------------------------------ */

static char got[STAGE_ROOM + 1];

/* What the newest connection to the server got since the last look. */
static inline const char *server_got(void)
{
	assert_true(o.stage->server_count > 0);
	snprintf(got, sizeof(got), "%s", stage_server_got(o.stage, o.stage->server_count - 1));
	return got;
}

/* The events of the request that it got; it got one. */
static inline const char *request_got(void)
{
	const char *text = server_got(), *body = strstr(text, "\r\n\r\n");

	assert_has(text, "POST /chat HTTP/1.1\r\n");
	assert_non_null(body);
	assert_null(strstr(body, "POST "));
	return body + 4;
}

static inline void answer_with(const char *fields, const char *events)
{
	static char text[STAGE_ROOM];

	snprintf(text, sizeof(text), HEAD "%sContent-Length: %zu\r\n\r\n%s", fields, strlen(events),
		events);
	stage_server_sends(o.stage, o.stage->server_count - 1, text);
	opened_turn(&o);
}

static inline void answer(const char *events)
{
	answer_with("", events);
}

/* No connection to it is left, and none can be made. */
static inline void leave(void)
{
	for (unsigned i = 0; i < o.stage->server_count; i++)
		memory_peer_reset(o.stage->servers[i].wire);
	opened_turn(&o);
	o.stage->connect_error = ECONNREFUSED;
}

/* ---- its life -------------------------------------------------------------------------------- */

static inline void open_with(const struct stage_conf *conf)
{
	memset(&o, 0, sizeof(o));
	opened_worker = NULL;
	fake_clock_boot_ns = opened_boot_ns;
	connected_open(&o.c, conf);
	o.stage = o.c.stage;
	o.stage->listener.use = site_part(o.stage->worker)->use;
	opened_worker = o.stage->worker;
}

static inline void ask_opened(void)
{
	connected_send(&o.c, OPENED_REQUEST);
	assert_string_equal(request_got(), "OPEN\r\n");
}

static inline void ask(void)
{
	open_with(&plain);
	ask_opened();
}

/* After open_with: its handshake, and the server's answer to that. */
static inline void shake_hands(const char *fields, const char *events)
{
	ask_opened();
	answer_with(fields, events);
	assert_has(connected_got(&o.c), "HTTP/1.1 101 ");
	o.client.wire = o.c.wire;
	o.socket = websockets_of(o.stage->worker)->first;
	assert_non_null(o.socket);
	o.socket->all->random = 1;
	o.passage = o.socket->passage;
}

static inline void begin_on(const struct stage_conf *conf, const char *fields, const char *events)
{
	open_with(conf);
	shake_hands(fields, events);
}

static inline void begin_with(const char *fields, const char *events)
{
	begin_on(&plain, fields, events);
}

static inline void begin(void)
{
	begin_with("", "OPEN\r\n");
}

static inline void end(void)
{
	o.stage->worker->stopping = true; /* no server is informed of anything any more */
	while (http1_part(o.stage->worker)->downstreams)
		downstream_close(http1_part(o.stage->worker)->downstreams, "the end");
	while (tunnel_part(o.stage->worker)->passages)
		passage_end(tunnel_part(o.stage->worker)->passages, "the end");
	while (gateways_of(o.stage->worker)->first)
		gateway_abort(gateways_of(o.stage->worker)->first, "the end");
	opened_end(&o);
}

static inline bool gateway_is_left(void)
{
	return gateways_of(o.stage->worker)->first != NULL;
}

static inline void say(const char *text)
{
	opened_client(&o, FRAME_TEXT, text);
}

/* The deadline of the message that waits for its next try, from now. */
static inline uint64_t wait_ms(void)
{
	const struct exchange *x = gateway_of(o.socket->gateway)->client.first;

	assert_non_null(x);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	return x->turn.deadline.at_ms - worker_now_ms(o.stage->worker);
}

#endif
