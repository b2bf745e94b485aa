/* Header fields to set and remove, and paths to put before others. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#include <ctype.h>
#include <string.h>

#include "http/message.h"

/*
 * Fields that frame or route the message, and those by which a WebSocket's two sides agree, are the
 * proxy's: setting one from the ini could only break it (RFC 9112 section 6, RFC 9110
 * section 7.6.1, RFC 6455 section 4).
 */
static bool is_own(struct slice name)
{
	static const struct slice own[] = {SLICE("Connection"), SLICE("Content-Length"),
		SLICE("Keep-Alive"), SLICE("Proxy-Connection"), SLICE("TE"), SLICE("Trailer"),
		SLICE("Transfer-Encoding"), SLICE("Upgrade"), SLICE("Sec-WebSocket-Key"),
		SLICE("Sec-WebSocket-Accept"), SLICE("Sec-WebSocket-Version")};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (slice_equal_nocase(name, own[i]))
			return true;
	return false;
}

/* HOST, HOST:PORT or [IPV6]:PORT, as far as it can do harm. */
static bool is_host(struct slice text)
{
	const char *end = text.at + text.len, *port = memrchr(text.at, ':', text.len);

	if (port && memchr(port, ']', (size_t)(end - port)))
		port = NULL;
	for (const char *c = text.at; c < (port ? port : end); c++) {
		bool in_brackets = text.at[0] == '[';
		if (!isalnum((unsigned char)*c) && !strchr(in_brackets ? "[]:." : "-._~", *c))
			return false;
	}
	for (const char *c = port ? port + 1 : end; c < end; c++) {
		if (!isdigit((unsigned char)*c))
			return false;
	}
	return text.len > 0 && port != text.at;
}

/* Name: value */
static bool parse_field(struct value *value)
{
	struct conf_fields *fields = value->at;
	const char *colon = memchr(value->text.at, ':', value->text.len);
	struct slice name, text;

	if (!colon)
		return value_fail(value, "\"%.*s\" has no colon", SLICE_ARGS(value->text));
	name = slice_trim((struct slice){value->text.at, (size_t)(colon - value->text.at)});
	text = slice_trim(
		(struct slice){colon + 1, value->text.len - (size_t)(colon - value->text.at) - 1});
	if (!scan_is_token(name))
		return value_fail(value, "invalid field name \"%.*s\"", SLICE_ARGS(name));
	if (is_own(name))
		return value_fail_plainly(value,
			"%.*s is sluice's own to set; expected another field", SLICE_ARGS(name));
	if (slice_equal_nocase(name, SLICE("Host")) && !is_host(text))
		return value_fail_plainly(value,
			"invalid host \"%.*s\"; expected HOST or HOST:PORT", SLICE_ARGS(text));
	fields->items = arena_grow(
		value->build->arena, fields->items, fields->count, sizeof(*fields->items));
	fields->items[fields->count++] = (struct conf_field){.name = value_text(value, name),
		.name_len = name.len,
		.value = value_text(value, text),
		.value_len = text.len};
	if (scan_comment(text))
		value_warn(value, "\"%.*s\" is sent whole", SLICE_ARGS(text));
	return true;
}

static bool parse_field_names(struct value *value)
{
	struct slice rest = value->text, name;
	bool good = true;

	while (slice_next_element(&rest, &name)) {
		if (!scan_is_token(name))
			good = value_fail(value, "invalid field name \"%.*s\"", SLICE_ARGS(name));
		else if (is_own(name) || slice_equal_nocase(name, SLICE("Host")))
			good = value_fail_plainly(value,
				"%.*s is sluice's own; expected another field", SLICE_ARGS(name));
		else
			value_list_add(value, value->at, value_text(value, name));
	}
	return good;
}

/* TYPE/SUBTYPE, without parameters (RFC 9110 section 8.3.1). */
static bool is_media_type(struct slice text)
{
	const char *slash = memchr(text.at, '/', text.len);
	size_t type_len = slash ? (size_t)(slash - text.at) : 0;

	return slash && scan_is_token((struct slice){text.at, type_len}) &&
	       scan_is_token((struct slice){slash + 1, text.len - type_len - 1});
}

static bool parse_media_types(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		if (is_media_type(item))
			value_list_add(value, value->at, value_text(value, item));
		else
			good = value_fail(value, "invalid media type \"%.*s\"", SLICE_ARGS(item));
	}
	return good;
}

/* A path that a request line may contain as it is. */
static bool parse_uri_path(struct value *value)
{
	struct slice path = value->text;

	if (path.at[0] != '/')
		return value_fail(value, "\"%.*s\" does not begin with '/'", SLICE_ARGS(path));
	for (size_t i = 0; i < path.len; i++) {
		unsigned char c = (unsigned char)path.at[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}#", c) ||
			(c == '?' && !(value->option->flags & OPTION_QUERY)))
			return value_fail(value, "byte 0x%02x in \"%.*s\"", c, SLICE_ARGS(path));
		if (c == '%' && (i + 2 >= path.len || !isxdigit((unsigned char)path.at[i + 1]) ||
					!isxdigit((unsigned char)path.at[i + 2])))
			return value_fail_plainly(value,
				"\"%.*s\" after '%%'; expected two hex digits",
				(int)(path.len - i - 1 < 2 ? path.len - i - 1 : 2),
				path.at + i + 1);
	}
	*(const char **)value->at = value_text(value, path);
	return true;
}

static bool parse_host_field(struct value *value)
{
	for (size_t i = 0; i < value->text.len; i++) {
		unsigned char c = (unsigned char)value->text.at[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}#/?@,", c))
			return value_fail(
				value, "byte 0x%02x in \"%.*s\"", c, SLICE_ARGS(value->text));
	}
	*(const char **)value->at = value_text(value, value->text);
	return true;
}

const struct option_type type_field = {"field", "Name: value", parse_field, same_fields, true};
const struct option_type type_field_names = {
	"list of fields", "field names, with commas", parse_field_names, same_texts, true};
const struct option_type type_media_types = {"list of media types",
	"media types such as application/x-ndjson", parse_media_types, same_texts, true};
const struct option_type type_uri_path = {
	"path", "a path such as /v1, percent-encoded", parse_uri_path, same_text, false};
const struct option_type type_host_field = {
	"host", "HOST or HOST:PORT", parse_host_field, same_text, false};
