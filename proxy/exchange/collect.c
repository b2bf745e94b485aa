#include "exchange/collect.h"

#include "exchange/report.h"
#include "exchange/exchange.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "exchange/switched.h"
#include "http/problem.h"
#include "upstream/server.h"

/* Reads of one body in a row, so that other connections get their turn. */
#define TURNS 16

static void fail(struct exchange *x, const char *why)
{
	report_failure(x);
	exchange_reply(x, 502, why, HTTP_PROBLEM_NO_RETRY);
}

/* A shortage here is no failure of the server. */
static void lack_memory(struct exchange *x)
{
	exchange_reply(x, 503, "no memory", 1000);
}

/* By the spool's own bound, or by that of all of them? */
static void spool_is_full(struct exchange *x)
{
	if (spool_space(x->down.spool) == 0)
		fail(x, "answer too large");
	else
		lack_memory(x);
}

static void begin(struct exchange *x)
{
	struct pump *down = &x->down;

	pump_begin(down);
	down->spool = spool_new(&x->worker->node->store,
		(struct spool_limits){x->route->websocket.gateway.answer_bytes, 0, SPOOL_GATEWAY});
	if (!down->spool) {
		lack_memory(x);
		return;
	}
	down->source = server_open_response(x->connection, &x->response_framing);
	down->ended = x->response_framing.body == HTTP_BODY_NONE;
	x->tunnel.collects = true;
	x->answer.status = x->response->status;
	exchange_enter(x, EXCHANGE_RELAYING);
}

bool collect_begin(struct exchange *x)
{
	if (!exchange_part(x->worker)->switched->collects(x) || !x->client)
		return false;
	begin(x);
	return true;
}

void collect_hold(struct exchange *x)
{
	begin(x);
}

void collect_run(struct exchange *x)
{
	switch (pump_collect(&x->down, TURNS)) {
	case PUMP_DONE:
		if (x->tunnel.hold) {
			exchange_part(x->worker)->switched->held(x);
			break;
		}
		respond_release_server(x);
		exchange_part(x->worker)->switched->answered(x);
		break;
	case PUMP_WANTS_READ:
		respond_await_more(x);
		break;
	case PUMP_WANTS_WRITE:
		spool_is_full(x);
		break;
	case PUMP_TOO_LARGE:
		fail(x, "answer too large");
		break;
	case PUMP_SOURCE_ENDED:
	case PUMP_SOURCE_BROKEN:
		server_note_failure(
			x->server, x->connection, "response cut short", worker_now_ms(x->worker));
		fail(x, "response cut short");
		break;
	case PUMP_SINK_FAILED:
	case PUMP_NO_MEMORY:
	case PUMP_SPOOL_FAILED:
		lack_memory(x);
		break;
	}
}

void collect_switch(struct exchange *x)
{
	struct client *client = x->client;

	exchange_forget_answer(x);
	x->answer.status = 101;
	x->answer.progress = ANSWER_BEGUN;
	x->close_client = true;
	if (!client_begin_tunnel(client, x)) {
		exchange_abort(x, "no memory");
		return;
	}
	exchange_enter(x, EXCHANGE_TUNNEL);
	x->response_progress = RESPONSE_COMING;
	x->turn.ticket.hears_end = true;
	if (exchange_is_queued(x))
		queue_detach(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
	if (!client_become_tunnel(client, x, true))
		exchange_abort(x, "no memory");
}
