#include "admin/publish_items.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/publish_http.h"
#include "base/base64.h"
#include "channels/grip_control.h"
#include "frames/messages.h"

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
