#include "websocket/handshake.h"

#include <ctype.h>
#include <string.h>

#include "base/base64.h"
#include "base/digest.h"

static const struct slice extensions_name = SLICE("sec-websocket-extensions");
static const struct slice protocol_name = SLICE("sec-websocket-protocol");

/* ---- lists in fields ------------------------------------------------------------------------- */

typedef bool keeps(const struct conf_websocket *conf, struct slice element);

/* `permessage-deflate; client_max_window_bits` */
static bool is_deflate(struct slice element)
{
	const char *semicolon = memchr(element.at, ';', element.len);

	if (semicolon)
		element.len = (size_t)(semicolon - element.at);
	return slice_equal_nocase(slice_trim(element), SLICE("permessage-deflate"));
}

static bool keeps_deflate(const struct conf_websocket *conf, struct slice element)
{
	return conf->on_exceed != CONF_MESSAGE_DROP && is_deflate(element);
}

/* Subprotocols are compared with their case (RFC 6455 section 11.5). */
static bool keeps_protocol(const struct conf_websocket *conf, struct slice element)
{
	for (size_t i = 0; i < conf->protocols.count; i++) {
		if (slice_equal(element, slice_of(conf->protocols.items[i])))
			return true;
	}
	return conf->protocols.count == 0;
}

static bool has_name(
	const struct http_head *head, const struct http_field *field, struct slice name)
{
	return field->name_len == name.len &&
	       slice_equal_nocase(http_field_name(head, field), name);
}

/* Writes what is kept of the list in its place, and blanks behind it. Returns how many are kept. */
static unsigned keep_in_place(
	const struct conf_websocket *conf, struct http_field *field, char *bytes, keeps *keep)
{
	char *value = bytes + field->value_at;
	size_t len = field->value_len, written = 0;
	struct slice rest = {value, len}, element;
	unsigned kept = 0;

	while (slice_next_element(&rest, &element)) {
		if (!keep(conf, element))
			continue;
		if (kept++ > 0)
			value[written++] = ',';
		memmove(value + written, element.at, element.len);
		written += element.len;
	}
	memset(value + written, ' ', len - written);
	field->value_len = (uint32_t)written;
	return kept;
}

/* The same for all fields of a name; one with nothing left is not passed on. `*asked`: elements
 * before. Returns those after. */
static unsigned filter(const struct conf_websocket *conf, struct http_head *head, char *bytes,
	struct slice name, keeps *keep, bool *asked)
{
	unsigned kept = 0;

	*asked = false;
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (!has_name(head, field, name))
			continue;
		*asked |= field->value_len > 0;
		unsigned here = keep_in_place(conf, field, bytes, keep);
		kept += here;
		if (here == 0) {
			field->hop = true;
			/* The copying of lines looks at each then. */
			head->ids |= HTTP_FIELD_BIT(UNDERSCORED);
		}
	}
	return kept;
}

/* ---- origins --------------------------------------------------------------------------------- */

/* The pattern is in lower case; a star stands for the first labels of its host. */
static bool fits(struct slice origin, struct slice pattern)
{
	const char *star = memchr(pattern.at, '*', pattern.len);

	if (!star)
		return slice_equal_nocase(origin, pattern);
	struct slice scheme = {pattern.at, (size_t)(star - pattern.at)};
	struct slice domain = {star + 1, pattern.len - scheme.len - 1};
	return origin.len > scheme.len + domain.len &&
	       slice_equal_nocase((struct slice){origin.at, scheme.len}, scheme) &&
	       slice_equal_nocase(
		       (struct slice){origin.at + origin.len - domain.len, domain.len}, domain);
}

/* One that sends none is no browser, and could send any. */
static bool origin_is_allowed(const struct conf_text_list *origins, const struct http_head *request)
{
	bool ambiguous = false;
	struct slice origin = http_head_find_only(request, SLICE("origin"), &ambiguous);

	if (origins->count == 0 || (!origin.at && !ambiguous))
		return true;
	for (size_t i = 0; i < origins->count && !ambiguous; i++) {
		if (fits(origin, slice_of(origins->items[i])))
			return true;
	}
	return false;
}

/* ---- what the server of a gateway has to check ----------------------------------------------- */

/* Of the 16 bytes of a key in base64, without its padding. The bits behind the last byte may be
 * any: there are clients that draw the digits. */
#define KEY_DIGITS 22

static bool is_key(struct slice text)
{
	if (text.len != KEY_DIGITS + 2 || memcmp(text.at + KEY_DIGITS, "==", 2) != 0)
		return false;
	for (size_t i = 0; i < KEY_DIGITS; i++)
		if (!isalnum((unsigned char)text.at[i]) && text.at[i] != '+' && text.at[i] != '/')
			return false;
	return true;
}

/* A GET with one key (RFC 6455 section 4.2.1, items 1 and 5). */
static bool is_handshake(const struct http_head *request)
{
	bool ambiguous = false;
	struct slice key = http_head_find_only(request, SLICE("sec-websocket-key"), &ambiguous);

	return request->method == HTTP_METHOD_GET && !ambiguous && is_key(key);
}

/* ---- both sides ------------------------------------------------------------------------------ */

unsigned handshake_judge(
	const struct conf_websocket *conf, struct http_head *request, char *bytes, const char **why)
{
	bool ambiguous = false, asked;
	struct slice version =
		http_head_find_only(request, SLICE("sec-websocket-version"), &ambiguous);

	if (conf->mode == CONF_WEBSOCKET_GATEWAY && !is_handshake(request)) {
		*why = "websocket handshake";
		return 400;
	}
	if (ambiguous || !slice_equal(version, SLICE("13"))) {
		*why = "websocket version";
		return 426;
	}
	if (!origin_is_allowed(&conf->origins, request)) {
		*why = "websocket origin";
		return 403;
	}
	if (filter(conf, request, bytes, protocol_name, keeps_protocol, &asked) == 0 && asked) {
		*why = "websocket protocol";
		return 403;
	}
	filter(conf, request, bytes, extensions_name, keeps_deflate, &asked);
	return 0;
}

static bool offers_deflate(const struct http_head *request)
{
	for (unsigned i = 0; i < request->field_count; i++) {
		const struct http_field *field = &request->fields[i];
		if (has_name(request, field, extensions_name) && !field->hop)
			return true; /* nothing else was left in it */
	}
	return false;
}

bool handshake_agreed(
	const struct http_head *response, const struct http_head *request, bool *deflates)
{
	*deflates = false;
	for (unsigned i = 0; i < response->field_count; i++) {
		const struct http_field *field = &response->fields[i];
		struct slice rest, element;
		if (!has_name(response, field, extensions_name))
			continue;
		rest = http_field_value(response, field);
		while (slice_next_element(&rest, &element)) {
			if (*deflates || !is_deflate(element))
				return false;
			*deflates = true;
		}
	}
	return !*deflates || offers_deflate(request);
}

_Static_assert(BASE64_TEXT_ROOM(DIGEST_SHA1_BYTES) == ACCEPT_BYTES + 1, "the text of a digest");

void accept_make(struct slice key, char accept[static ACCEPT_BYTES + 1])
{
	unsigned char digest[DIGEST_SHA1_BYTES];

	digest_sha1(key, SLICE("258EAFA5-E914-47DA-95CA-C5AB0DC85B11"), digest);
	base64_write((struct slice){(const char *)digest, sizeof(digest)}, accept);
}
