/*
 * Heads of HTTP/1: the first line, the fields (exchange/outgoing.h), and what frames the message.
 */
#include "http1/compose.h"

#include "exchange/exchange.h"
#include "exchange/outgoing.h"
#include "http/text_head.h"
#include "http/upgrade.h"

/* Opens a sink for a head, behind what is in the flow. False: no memory. */
static inline __attribute__((always_inline)) bool open_sink(
	struct exchange *x, struct flow *flow, size_t bytes, struct field_sink *sink)
{
	struct http_out out;

	if (!flow_reserve(flow, &x->worker->blocks, bytes, &out))
		return false;
	*sink = text_head_over(out);
	return true;
}

static bool close_sink(struct flow *flow, struct field_sink *sink)
{
	text_head_end(sink);
	flow_commit(flow, &sink->out);
	return !sink->out.overflow;
}

/* RFC 9110 section 7.8. */
static void put_upgrade(
	struct field_sink *sink, const struct exchange *x, const struct http_head *head)
{
	field_put(sink, SLICE("Connection"), SLICE("upgrade"));
	field_begin(sink, SLICE("Upgrade"));
	http_upgrade_put_names(&sink->out, head, &x->route->upgrades);
	field_end(sink);
}

static void put_length(struct field_sink *sink, const struct http_framing *framing, bool chunked)
{
	if (chunked)
		field_put(sink, SLICE("Transfer-Encoding"), SLICE("chunked"));
	else if (framing->has_length)
		field_put_number(sink, SLICE("Content-Length"), framing->length);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Is the head's beginning what would be rewritten, line for line, as it mostly is? Then the host
 * comes first, once, and it passes with what stands around it. */
static bool begins_as_written(const struct outgoing_request *request)
{
	static const char between[] = " HTTP/1.1\r\nHost: ";
	const struct http_head *head = &request->exchange->request;
	const struct http_field *first = head->fields;
	size_t target_end = head->target_at + head->target_len;

	return head->field_count > 0 && first->id == HTTP_FIELD_HOST && !first->hop &&
	       request->keeps_target && request->names_host && head->major == 1 &&
	       first->value_at == target_end + strlen(between) &&
	       memcmp(head->base + target_end, between, strlen(between)) == 0 &&
	       head->base[first->value_at + first->value_len] == '\r';
}

static void put_request_line(struct http_out *out, const struct outgoing_request *request)
{
	const struct http_head *head = &request->exchange->request;
	bool is_1_0 = request->as_came && head->major == 1 && head->minor == 0;

	/* The head's own method: for the log it may be another's that was made this request. */
	http_out_slice(out, (struct slice){head->base, head->target_at - 1});
	http_out_char(out, ' ');
	if (request->keeps_target)
		http_out_slice(out, http_head_target(head));
	else
		outgoing_put_target(out, request->exchange);
	http_out_slice(out, is_1_0 ? SLICE(" HTTP/1.0\r\n") : SLICE(" HTTP/1.1\r\n"));
}

bool compose_request(struct exchange *x, struct flow *flow)
{
	const struct http_head *head = &x->request;
	struct outgoing_request request;
	struct field_sink sink;

	outgoing_request_make(&request, x);
	if (!open_sink(x, flow, request.bytes, &sink))
		return false;
	if (begins_as_written(&request)) {
		request.omitted.ids &= ~HTTP_FIELD_BIT(HOST);
		field_pass(&sink, head, 0, &request.omitted);
	} else {
		put_request_line(&sink.out, &request);
		if (request.names_host)
			field_put(&sink, SLICE("Host"), request.authority);
		field_pass(&sink, head, http_head_fields_at(head), &request.omitted);
	}
	outgoing_request_put(&sink, &request);
	if (x->framing.upgrade)
		put_upgrade(&sink, x, head);
	put_length(&sink, &x->framing, x->framing.body == HTTP_BODY_CHUNKED);
	return close_sink(flow, &sink);
}

/* ---- responses ------------------------------------------------------------------------------- */

/* The line of a response of HTTP/1.1 mostly passes as it is, together with the fields behind it;
 * not without one of its blanks, which servers that send no reason may omit. The byte at which the
 * fields that pass begin. */
static size_t put_status_line(struct field_sink *sink, const struct http_head *head)
{
	static const char version[] = "HTTP/1.1 ";
	size_t begin = strlen("HTTP/1.1 200"), fields = http_head_fields_at(head);
	size_t end = fields - strlen("\r\n");

	if (head->major != 1) {
		text_head_status(sink, head->status, SLICE_NONE);
	} else if (memcmp(head->base, version, strlen(version)) == 0 && end > begin + 1 &&
		   head->base[begin] == ' ' && (unsigned char)head->base[begin + 1] > ' ' &&
		   (unsigned char)head->base[end - 1] > ' ') {
		return 0;
	} else {
		text_head_status(sink, head->status,
			slice_trim((struct slice){head->base + begin, end - begin}));
	}
	return fields;
}

static void put_connection(struct field_sink *sink, const struct exchange *x)
{
	if (x->close_client)
		field_put(sink, SLICE("Connection"), SLICE("close"));
	else if (x->request.minor == 0)
		field_put(sink, SLICE("Connection"), SLICE("keep-alive"));
}

bool compose_response(struct exchange *x, struct flow *flow, bool chunked, bool is_interim)
{
	const struct http_head *head = x->response;
	struct outgoing_response response;
	struct field_sink sink;

	outgoing_response_make(&response, x, is_interim);
	if (x->request.minor == 0)
		response.omitted.ids |= HTTP_FIELD_BIT(TRAILER);
	if (!open_sink(x, flow, response.bytes, &sink))
		return false;
	outgoing_response_put(&sink, &response, put_status_line(&sink, head));
	if (head->status == 101 && !is_interim)
		put_upgrade(&sink, x, head);
	if (head->status >= 200) {
		if (head->status != 204 || chunked)
			put_length(&sink, &x->response_framing, chunked);
		put_connection(&sink, x);
	}
	return close_sink(flow, &sink);
}

/* ---- answers of our own ---------------------------------------------------------------------- */

bool compose_reply(struct exchange *x, struct flow *flow)
{
	bool is_head = x->request.method == HTTP_METHOD_HEAD && x->request.len > 0;
	struct outgoing_reply reply;
	struct field_sink sink;

	outgoing_reply_make(&reply, x);
	struct slice content = outgoing_reply_content(&reply);
	if (!content.at || !open_sink(x, flow, reply.bytes, &sink))
		return false;
	text_head_status(&sink, reply.status, SLICE_NONE);
	outgoing_reply_put(&sink, &reply, content.len);
	if (x->answer.status == 426) { /* RFC 9110 section 15.5.22 */
		field_put(&sink, SLICE("Connection"), SLICE("upgrade"));
		field_put(&sink, SLICE("Upgrade"), SLICE("websocket"));
	}
	put_connection(&sink, x);
	text_head_end(&sink);
	x->answer.reply_bytes = is_head ? 0 : content.len;
	if (!is_head)
		http_out_slice(&sink.out, content);
	if (!sink.out.overflow)
		flow_commit(flow, &sink.out);
	return !sink.out.overflow;
}
