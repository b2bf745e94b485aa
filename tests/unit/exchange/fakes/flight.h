/* An exchange with its server, for tests of what happens there. */
#ifndef TESTS_EXCHANGE_FAKES_FLIGHT_H
#define TESTS_EXCHANGE_FAKES_FLIGHT_H

#include "exchange/forward.h"
#include "upstream/server_pool.h"
#include "stage.h"

#define GET  "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"

/* Its request has left. */
static inline struct exchange *flight_begin(struct stage *stage, const char *request)
{
	struct exchange *x = stage_ask(stage, request);

	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	return x;
}

/* As the client's connection runs it whenever anything has happened. */
static inline void flight_run(struct stage *stage, struct exchange *x)
{
	exchange_run(x);
	stage_turn(stage);
}

/* Its server says this; then it runs. */
static inline void flight_answer(struct stage *stage, struct exchange *x, const char *bytes)
{
	stage_server_sends(stage, stage->server_count - 1, bytes);
	flight_run(stage, x);
}

static inline void flight_server_ends(struct stage *stage, struct exchange *x)
{
	memory_peer_end_output(stage->servers[stage->server_count - 1].wire);
	stage_turn(stage);
	flight_run(stage, x);
}

static inline struct server_state *flight_server(struct stage *stage)
{
	return stage->daemon.site->upstreams[0]->servers[0].state;
}

/* How many connections wait for their next request. */
static inline unsigned flight_idle(struct stage *stage)
{
	return pool_count(flight_server(stage), stage->worker);
}

#endif
