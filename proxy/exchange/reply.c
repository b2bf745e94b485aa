/*
 * Answers of our own: refusals, overflow, timeouts, mistakes. An answer waits until it is the first
 * on its connection; the request's body, if it is short, is read and thrown away so that the
 * connection can continue, else the connection is closed behind the answer.
 */
#include "exchange/reply.h"

#include <assert.h>

#include "base/log.h"
#include "exchange/exchange.h"
#include "exchange/respond.h"
#include "http/problem.h"

static void begin_discard(struct exchange *x)
{
	if (exchange_has_request(x)) {
		client_request_read(x->client, x, false);
		return;
	}
	/* A client that waits for a 100 may send its body or not: nothing to continue from. */
	if (x->framing.expects_continue || x->close_client || !client_body_is_short(x->client, x)) {
		x->close_client = true;
		x->up.source = NULL;
		return;
	}
	uint64_t content_bytes = x->up.content_bytes;
	struct pump *up = pump_begin(&x->up);
	up->source = client_open_body(x->client, x);
	up->content_bytes = content_bytes;
}

/* A message that is a request, and could not be sent: is it to be tried again? Then it waits. */
static bool is_tried_later(struct exchange *x, struct client *client)
{
	bool was_tried = x->state == EXCHANGE_CONNECTING || x->state == EXCHANGE_FORWARDING;

	return was_tried && !x->attempt.request_started && x->attempt.reach != REACH_LEFT &&
	       client_retry(client, x);
}

void exchange_reply(struct exchange *x, unsigned status, const char *why, uint64_t retry_after_ms)
{
	struct client *client = x->client;

	if (x->tunnel.gateway && exchange_is_message(x) && client && is_tried_later(x, client))
		return;
	if (exchange_is_elsewhere(x) && x->owner.take_failure(x, status))
		return;
	x->outcome = why;
	x->answer.retry_after_ms = retry_after_ms;
	if (x->owner.use.session)
		owner_cancel(&x->owner.use);
	if (x->turn.question)
		exchange_cancel_question(x);
	exchange_drop_connection(x);
	if (x->body)
		exchange_free_body(x);
	exchange_leave_queue(x);
	exchange_leave_line(x);
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (!client) {
		exchange_end(x);
		return;
	}
	if (exchange_is_message(x)) {
		x->answer.status = status;
		client_refuse(client, x, status, why, retry_after_ms);
		return;
	}
	if (x->answer.progress != ANSWER_AWAITED) {
		exchange_abort(x, why); /* too late for an answer */
		return;
	}
	x->answer.status = status;
	begin_discard(x);
	if (x->close_client)
		client_finish(client);
	exchange_enter(x, EXCHANGE_REPLYING);
	client->again = true;
	if (client->first == x)
		reply_if_first(x);
}

void exchange_reject(struct exchange *x, unsigned status, const char *why)
{
	worker_count(x->worker, STATS_MALFORMED);
	x->close_client = true;
	if (x->client)
		client_finish(x->client);
	exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
}

void reply_discard_body(struct exchange *x)
{
	switch (pump_run(&x->up, 16)) {
	case PUMP_DONE:
		exchange_request_read(x);
		break;
	case PUMP_WANTS_READ:
		x->up.source->calls->read_again(x->up.source);
		break;
	case PUMP_WANTS_WRITE:
		break;
	case PUMP_SOURCE_ENDED:
	case PUMP_SOURCE_BROKEN:
	case PUMP_TOO_LARGE:
	case PUMP_SINK_FAILED:
	case PUMP_NO_MEMORY:
	case PUMP_SPOOL_FAILED:
		x->close_client = true;
		x->up.source = NULL;
		client_finish(x->client);
		break;
	}
}

void reply_if_first(struct exchange *x)
{
	struct client *client = x->client;

	if (x->state != EXCHANGE_REPLYING || !exchange_is_first(x) ||
		!client->calls->takes_reply(client))
		return;
	if (exchange_ends_drain(x))
		x->close_client = true;
	if (x->answer.progress == ANSWER_AWAITED) {
		if (!client_reply(client, x)) {
			exchange_abort(x, "no memory");
			return;
		}
		x->answer.progress = ANSWER_BEGUN;
	}
	if (!exchange_has_request(x) && !x->close_client)
		return; /* the rest of the body first: then the next request can be read */
	exchange_end(x);
}
