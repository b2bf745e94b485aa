#include "exchange/held.h"

#include "exchange/collect.h"
#include "exchange/endless.h"
#include "exchange/exchange.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "http/parser.h"
#include "http/problem.h"

bool held_begin(struct exchange *x)
{
	if (!endless_begin(x))
		return false;
	respond_release_server(x);
	exchange_leave_queue(x);
	x->tunnel.collects = false;
	return true;
}

static bool read_head(struct exchange *x, struct slice head)
{
	return http_read_response(x->response, head, NULL) &&
	       http_frame_response(x->response, x->request.method, &x->response_framing);
}

/* To the client, from the spool alone. */
static void open_down(struct exchange *x, bool ends)
{
	struct pump *down = &x->down;

	if (x->response_framing.body == HTTP_BODY_NONE)
		exchange_forget_answer(x);
	down->ended = ends || x->response_framing.body == HTTP_BODY_NONE;
	down->end.rules.removed = &x->route->response_remove;
	down->end.rules.set = &x->route->response_set;
	down->sink = client_open_response(x->client);
}

void held_send(struct exchange *x, struct slice head, bool ends)
{
	struct client *client = x->client;

	if (!read_head(x, head)) {
		exchange_reply(x, 502, "malformed held response", HTTP_PROBLEM_NO_RETRY);
		return;
	}
	if (exchange_ends_drain(x))
		x->close_client = true;
	open_down(x, ends);
	x->answer.progress = ANSWER_BEGUN;
	x->answer.status = x->response->status;
	if (client_head(client, x) == PUMP_NO_MEMORY) {
		exchange_abort(x, "no memory");
		return;
	}
	if (x->close_client)
		client_finish(client);
	x->down.sink->calls->wake(x->down.sink);
}

void held_append(struct exchange *x, struct slice content)
{
	struct pump *down = &x->down;

	if (down->ended)
		return;
	if (content.len > 0 && spool_put(down->spool, content) < content.len) {
		exchange_abort(x, "held stream not read");
		return;
	}
	down->sink->calls->wake(down->sink);
}

void held_finish(struct exchange *x)
{
	struct pump *down = &x->down;

	if (down->ended)
		return;
	down->ended = true;
	/* Else the last run of the spool brings the end with it. */
	if (spool_bytes(down->spool) == down->borrowed)
		down->end_due = true;
	down->sink->calls->wake(down->sink);
}
