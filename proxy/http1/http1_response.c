#include "http1/http1_response.h"

#include <string.h>

#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "gate/ratelimit_fields.h"
#include "http/problem.h"
#include "http1/compose.h"
#include "worker/worker_clock.h"

/* ---- what servers send ----------------------------------------------------------------------- */

enum client_interim http1_interim(struct client *client, struct exchange *x, bool is_own)
{
	struct flow *out = &client->out;

	if (x->request.minor == 0 && !is_own)
		return CLIENT_INTERIM_UNKNOWN;
	if (!exchange_is_first(x) || !flow_takes_prefix(out))
		return CLIENT_INTERIM_EARLY;
	bool is_composed = is_own ? flow_append(out, &x->worker->blocks,
					    SLICE("HTTP/1.1 100 Continue\r\n\r\n"))
				  : compose_response(x, out, false, true);
	return is_composed ? CLIENT_INTERIM_PASSED : CLIENT_INTERIM_NO_MEMORY;
}

bool http1_switch(struct client *client, struct exchange *x)
{
	return compose_response(x, &client->out, false, false);
}

/* As much as waits for one write: a block of the usual size has room for a head behind it. */
#define JOIN_BYTES (11 * 1024)

/* A short response that is here whole waits in the client's flow for the turn's end: others of this
 * turn are written with it, those of pipelined requests on its own connection in one piece. */
static bool may_join(const struct exchange *x, const struct flow *out)
{
	return x->down.decoder.decoded && !x->down.encoder.tail_due && !x->down.spool &&
	       buffer_used(&out->prefix) + out->body.len + out->suffix.len <= JOIN_BYTES;
}

enum pump_result http1_head(struct client *client, struct exchange *x)
{
	enum http_body body = x->response_framing.body;
	bool has_no_length = body == HTTP_BODY_CHUNKED || body == HTTP_BODY_UNTIL_CLOSE;
	bool by_close = has_no_length && x->request.minor == 0;
	size_t unsent = flow_bytes(&client->out);
	enum pump_result result = PUMP_DONE;

	if (by_close)
		x->close_client = true; /* an HTTP/1.0 client sees the end by the close */
	x->down.encoder.chunked = has_no_length && !by_close;
	if (!compose_response(x, &client->out, x->down.encoder.chunked, false))
		return PUMP_NO_MEMORY;
	/* What of the body is here already leaves with the head. */
	if (pump_has_content(&x->down))
		result = pump_fill(&x->down);
	if (result == PUMP_NO_MEMORY)
		return result;
	if (result == PUMP_SOURCE_BROKEN) {
		flow_truncate(&client->out, unsent);
		return result;
	}
	client->ends_body = by_close;
	x->answer.joined = may_join(x, &client->out);
	return result;
}

/* ---- answers of our own ---------------------------------------------------------------------- */

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

/* Others need none. */
static bool has_detail(unsigned status)
{
	return status == 400 || status == 403 || status == 426;
}

/* What a caller can do about it, where the status alone does not tell. */
static struct slice detail_of(const char *why)
{
	static const struct {
		const char *why;
		struct slice detail;
	} details[] = {
		{"ambiguous path", SLICE("Servers may read this path differently; send it without "
					 "//, ;, encoded slashes and dot segments.")},
		{"ambiguous key", SLICE("The caller's key appears more than once, or under a "
					"differently spelled name.")},
		{"unknown key", SLICE("The key is not known, or has been revoked.")},
		{"path too costly to match", SLICE("This path cannot be matched in time.")},
		{"websocket handshake",
			SLICE("A WebSocket begins with a GET that has one Sec-WebSocket-Key of 16 "
			      "bytes in base64.")},
		{"websocket version", SLICE("Only WebSocket version 13 is supported.")},
		{"websocket origin", SLICE("WebSockets from this origin are not allowed.")},
		{"websocket protocol", SLICE("None of the subprotocols is allowed.")},
	};

	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		if (strcmp(why, details[i].why) == 0)
			return details[i].detail;
	}
	return SLICE_NONE;
}

/* The same URL under https; of `*` the host's root. */
static struct http_location location_of(const struct exchange *x)
{
	bool is_path = x->target.form != HTTP_TARGET_ASTERISK && x->target.path.len > 0;

	return (struct http_location){
		.host = x->facts.host,
		.port = client_listener(x->client)->redirect_port,
		.path = is_path ? x->target.path : SLICE("/"),
		.query = x->target.query,
		.has_query = x->target.has_query,
	};
}

/* `changes`: NULL for none. */
static bool write_reply(struct exchange *x, const struct http_changes *changes,
	const struct http_location *location, struct http_out *out)
{
	char fields[4096], allow[HTTP_ALLOW_BYTES];
	struct slice violated[GATE_LIMITS_MAX];
	struct http_problem problem = {
		.status = x->answer.status,
		.detail = has_detail(x->answer.status) ? detail_of(x->outcome) : SLICE_NONE,
		.retry_after_ms = x->answer.retry_after_ms,
		.fields = ratelimit_lines(x, fields, sizeof(fields)),
		.date = worker_date(x->worker),
		.changes = changes,
		.location = location,
		.request_id = x->request_id,
		.request_id_field = x->use->site->request_id_field,
		.connection = x->close_client         ? HTTP_PROBLEM_CLOSE
			      : x->request.minor == 0 ? HTTP_PROBLEM_KEEP_ALIVE
						      : HTTP_PROBLEM_PLAIN,
		.head = x->request.method == HTTP_METHOD_HEAD && x->request.len > 0,
		.reduced_capacity = x->gate.verdict.outcome == GATE_UNAVAILABLE,
	};

	if (x->client->hop && x->client->hop->field[0])
		problem.fields = slice_of(x->client->hop->field);
	if (x->answer.status == 426) /* RFC 6455 section 4.2.2, RFC 9110 section 15.5.22 */
		problem.fields = SLICE("Connection: upgrade\r\nUpgrade: websocket\r\n"
				       "Sec-WebSocket-Version: 13\r\n");
	if (x->answer.status == 401)
		problem.challenge = gate_challenge(x->use->site->gate);
	if (x->answer.status == 429) {
		problem.policies = violated;
		problem.policy_count = ratelimit_violated(&x->gate.verdict, violated);
	}
	if (x->answer.content_bytes > 0)
		problem.content = (struct slice){x->memory.body, x->answer.content_bytes};
	else if (x->answer.status == 405 || x->answer.status == 200) {
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

bool http1_reply(struct client *client, struct exchange *x)
{
	const struct http_changes changes = exchange_response_changes(x);
	bool any = http_changes_any(&changes);
	size_t room = HTTP_PROBLEM_BYTES + (any ? http_changes_bytes(&changes) : 0);
	struct http_location location;
	bool is_redirect = x->answer.status == 308;
	struct http_out out;

	if (is_redirect) {
		location = location_of(x);
		room += HTTP_LOCATION_BYTES(&location);
	}
	if (!flow_reserve(&client->out, &x->worker->blocks, room, &out) ||
		!write_reply(x, any ? &changes : NULL, is_redirect ? &location : NULL, &out))
		return false;
	flow_commit(&client->out, &out);
	return true;
}
