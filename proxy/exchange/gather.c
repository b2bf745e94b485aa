#include "exchange/gather.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/exchange.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "http/problem.h"
#include "upstream/server.h"

/* Reads of one body in a row, so that other connections get their turn. */
#define TURNS 16
/* A body up to this is kept in one piece to be sent again. */
#define REPEATABLE_BYTES (64 * 1024)

void gather_know_length(struct exchange *x, uint64_t length)
{
	x->framing.body = length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	x->framing.has_length = true;
	x->framing.length = length;
	x->framing.expects_continue &= length > 0;
}

bool gather_begin(struct exchange *x)
{
	const struct conf_buffering *buffering = &x->route->request_buffering;

	if (exchange_has_request(x) || x->is_call || buffering->memory_bytes == 0 ||
		client_body_is_whole(x->client, x))
		return false;
	x->body = spool_new(&x->worker->node->store, (struct spool_limits){buffering->memory_bytes,
							     buffering->file_bytes, SPOOL_REQUEST});
	if (!x->body)
		return false; /* then it is sent as it comes */
	x->gathering = GATHERING_READING;
	x->interim.to_continue = x->framing.expects_continue ? CONTINUE_DUE : CONTINUE_NONE;
	x->up = (struct pump){
		.source = client_open_body(x->client, x),
		.spool = x->body,
		.max_bytes = x->route->max_body_bytes,
	};
	return true;
}

static void ready(struct exchange *x)
{
	x->gathering = GATHERING_READY;
	if (x->interim.to_continue == CONTINUE_DUE)
		x->interim.to_continue = CONTINUE_NONE;
	x->framing.expects_continue = false; /* it has got its 100, or sent without */
	x->client->again = true;
}

/* The connection continues to the next request. */
static bool keep_trailers(struct exchange *x)
{
	struct slice trailers = pump_trailers(&x->up);
	char *copy;

	if (trailers.len == 0)
		return true;
	copy = malloc(trailers.len);
	if (!copy)
		return false;
	memcpy(copy, trailers.at, trailers.len);
	x->memory.trailers = copy;
	x->up.end.trailers = (struct slice){copy, trailers.len};
	return true;
}

static void whole(struct exchange *x)
{
	if (!keep_trailers(x)) {
		exchange_abort(x, "no memory");
		return;
	}
	if (http_framing_is_open(&x->framing) && !x->memory.trailers)
		gather_know_length(x, x->up.content_bytes);
	x->up.source = NULL;
	ready(x);
	exchange_request_read(x);
}

void gather_run(struct exchange *x)
{
	if (x->gathering != GATHERING_READING)
		return;
	if (x->interim.to_continue == CONTINUE_DUE)
		respond_continue(x);
	if (x->state == EXCHANGE_ENDED)
		return;
	switch (pump_collect(&x->up, TURNS)) {
	case PUMP_DONE:
		whole(x);
		break;
	case PUMP_WANTS_READ:
		x->up.source->calls->read_again(x->up.source);
		break;
	case PUMP_WANTS_WRITE:
		ready(x);
		break;
	case PUMP_SOURCE_ENDED:
		exchange_request_cut(x);
		break;
	case PUMP_SOURCE_BROKEN:
		exchange_reject(x, 400, "malformed body");
		break;
	case PUMP_TOO_LARGE:
		exchange_reply(x, 413, "body too large", HTTP_PROBLEM_NO_RETRY);
		break;
	case PUMP_SINK_FAILED:
	case PUMP_NO_MEMORY:
		exchange_reply(x, 503, "no memory", 1000);
		break;
	case PUMP_SPOOL_FAILED:
		exchange_reply(x, 503, "temporary file failed", 1000);
		break;
	}
}

void gather_resume(struct exchange *x)
{
	struct pump *up = &x->up;

	up->sink = server_open_request(x->connection, x->response);
	up->end_due = up->ended && spool_bytes(x->body) == 0;
	up->written = 0;
	up->borrowed = 0;
	up->end.rules = (struct http_trailer_rules){
		&x->route->request_trailers, &x->route->request_remove, &x->route->request_set};
}

void gather_keep(struct exchange *x)
{
	size_t len = (size_t)x->framing.length, done = 0;
	struct slice run;

	if (!exchange_has_request(x) || x->framing.body != HTTP_BODY_LENGTH ||
		x->framing.length > REPEATABLE_BYTES || spool_bytes(x->body) != x->framing.length)
		return;
	x->memory.body = malloc(len);
	if (!x->memory.body)
		return; /* then it is sent once */
	while ((run = spool_front(x->body)).len > 0) {
		memcpy(x->memory.body + done, run.at, run.len);
		done += run.len;
		if (!spool_drop(x->body, run.len))
			break;
	}
	exchange_free_body(x);
	if (done == len)
		return;
	free(x->memory.body);
	x->memory.body = NULL;
	exchange_reply(x, 503, "temporary file failed", 1000);
}
