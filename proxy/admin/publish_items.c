#include "admin/publish_items.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "channels/grip_control.h"
#include "frames/messages.h"
#include "http/framing.h"
#include "http/parser.h"
#include "http/text_head.h"

/* A close frame's reason. */
#define REASON_BYTES (FRAME_CONTROL_BYTES - 2)

/* Where the reader is, for what it has to say. */
struct reader {
	struct publish_items *items;
	size_t decoded_bytes; /* of items->decoded, so far */
	size_t index;         /* of the item */
	struct publish_room room;
	char *why;
	size_t why_bytes;
};

static bool fail(const struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* False, with the item's place before the text. */
static bool fail(const struct reader *reader, const char *format, ...)
{
	va_list arguments;
	int len = snprintf(reader->why, reader->why_bytes, "items[%zu]", reader->index);

	va_start(arguments, format);
	vsnprintf(reader->why + len, reader->why_bytes - (size_t)len, format, arguments);
	va_end(arguments);
	return false;
}

#define MESSAGE ".formats.ws-message"

/* ---- messages -------------------------------------------------------------------------------- */

static bool read_content(struct reader *reader, const json_t *message, struct publish_item *item)
{
	struct slice text, binary;
	size_t bytes;

	if (!grip_find_text(message, "content", &text))
		return fail(reader, MESSAGE ".content: invalid type; expected a text");
	if (!grip_find_text(message, "content-bin", &binary))
		return fail(
			reader, MESSAGE ".content-bin: invalid type; expected base64 as a text");
	if (!text.at && !binary.at && !(item->opcode & 8))
		return fail(reader, MESSAGE ": no content; expected content or content-bin");
	if (item->opcode == 0)
		item->opcode = binary.at ? FRAME_BINARY : FRAME_TEXT;
	item->content = text;
	if (!binary.at)
		return true;
	item->content.at = reader->items->decoded + reader->decoded_bytes;
	if (!base64_read(binary, reader->items->decoded + reader->decoded_bytes, &bytes))
		return fail(reader,
			MESSAGE ".content-bin: invalid base64; expected it with its padding");
	item->content.len = bytes;
	reader->decoded_bytes += bytes;
	return true;
}

/* The kind of frame; 0: the way in which the content is written chooses it. */
static bool read_type(struct reader *reader, const json_t *message, struct publish_item *item)
{
	return grip_find_type(message, "type", &item->opcode) ||
	       fail(reader, MESSAGE ".type: invalid value; expected text, binary, ping or pong");
}

static bool check_content(const struct reader *reader, const struct publish_item *item)
{
	if (item->opcode == FRAME_TEXT && !utf8_is_valid(item->content))
		return fail(reader, MESSAGE ".content-bin: invalid UTF-8; expected it in a text");
	if (item->opcode & 8 && item->content.len > FRAME_CONTROL_BYTES)
		return fail(reader,
			MESSAGE ": content too long; expected up to %d bytes in a ping "
				"or pong",
			FRAME_CONTROL_BYTES);
	return true;
}

static bool read_send(struct reader *reader, const json_t *message, struct publish_item *item)
{
	item->action = PUBLISH_SEND;
	if (!read_type(reader, message, item) || !read_content(reader, message, item) ||
		!check_content(reader, item))
		return false;
	return !publish_filters_content(message) ||
	       fail(reader, MESSAGE ".content-filters: not supported; expected none");
}

static bool read_close(struct reader *reader, const json_t *message, struct publish_item *item)
{
	const json_t *code = json_object_get(message, "code");
	json_int_t number = code && !json_is_null(code) ? json_integer_value(code) : CLOSE_NORMAL;

	if (number < 0 || number > 4999 || !close_code_is_valid((unsigned)number))
		return fail(reader, MESSAGE ".code: invalid value; expected a close code such as "
					    "1000 or 4000");
	if (!grip_find_text(message, "reason", &item->content) || item->content.len > REASON_BYTES)
		return fail(reader,
			MESSAGE ".reason: invalid value; expected a text of up to %d bytes",
			REASON_BYTES);
	item->code = (uint16_t)number;
	return true;
}

static bool read_message(struct reader *reader, const json_t *message, struct publish_item *item)
{
	struct slice action;

	if (!json_is_object(message))
		return fail(reader, MESSAGE ": invalid type; expected an object");
	if (!grip_find_text(message, "action", &action))
		return fail(reader, MESSAGE ".action: invalid type; expected a text");
	if (!action.at || slice_equal(action, SLICE("send")))
		return read_send(reader, message, item);
	if (slice_equal(action, SLICE("close"))) {
		item->action = PUBLISH_CLOSE;
		return read_close(reader, message, item);
	}
	if (slice_equal(action, SLICE("refresh"))) {
		item->action = PUBLISH_REFRESH;
		return true;
	}
	if (slice_equal(action, SLICE("hint")))
		return true;
	return fail(
		reader, MESSAGE ".action: unknown value; expected send, close, refresh or hint");
}

/* ---- items ----------------------------------------------------------------------------------- */

/* What it says for the filters of subscriptions. Other members are for nobody here. */
static bool read_meta(struct reader *reader, const json_t *object, struct grip_meta *to)
{
	const json_t *meta = json_object_get(object, "meta");

	if (meta && !json_is_null(meta) && !json_is_object(meta))
		return fail(reader, ".meta: invalid type; expected an object");
	if (!grip_find_text(meta, "sender", &to->sender) || to->sender.len > GRIP_META_BYTES ||
		!grip_find_text(meta, "skip_users", &to->skip_users) ||
		to->skip_users.len > GRIP_META_BYTES ||
		!grip_find_text(meta, "require_sub", &to->require_sub) ||
		to->require_sub.len > GRIP_META_BYTES)
		return fail(reader,
			".meta: invalid sender, skip_users or require_sub; expected a text of up "
			"to %d bytes",
			GRIP_META_BYTES);
	return true;
}

static bool read_item(struct reader *reader, const json_t *object, struct publish_item *item)
{
	const json_t *formats = json_object_get(object, "formats");
	const json_t *message = json_object_get(formats, "ws-message");
	struct slice id;

	item->action = PUBLISH_NOTHING;
	if (!json_is_object(object))
		return fail(reader, ": invalid type; expected an object");
	if (!grip_find_text(object, "channel", &item->channel) || !item->channel.at ||
		!grip_channel_is_valid(item->channel))
		return fail(reader, ".channel: invalid value; expected a text of 1 to %d bytes",
			GRIP_CHANNEL_BYTES);
	if (!grip_find_text(object, "id", &id) || !grip_find_text(object, "prev-id", &id))
		return fail(reader, ": invalid id or prev-id; expected a text");
	if (!read_meta(reader, object, &item->meta))
		return false;
	if (!json_is_object(formats) || json_object_size(formats) == 0)
		return fail(reader,
			".formats: invalid value; expected an object such as {\"ws-message\": "
			"{\"content\": \"text\"}}");
	if (message && !read_message(reader, message, item))
		return false;
	const char *why = publish_http_read(formats, &reader->room, item);
	return !why || fail(reader, "%s", why);
}

/* Room for all that is decoded: base64 is longer than what it stands for. */
static size_t composed_bytes(const struct publish_items *items, size_t text_bytes)
{
	return BASE64_ROOM(text_bytes) + 2 * text_bytes + items->count * PUBLISH_HTTP_BYTES;
}

static bool acquire(struct publish_items *items, size_t text_bytes)
{
	items->items = calloc(items->count, sizeof(*items->items));
	items->decoded = malloc(BASE64_ROOM(text_bytes));
	items->composed = malloc(composed_bytes(items, text_bytes));
	return items->items && items->decoded && items->composed;
}

static bool read_items(struct reader *reader, const json_t *list, size_t text_bytes)
{
	struct publish_items *items = reader->items;

	items->count = json_array_size(list);
	if (items->count == 0 || items->count > PUBLISH_ITEMS_MOST) {
		snprintf(reader->why, reader->why_bytes,
			"items: invalid value; expected an array of 1 to %d items",
			PUBLISH_ITEMS_MOST);
		return false;
	}
	if (!acquire(items, text_bytes)) {
		snprintf(reader->why, reader->why_bytes, "items: no memory");
		return false;
	}
	reader->room = (struct publish_room){items->composed, composed_bytes(items, text_bytes)};
	for (size_t i = 0; i < items->count; i++) {
		reader->index = i;
		if (!read_item(reader, json_array_get(list, i), &items->items[i]))
			return false;
	}
	return true;
}

bool publish_items_read(struct slice text, struct publish_items *items, char *why, size_t why_bytes)
{
	struct reader reader = {.items = items, .why = why, .why_bytes = why_bytes};
	json_error_t error;

	*items = (struct publish_items){
		.document = json_loadb(text.at, text.len, JSON_ALLOW_NUL, &error)};
	if (!items->document) {
		snprintf(why, why_bytes, "invalid JSON: %s (line %d, column %d)", error.text,
			error.line, error.column);
		return false;
	}
	if (read_items(&reader, json_object_get(items->document, "items"), text.len))
		return true;
	publish_items_end(items);
	return false;
}

void publish_items_end(struct publish_items *items)
{
	json_decref(items->document);
	free(items->items);
	free(items->decoded);
	free(items->composed);
	*items = (struct publish_items){0};
}

/* ---- publish http --------------------------------------------------------------------------- */

#define RESPONSE ".formats.http-response"
#define STREAM   ".formats.http-stream"

/* ---- content --------------------------------------------------------------------------------- */

/* A text, or base64 in the member `binary`. False: it is neither. `content->at` is NULL where there
 * is none. */
static bool publish_http_read_content(const json_t *object, const char *name, const char *binary,
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
	if (!publish_http_read_content(response, "body", "body-bin", room, &content))
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
	if (!publish_http_read_content(stream, "content", "content-bin", room, &item->stream))
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
