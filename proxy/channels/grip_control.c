#include "channels/grip_control.h"

#include <string.h>

#include "base/base64.h"
#include "frames/messages.h"

/* More is not looked at: a message's text is at most a channel, or content in base64, escaped. */
#define JSON_BYTES (16 * 1024)

bool grip_channel_is_valid(struct slice name)
{
	return name.len > 0 && name.len <= GRIP_CHANNEL_BYTES && utf8_is_valid(name);
}

bool grip_find_text(const json_t *object, const char *name, struct slice *text)
{
	const json_t *value = json_object_get(object, name);

	*text = SLICE_NONE;
	if (!value || json_is_null(value))
		return true;
	*text = (struct slice){json_string_value(value), json_string_length(value)};
	return json_is_string(value);
}

static const char *read_channel(const json_t *object, struct grip_control *control)
{
	struct slice name;

	if (!grip_find_text(object, "channel", &name) || !name.at || !grip_channel_is_valid(name))
		return "invalid \"channel\"; expected a text of 1 to 1024 bytes";
	memcpy(control->text, name.at, name.len);
	control->bytes = name.len;
	return NULL;
}

static const char *read_filters(const json_t *object, struct grip_control *control)
{
	const json_t *list = json_object_get(object, "filters");

	control->filters = 0;
	if (list && !json_is_null(list) && !json_is_array(list))
		return "invalid \"filters\"; expected a list of names";
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *name = json_array_get(list, i);
		unsigned filter = grip_filter_find(
			(struct slice){json_string_value(name), json_string_length(name)});
		if (filter == 0)
			return "unknown \"filters\"; expected " GRIP_FILTER_NAMES;
		control->filters |= filter;
	}
	return NULL;
}

static const char *read_subscription(const json_t *object, struct grip_control *control)
{
	const char *wrong = read_channel(object, control);

	return wrong ? wrong : read_filters(object, control);
}

static const char *read_meta(const json_t *object, struct grip_control *control)
{
	struct slice name, value;

	if (!grip_find_text(object, "name", &name) || name.len == 0 ||
		name.len > GRIP_META_NAME_BYTES)
		return "invalid \"name\"; expected a text of 1 to 256 bytes";
	if (!grip_find_text(object, "value", &value) || value.len > GRIP_CHANNEL_BYTES)
		return "invalid \"value\"; expected a text of up to 1024 bytes";
	memcpy(control->name, name.at, name.len);
	control->name_bytes = name.len;
	if (value.len > 0)
		memcpy(control->text, value.at, value.len);
	control->bytes = value.len;
	return NULL;
}

/* ---- keep-alive ------------------------------------------------------------------------------ */

static const char *read_content(const json_t *object, struct grip_control *control)
{
	static const char expected[] = "invalid \"content-bin\"; expected base64 of up to 1024 "
				       "bytes";
	struct slice text, binary;
	char bytes[BASE64_ROOM(2 * GRIP_KEEP_ALIVE_BYTES)];

	if (!grip_find_text(object, "content", &text) || text.len > GRIP_KEEP_ALIVE_BYTES)
		return "invalid \"content\"; expected a text of up to 1024 bytes";
	if (!grip_find_text(object, "content-bin", &binary) ||
		binary.len > 2 * GRIP_KEEP_ALIVE_BYTES)
		return expected;
	control->has_content = binary.at;
	control->opcode = binary.at ? FRAME_BINARY : FRAME_TEXT;
	control->bytes = 0;
	if (binary.at) {
		if (!base64_read(binary, bytes, &control->bytes) ||
			control->bytes > GRIP_KEEP_ALIVE_BYTES)
			return expected;
		memcpy(control->text, bytes, control->bytes);
	} else if (text.at) {
		control->has_content = true;
		control->bytes = text.len;
		memcpy(control->text, text.at, text.len);
	}
	return NULL;
}

bool grip_find_type(const json_t *object, const char *name, uint8_t *opcode)
{
	static const struct {
		const char *word;
		uint8_t opcode;
	} types[] = {{"text", FRAME_TEXT}, {"binary", FRAME_BINARY}, {"ping", FRAME_PING},
		{"pong", FRAME_PONG}};
	struct slice type;
	bool is_text = grip_find_text(object, name, &type);

	if (is_text && !type.at)
		return true;
	for (size_t i = 0; is_text && i < sizeof(types) / sizeof(types[0]); i++) {
		if (!slice_equal(type, slice_of(types[i].word)))
			continue;
		*opcode = types[i].opcode;
		return true;
	}
	return false;
}

/* A ping needs no content. */
static const char *read_message_type(const json_t *object, struct grip_control *control)
{
	if (!grip_find_type(object, "message-type", &control->opcode))
		return "invalid \"message-type\"; expected \"text\", \"binary\", \"ping\" or "
		       "\"pong\"";
	control->has_content |= control->opcode & 8;
	return NULL;
}

static const char *read_mode(const json_t *object, struct grip_control *control)
{
	struct slice mode;

	if (!grip_find_text(object, "mode", &mode))
		return "invalid \"mode\"; expected \"idle\" or \"interval\"";
	control->is_interval = mode.at && slice_equal(mode, SLICE("interval"));
	if (mode.at && !control->is_interval && !slice_equal(mode, SLICE("idle")))
		return "invalid \"mode\"; expected \"idle\" or \"interval\"";
	return NULL;
}

static const char *read_timeout(const json_t *object, struct grip_control *control)
{
	const json_t *timeout = json_object_get(object, "timeout");
	json_int_t seconds = json_integer_value(timeout);

	control->timeout_s = GRIP_KEEP_ALIVE_DEFAULT_S;
	if (!timeout || json_is_null(timeout))
		return NULL;
	if (!json_is_integer(timeout) || seconds < 1 || seconds > GRIP_KEEP_ALIVE_MAX_S)
		return "invalid \"timeout\"; expected seconds from 1 to 86400";
	control->timeout_s = (uint32_t)seconds;
	return NULL;
}

/* A text that the client could not read as one is binary or wrong. */
static const char *check_content(const struct grip_control *control)
{
	if (control->opcode & 8 && control->bytes > FRAME_CONTROL_BYTES)
		return "invalid content; expected up to 125 bytes in a ping or pong";
	if (control->opcode != FRAME_TEXT ||
		utf8_is_valid((struct slice){control->text, control->bytes}))
		return NULL;
	return "invalid content; expected UTF-8 in a text";
}

static const char *read_keep_alive(const json_t *object, struct grip_control *control)
{
	const char *wrong = read_content(object, control);

	if (!wrong)
		wrong = read_message_type(object, control);
	if (!wrong)
		wrong = read_mode(object, control);
	if (!wrong)
		wrong = read_timeout(object, control);
	return wrong ? wrong : check_content(control);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const char *read_nothing(const json_t *object, struct grip_control *control)
{
	(void)object;
	control->bytes = 0;
	return NULL;
}

static const char *read_object(const json_t *object, struct grip_control *control)
{
	static const struct {
		const char *word;
		enum grip_control_type type;
		const char *(*read)(const json_t *object, struct grip_control *control);
	} types[] = {{"subscribe", GRIP_SUBSCRIBE, read_subscription},
		{"unsubscribe", GRIP_UNSUBSCRIBE, read_channel},
		{"detach", GRIP_DETACH, read_nothing},
		{"keep-alive", GRIP_KEEP_ALIVE, read_keep_alive},
		{"set-meta", GRIP_SET_META, read_meta}};
	struct slice word;

	if (!grip_find_text(object, "type", &word) || !word.at)
		return "invalid \"type\"; expected a text";
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!slice_equal(word, slice_of(types[i].word)))
			continue;
		control->type = types[i].type;
		return types[i].read(object, control);
	}
	return "unknown \"type\"; expected subscribe, unsubscribe, detach, "
	       "keep-alive or set-meta";
}

const char *grip_control_parse(struct slice json, struct grip_control *control)
{
	json_error_t error;
	const char *wrong = "invalid JSON; expected an object of up to 16 kB";

	if (json.len == 0 || json.len > JSON_BYTES)
		return wrong;
	json_t *object = json_loadb(json.at, json.len, JSON_ALLOW_NUL, &error);
	if (json_is_object(object))
		wrong = read_object(object, control);
	json_decref(object);
	return wrong;
}

/* ---- grip filter ---------------------------------------------------------------------------- */

unsigned grip_filter_find(struct slice name)
{
	static const struct slice names[] = {
		SLICE("skip-self"), SLICE("skip-users"), SLICE("require-sub")};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_equal(name, names[i]))
			return 1u << i;
	return 0;
}

_Static_assert(GRIP_SKIP_SELF == 1 && GRIP_SKIP_USERS == 2 && GRIP_REQUIRE_SUB == 4,
	"they are in the order of their names");

static bool is_among(struct slice list, struct slice user)
{
	while (list.len > 0) {
		const char *comma = memchr(list.at, ',', list.len);
		size_t len = comma ? (size_t)(comma - list.at) : list.len;
		if (slice_equal(slice_trim((struct slice){list.at, len}), user))
			return true;
		len += comma != NULL;
		list = (struct slice){list.at + len, list.len - len};
	}
	return false;
}

bool grip_filter_skips(unsigned filters, const struct grip_meta *meta, struct slice user)
{
	if (user.len == 0)
		return false;
	return (filters & GRIP_SKIP_SELF && slice_equal(meta->sender, user)) ||
	       (filters & GRIP_SKIP_USERS && is_among(meta->skip_users, user));
}
