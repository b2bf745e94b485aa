#include "http2/h2_response.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/exchange.h"
#include "exchange/outgoing.h"
#include "http2/h2_fields.h"
#include "http2/h2_output.h"

/* ---- heads ----------------------------------------------------------------------------------- */

static bool submit_continue(struct h2_stream *stream)
{
	static const char name[] = ":status", value[] = "100";
	const nghttp2_nv field = {(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
		sizeof(name) - 1, sizeof(value) - 1, NGHTTP2_NV_FLAG_NONE};

	return nghttp2_submit_headers(stream->connection->link.session, NGHTTP2_FLAG_NONE,
		       stream->id, NULL, &field, 1, NULL) == 0;
}

static bool put_response(
	struct h2_fields *fields, struct h2_stream *stream, struct exchange *x, bool is_interim)
{
	struct outgoing_response response;

	outgoing_response_make(&response, x, is_interim);
	h2_fields_begin(fields, stream->connection->worker);
	if (!h2_fields_put_status(fields, x->response->status) ||
		!h2_fields_open(fields, response.bytes))
		return false;
	outgoing_response_put(&fields->sink, &response, http_head_fields_at(x->response));
	if (!is_interim && x->response_framing.has_length && x->response->status != 204)
		field_put_number(
			&fields->sink, SLICE("content-length"), x->response_framing.length);
	return true;
}

enum client_interim h2_interim(struct client *client, struct exchange *x, bool is_own)
{
	struct h2_stream *stream = h2_stream_of(client);
	struct h2_fields fields;
	bool is_composed;

	if (is_own) {
		is_composed = submit_continue(stream);
	} else {
		is_composed =
			put_response(&fields, stream, x, true) && h2_fields_close(&fields) &&
			nghttp2_submit_headers(stream->connection->link.session, NGHTTP2_FLAG_NONE,
				stream->id, NULL, fields.h2->fields, fields.count, NULL) == 0;
		h2_fields_free(&fields);
	}
	h2_write_later(stream->connection);
	return is_composed ? CLIENT_INTERIM_PASSED : CLIENT_INTERIM_NO_MEMORY;
}

/* The final head. `has_body`: its content comes from the sink. */
static bool submit(struct h2_stream *stream, struct h2_fields *fields, bool has_body)
{
	nghttp2_data_provider provider = {{.ptr = &stream->sink}, h2_output_read_data};

	if (!h2_fields_close(fields) ||
		nghttp2_submit_response(stream->connection->link.session, stream->id,
			fields->h2->fields, fields->count, has_body ? &provider : NULL) != 0)
		return false;
	stream->has_responded = true;
	stream->sink.is_last |= !has_body;
	h2_write_later(stream->connection);
	return true;
}

enum pump_result h2_head_out(struct client *client, struct exchange *x)
{
	struct h2_stream *stream = h2_stream_of(client);
	struct h2_fields fields;
	enum pump_result result;

	/* The run is borrowed before anything is the session's: it may be what is wrong. */
	result = pump_fill_first(&x->down);
	if (result == PUMP_SOURCE_BROKEN)
		h2_sink_end(&stream->sink);
	if (result == PUMP_NO_MEMORY || result == PUMP_SOURCE_BROKEN)
		return result;
	bool has_body = !x->down.ended || h2_sink_has_output(&stream->sink) || x->down.end_due;
	if (!put_response(&fields, stream, x, false) || !submit(stream, &fields, has_body))
		result = PUMP_NO_MEMORY;
	h2_fields_free(&fields);
	return result;
}

/* ---- local responses ------------------------------------------------------------------------- */

static bool keep_content(struct h2_stream *stream, struct slice content)
{
	stream->reply = malloc(content.len);
	if (!stream->reply)
		return false;
	memcpy(stream->reply, content.at, content.len);
	stream->sink.run = (struct slice){stream->reply, content.len};
	stream->sink.is_last = true;
	return true;
}

bool h2_reply(struct client *client, struct exchange *x)
{
	bool is_head = x->request.method == HTTP_METHOD_HEAD && x->request.len > 0;
	struct h2_stream *stream = h2_stream_of(client);
	struct h2_fields fields;
	struct outgoing_reply reply;

	outgoing_reply_make(&reply, x);
	struct slice content = outgoing_reply_content(&reply);
	bool has_body = !is_head && content.len > 0;
	h2_fields_begin(&fields, stream->connection->worker);
	if (!content.at || !h2_fields_put_status(&fields, reply.status) ||
		!h2_fields_open(&fields, reply.bytes))
		return false;
	outgoing_reply_put(&fields.sink, &reply, content.len);
	x->answer.reply_bytes = has_body ? content.len : 0;
	bool is_composed =
		(!has_body || keep_content(stream, content)) && submit(stream, &fields, has_body);
	h2_fields_free(&fields);
	return is_composed;
}
