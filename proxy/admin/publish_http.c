#include "admin/publish_http.h"

#include <string.h>

#include "base/base64.h"
#include "http/framing.h"
#include "http/parser.h"
#include "http/text_head.h"

#define RESPONSE ".formats.http-response"
#define STREAM   ".formats.http-stream"

/* ---- content --------------------------------------------------------------------------------- */

/* A text, or base64 in the member `binary`. False: it is neither. `content->at` is NULL where there
 * is none. */
static bool read_content(const json_t *object, const char *name, const char *binary,
	struct publish_room *room, struct slice *content)
{
	const json_t *text = json_object_get(object, name),
		     *coded = json_object_get(object, binary);
	size_t bytes;

	*content = SLICE_NONE;
	if (coded && !json_is_null(coded)) {
		struct slice from = {json_string_value(coded), json_string_length(coded)};
		if (!json_is_string(coded) || !base64_read(from, room->at, &bytes))
			return false;
		*content = (struct slice){room->at, bytes};
		room->at += bytes;
		room->bytes -= bytes;
	} else if (text && !json_is_null(text)) {
		*content = (struct slice){json_string_value(text), json_string_length(text)};
		return json_is_string(text);
	}
	return true;
}

/* ---- responses ------------------------------------------------------------------------------- */

static bool is_framing(struct slice name)
{
	return slice_equal_nocase(name, SLICE("content-length")) ||
	       slice_equal_nocase(name, SLICE("transfer-encoding"));
}

/* What would end a line is not looked for by the parser. */
static bool is_line(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] == '\r' || text.at[i] == '\n' || text.at[i] == '\0')
			return false;
	return true;
}

static bool put_field(struct field_sink *sink, struct slice name, const json_t *value)
{
	struct slice text = {json_string_value(value), json_string_length(value)};

	if (!json_is_string(value) || !is_line(name) || !is_line(text))
		return false;
	if (!is_framing(name))
		field_put(sink, name, text);
	return true;
}

/* An object, or a list of pairs where a name may come again. */
static bool put_fields(struct field_sink *sink, json_t *fields)
{
	const char *name;
	json_t *value;

	if (!fields || json_is_null(fields))
		return true;
	if (json_is_object(fields)) {
		json_object_foreach(fields, name, value)
		{
			if (!put_field(sink, slice_of(name), value))
				return false;
		}
		return true;
	}
	for (size_t i = 0; i < json_array_size(fields); i++) {
		const json_t *pair = json_array_get(fields, i), *first = json_array_get(pair, 0);
		struct slice text = {json_string_value(first), json_string_length(first)};
		if (json_array_size(pair) != 2 || !json_is_string(first) ||
			!put_field(sink, text, json_array_get(pair, 1)))
			return false;
	}
	return json_is_array(fields);
}

static bool put_status(struct field_sink *sink, const json_t *response)
{
	const json_t *code = json_object_get(response, "code");
	const json_t *reason = json_object_get(response, "reason");
	json_int_t number = code && !json_is_null(code) ? json_integer_value(code) : 200;
	struct slice text = {json_string_value(reason), json_string_length(reason)};

	if (number < 200 || number > 599 || !is_line(text))
		return false;
	text_head_status(sink, (unsigned)number, text);
	return true;
}

/* As a client's node would read it from a server. */
static bool is_head(struct slice head)
{
	static const struct http_parser_limits limits = {256 * 1024, 0, 512};
	struct http_framing framing;
	struct http_head read;

	http_head_init(&read);
	bool is_good = http_read_response(&read, head, &limits) && read.len == head.len &&
		       http_frame_response(&read, HTTP_METHOD_GET, &framing);
	http_head_clear(&read);
	return is_good;
}

bool publish_filters_content(const json_t *format)
{
	const json_t *filters = json_object_get(format, "content-filters");

	return filters && !json_is_null(filters) &&
	       !(json_is_array(filters) && json_array_size(filters) == 0);
}

static const char *read_response(
	const json_t *response, struct publish_room *room, struct publish_item *item)
{
	struct slice content;

	if (!json_is_object(response))
		return RESPONSE ": invalid type; expected an object";
	if (publish_filters_content(response))
		return RESPONSE ".content-filters: not supported; expected none";
	if (!read_content(response, "body", "body-bin", room, &content))
		return RESPONSE ": invalid body or body-bin; expected a text, or base64";
	struct field_sink sink = text_head_over(http_out_over(room->at, room->bytes));
	struct http_out *out = &sink.out;
	if (!put_status(&sink, response))
		return RESPONSE ".code: invalid value; expected a status from 200 to 599";
	if (!put_fields(&sink, json_object_get(response, "headers")))
		return RESPONSE ".headers: invalid value; expected names and values";
	field_put_number(&sink, SLICE("Content-Length"), content.len);
	text_head_end(&sink);
	if (out->overflow || !is_head((struct slice){room->at, (size_t)(out->at - room->at)}))
		return RESPONSE ".headers: invalid value; expected names and values";
	http_out_slice(out, content);
	item->response = (struct slice){room->at, (size_t)(out->at - room->at)};
	room->at += item->response.len;
	room->bytes -= item->response.len;
	return out->overflow ? RESPONSE ": too large" : NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

static const char *read_stream(
	const json_t *stream, struct publish_room *room, struct publish_item *item)
{
	const json_t *action = json_object_get(stream, "action");
	struct slice word = {json_string_value(action), json_string_length(action)};

	if (!json_is_object(stream))
		return STREAM ": invalid type; expected an object";
	if (publish_filters_content(stream))
		return STREAM ".content-filters: not supported; expected none";
	if (!read_content(stream, "content", "content-bin", room, &item->stream))
		return STREAM ": invalid content or content-bin; expected a text, or base64";
	item->closes_stream = slice_equal(word, SLICE("close"));
	if (slice_equal(word, SLICE("hint")))
		item->stream = SLICE_NONE;
	else if (action && !json_is_null(action) && !item->closes_stream &&
		 !slice_equal(word, SLICE("send")))
		return STREAM ".action: unknown value; expected send, close or hint";
	else if (!item->stream.at && !item->closes_stream)
		return STREAM ": no content; expected content, content-bin or action";
	return NULL;
}

const char *publish_http_read(
	const json_t *formats, struct publish_room *room, struct publish_item *item)
{
	const json_t *response = json_object_get(formats, "http-response");
	const json_t *stream = json_object_get(formats, "http-stream");
	const char *why = response ? read_response(response, room, item) : NULL;

	return !why && stream ? read_stream(stream, room, item) : why;
}
