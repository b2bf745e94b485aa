/*
 * A handshake becomes the request that opens a gateway's socket, and the answer to that a 101.
 *
 *   GET, Upgrade --gateway_open--> POST [OPEN] --200 [OPEN ...]--> gateway_opened --> 101, events
 *                                             `--any other--> the client's answer
 */
#include <stdlib.h>
#include <string.h>

#include "exchange/collect.h"
#include "exchange/reply.h"
#include "http/parser.h"
#include "http/problem.h"
#include "http/text_head.h"
#include "websocket/handshake.h"
#include "gateway/gateway.h"
#include "websocket/state.h"

/* ---- the request ----------------------------------------------------------------------------- */

static bool keep_request_id(struct gateway *gateway, const struct exchange *x)
{
	bool is_own = x->request_id.at == x->text.request_id;

	if (is_own) {
		memcpy(gateway->request_id, x->text.request_id, x->request_id.len);
		gateway->request_id_len = (uint8_t)x->request_id.len;
	}
	return true;
}

bool gateway_open(struct exchange *x)
{
	struct gateway *gateway = x->tunnel.gateway;
	char *open;

	if (gateway)
		return true; /* it waited for a place once more */
	gateway = gateway_new(x);
	if (!gateway)
		return false;
	x->tunnel.gateway = gateway;
	accept_make(http_head_find_name(&x->request, SLICE("sec-websocket-key")), gateway->accept);
	keep_request_id(gateway, x);
	open = strdup("OPEN\r\n");
	if (!open || !gateway_compose_head(gateway, x)) {
		free(open);
		return false;
	}
	x->memory.body = open;
	x->framing.length = strlen(open);
	if (gateway_make_request(gateway, x) != 0)
		return false;
	x->facts.method = SLICE("GET"); /* for the log */
	return true;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static bool is(struct slice name, struct slice other)
{
	return slice_equal_nocase(name, other);
}

/* Is it for the gateway alone? */
static bool does_not_pass(const void *ctx, const struct http_field *field, struct slice name)
{
	static const struct slice names[] = {SLICE("content-type"), SLICE("content-length"),
		SLICE("content-encoding"), SLICE("content-bytes-accepted"),
		SLICE("keep-alive-interval"), SLICE("sec-websocket-accept"),
		SLICE("sec-websocket-extensions"), SLICE("sec-websocket-version")};
	static const struct slice meta = SLICE("set-meta-");

	(void)ctx;
	(void)field;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is(name, names[i]))
			return true;
	return name.len >= meta.len && is((struct slice){name.at, meta.len}, meta);
}

/* The server may choose one of those that the client has offered (RFC 6455 section 4.1). */
static bool protocol_was_offered(const struct http_head *request, struct slice chosen)
{
	for (unsigned i = 0; i < request->field_count; i++) {
		const struct http_field *field = &request->fields[i];
		struct slice rest = http_field_value(request, field), element;
		if (!is(http_field_name(request, field), SLICE("sec-websocket-protocol")))
			continue;
		while (slice_next_element(&rest, &element))
			if (slice_equal(element, chosen))
				return true;
	}
	return false;
}

static bool protocol_is_good(const struct exchange *x)
{
	bool ambiguous = false;
	struct slice chosen =
		http_head_find_only(x->response, SLICE("sec-websocket-protocol"), &ambiguous);

	return !ambiguous && (!chosen.at || protocol_was_offered(&x->request, chosen));
}

/* What the server's answer says to the client goes into a 101. */
static size_t compose_switch(
	const struct gateway *gateway, const struct http_head *answer, char *text, size_t room)
{
	struct field_sink sink = text_head_over(http_out_over(text, room));
	static const struct fields_omitted omitted = {.others = does_not_pass};

	text_head_status(&sink, 101, SLICE_NONE);
	field_put(&sink, SLICE("Upgrade"), SLICE("websocket"));
	field_put(&sink, SLICE("Connection"), SLICE("Upgrade"));
	field_put(&sink, SLICE("Sec-WebSocket-Accept"),
		(struct slice){gateway->accept, ACCEPT_BYTES});
	field_pass_each(&sink, answer, &omitted);
	text_head_end(&sink);
	return sink.out.overflow ? 0 : (size_t)(sink.out.at - text);
}

static bool parse_response(struct http_head *head, const char *text, size_t len)
{
	const struct http_parser_limits limits = {0};
	struct http_parser parser = {0};

	http_parser_begin_response(&parser, head, &limits);
	bool is_good = http_parser_head(&parser, text, len) == HTTP_PARSE_DONE;
	http_parser_end(&parser);
	return is_good;
}

/* The head in `answer`, which is the server's, becomes the client's. */
static bool make_switch(struct gateway *gateway, struct exchange *x)
{
	size_t room = gateway->answer.len + x->response->field_count + 256, len;
	struct http_framing framing;
	char *text = malloc(room);

	if (!text)
		return false;
	x->response->base = gateway->answer.at;
	len = compose_switch(gateway, x->response, text, room);
	free(gateway->answer.at);
	gateway->answer.at = text; /* lives until it is composed for the client */
	gateway->answer.len = len;
	return len > 0 && parse_response(x->response, text, len) &&
	       http_frame_response(x->response, HTTP_METHOD_GET, &framing);
}

static const char *switch_over(
	struct gateway *gateway, struct exchange *x, struct slice content, bool *has_memory)
{
	*has_memory = gateway->answer.at != NULL;
	if (gateway->answer_fault)
		return gateway->answer_fault;
	if (content.len == 0) /* Pushpin asks again after Keep-Alive-Interval */
		return "answer that does not open the socket";
	if (!gateway_is_well_formed(content, true))
		return "malformed answer";
	x->response->base = gateway->answer.at;
	if (!protocol_is_good(x))
		return "subprotocol that was not offered";
	*has_memory = make_switch(gateway, x);
	return *has_memory ? NULL : "no memory";
}

void gateway_opened(struct exchange *x)
{
	struct gateway *gateway = x->tunnel.gateway;
	struct slice content;
	char *bytes = gateway_content(x, &content);
	bool has_memory = bytes != NULL;
	const char *why = "no memory";

	if (bytes)
		why = switch_over(gateway, x, content, &has_memory);
	if (why) {
		free(bytes);
		exchange_reply(
			x, has_memory ? 502 : 503, why, has_memory ? HTTP_PROBLEM_NO_RETRY : 1000);
		return;
	}
	gateway->opening = NULL;
	gateway->server_is_done = false;
	gateway->silent_ms = worker_now_ms(gateway->worker);
	collect_switch(x);
	gateway_text_free(&gateway->answer); /* and with the exchange goes what it borrowed */
	gateway_pass_answer(gateway, NULL, bytes, content);
}
