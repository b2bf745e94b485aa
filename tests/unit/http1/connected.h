/* A client's connection of HTTP/1, over a stream in memory whose other end the test has. */
#ifndef TESTS_HTTP1_CONNECTED_H
#define TESTS_HTTP1_CONNECTED_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/exchange/fakes/flight.h"
#include "tunnel/passage.h"
#include "http1/downstream.h"
#include "listen/accepted.h"

struct connected {
	struct stage *stage;
	struct memory_peer *wire;
	struct downstream *downstream;
	char got[STAGE_ROOM + 1];
};

static void connected_on_notify(struct stream *stream)
{
	(void)stream;
}

/* One more connection of the stage's listener, from this address. */
static inline struct downstream *connected_accept(
	struct stage *stage, struct memory_peer **wire, const char *address)
{
	static const struct stream_calls none = {NULL, connected_on_notify};
	const struct sockaddr_in peer = {
		.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address), .sin_port = 9};
	struct stream stream;

	*wire = memory_stream_open(&stream, &stage->worker->streams, STAGE_ROOM, &none);
	stage_turn(stage);
	struct accepted accepted = {.stream = stream_export(&stream), .peer_len = sizeof(peer)};
	memcpy(&accepted.peer, &peer, sizeof(peer));
	stage->listener.connections++;
	stage->bound.connections++;
	stage->daemon.listening.descriptors.connections++;
	downstream_accept(stage->worker, &stage->listener, &accepted);
	return http1_part(stage->worker)->downstreams;
}

static inline void connected_open(struct connected *c, const struct stage_conf *conf)
{
	c->stage = stage_begin(conf);
	c->downstream = connected_accept(c->stage, &c->wire, "192.0.2.1");
	assert_non_null(c->downstream);
	stage_turn(c->stage);
}

/* Nothing may be left of it. */
static inline void connected_end(struct connected *c)
{
	while (http1_part(c->stage->worker)->downstreams)
		downstream_close(http1_part(c->stage->worker)->downstreams, "the end");
	while (tunnel_part(c->stage->worker)->passages)
		passage_end(tunnel_part(c->stage->worker)->passages, "the end");
	stage_turn(c->stage);
	assert_int_equal(c->stage->daemon.node.clients, 0);
	assert_int_equal(c->stage->listener.connections, 0);
	assert_int_equal(c->stage->listener.lingering, 0);
	memory_peer_close(c->wire);
	stage_end(c->stage);
}

static inline void connected_send(struct connected *c, const char *bytes)
{
	assert_int_equal(memory_peer_send(c->wire, bytes, strlen(bytes)), strlen(bytes));
	stage_turn(c->stage);
}

static inline void connected_answer(struct connected *c, unsigned server, const char *bytes)
{
	stage_server_sends(c->stage, server, bytes);
}

/* What came since the last call. */
static inline const char *connected_got(struct connected *c)
{
	long len = memory_peer_receive(c->wire, c->got, STAGE_ROOM);

	c->got[len > 0 ? len : 0] = '\0';
	return c->got;
}

/* Opens it; it sends a head so slowly that it is answered with 408. */
static inline void connected_slow(struct connected *c, const struct stage_conf *conf)
{
	connected_open(c, conf);
	connected_send(c, "GET / HT");
	stage_pass(c->stage, &c->downstream->wait.deadline);
	assert_has(connected_got(c), "HTTP/1.1 408 ");
}

/* As its worker begins a drain. */
static inline void connected_drain(struct connected *c)
{
	c->stage->worker->draining = true;
	c->stage->worker->drain_began_ms = worker_now_ms(c->stage->worker);
	if (http1_part(c->stage->worker)->downstreams)
		downstream_drain(c->downstream);
}

static inline bool connected_is_open(const struct connected *c)
{
	return http1_part(c->stage->worker)->downstreams != NULL;
}

static inline unsigned connected_idle(struct connected *c)
{
	return flight_idle(c->stage);
}

#endif
