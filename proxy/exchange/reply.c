/*
 * Answers of our own: refusals, overflow, timeouts, mistakes. An answer waits until it is the first
 * on its connection; the request's body, if it is short, is read and thrown away so that the
 * connection can go on, else the connection is closed behind the answer.
 */
#include "exchange/reply.h"

#include <assert.h>

#include "base/log.h"
#include "exchange/compose.h"
#include "exchange/exchange.h"
#include "exchange/respond.h"
#include "gate/ratelimit_fields.h"
#include "http/problem.h"
#include "listen/listener.h"
#include "worker/worker_clock.h"

/* A body up to this is cheaper to read than a new connection. */
#define DISCARD_BYTES (64 * 1024)

static void begin_discard(struct exchange *x)
{
	bool is_short = x->framing.body == HTTP_BODY_LENGTH && x->framing.length <= DISCARD_BYTES;

	if (exchange_has_request(x)) {
		client_request_read(x->client, x, false);
		return;
	}
	/* A client that waits for a 100 may send its body or not: nothing to go on from. */
	if (!is_short || x->framing.expects_continue || x->close_client) {
		x->close_client = true;
		x->up.in = NULL;
		return;
	}
	bool is_begun = x->up.in != NULL;
	uint64_t left = is_begun ? x->up.left : x->framing.length;
	uint64_t content_bytes = x->up.content_bytes;
	struct pump *up = pump_begin(&x->up);
	client_open_body(x->client, up);
	up->pool = &x->worker->blocks;
	up->body = x->framing.body;
	up->left = left;
	up->content_bytes = content_bytes;
}

void exchange_reply(struct exchange *x, unsigned status, const char *why, uint64_t retry_after_ms)
{
	struct client *client = x->client;

	x->outcome = why;
	x->answer.retry_after_ms = retry_after_ms;
	if (x->turn.question)
		exchange_cancel_question(x);
	exchange_drop_connection(x);
	if (x->body)
		exchange_free_body(x);
	exchange_leave_queue(x);
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
	if (!client) {
		exchange_end(x);
		return;
	}
	if (x->answer.begun) {
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
		stream_read_again(x->up.source);
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
		x->up.in = NULL;
		client_finish(x->client);
		break;
	}
}

/* The field lines of a 429, and of what else passed the gate. */
static struct slice ratelimit_lines(const struct exchange *x, char *buffer, size_t capacity)
{
	struct http_out out = http_out_over(buffer, capacity);

	if (x->route && x->gate.verdict.limit_count > 0 && x->dialect != CONF_RATELIMIT_OFF)
		ratelimit_append(&out, x->use->site->texts, x->dialect, &x->gate.verdict,
			exchange_ratelimit_ms(x));
	if (out.overflow)
		return SLICE_NONE;
	return (struct slice){buffer, (size_t)(out.at - buffer)};
}

/* What a caller can do about it, where the status alone does not tell. */
static struct slice detail_of(const char *why)
{
	static const struct {
		const char *why;
		struct slice detail;
	} details[] = {
		{"ambiguous path", SLICE("Servers differ about this path; send it without //, ;, "
					 "encoded slashes and dot segments.")},
		{"ambiguous key", SLICE("The caller's key is there more than once, or not exactly "
					"under its name.")},
		{"unknown key", SLICE("The key is not known, or has been revoked.")},
		{"path too costly to match", SLICE("This path cannot be matched in time.")},
	};

	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		if (strcmp(why, details[i].why) == 0)
			return details[i].detail;
	}
	return SLICE_NONE;
}

/* `changes`: NULL for none. */
static bool write_reply(
	struct exchange *x, const struct http_changes *changes, struct http_out *out)
{
	char fields[4096], allow[HTTP_ALLOW_BYTES];
	struct slice violated[GATE_LIMITS_MAX];
	struct http_problem problem = {
		.status = x->answer.status,
		.detail = x->answer.status == 400 || x->answer.status == 403 ? detail_of(x->outcome)
									     : SLICE_NONE,
		.retry_after_ms = x->answer.retry_after_ms,
		.fields = ratelimit_lines(x, fields, sizeof(fields)),
		.date = worker_date(x->worker),
		.changes = changes,
		.request_id = x->request_id,
		.request_id_field = x->use->site->request_id_field,
		.connection = x->close_client         ? HTTP_PROBLEM_CLOSE
			      : x->request.minor == 0 ? HTTP_PROBLEM_KEEP_ALIVE
						      : HTTP_PROBLEM_PLAIN,
		.head = x->request.method == HTTP_METHOD_HEAD && x->request.len > 0,
		.reduced_capacity = x->gate.verdict.outcome == GATE_UNAVAILABLE,
	};

	if (x->answer.status == 401)
		problem.challenge = gate_challenge(x->use->site->gate);
	if (x->answer.status == 429) {
		problem.policies = violated;
		problem.policy_count = ratelimit_violated(&x->gate.verdict, violated);
	}
	if (x->answer.status == 405 || x->answer.status == 200) {
		uint64_t methods = x->facts.allow;
		if (methods == 0) /* CONNECT and TRACE: whatever else */
			methods = HTTP_METHODS_USUAL;
		problem.allow = (struct slice){allow, http_allow_text(methods, allow)};
	}
	size_t body_bytes = 0;
	size_t len =
		http_problem_write(out->at, (size_t)(out->end - out->at), &problem, &body_bytes);
	x->answer.reply_bytes = body_bytes;
	out->at += len;
	return len > 0;
}

void reply_if_first(struct exchange *x)
{
	struct client *client = x->client;
	struct http_out out;

	if (x->state != EXCHANGE_REPLYING || !exchange_is_first(x) ||
		!flow_takes_prefix(&client->out))
		return;
	if (exchange_ends_drain(x))
		x->close_client = true;
	if (!x->answer.begun) {
		const struct http_changes changes = exchange_response_changes(x);
		bool any = http_changes_any(&changes);
		size_t room = HTTP_PROBLEM_BYTES + (any ? http_changes_bytes(&changes) : 0);
		if (!flow_reserve(&client->out, &x->worker->blocks, room, &out) ||
			!write_reply(x, any ? &changes : NULL, &out)) {
			exchange_abort(x, "no memory");
			return;
		}
		flow_commit(&client->out, &out);
		x->answer.begun = true;
	}
	if (!exchange_has_request(x) && !x->close_client)
		return; /* the rest of the body first: then the next request can be read */
	exchange_end(x);
}
