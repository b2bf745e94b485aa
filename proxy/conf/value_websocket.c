/* Values of WebSockets: the mode, what becomes of a message over its limit, origins, subprotocols.
 */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "conf/options.h"
#include "conf/same.h"
#include "conf/value.h"

static bool parse_websocket(struct value *value)
{
	unsigned mode = CONF_WEBSOCKET_TUNNEL;

	if (!scan_word(value->option->words, value->text, &mode))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
#ifndef HAVE_WEBSOCKET
	if (mode != CONF_WEBSOCKET_TUNNEL)
		return value_fail_plainly(value,
			"this sluice was built without it; expected tunnel, or a build with "
			"libwslay");
#endif
	*(enum conf_websocket_mode *)value->at = (enum conf_websocket_mode)mode;
	return true;
}

/* delay, delay 5s, drop, close */
static bool parse_message_exceed(struct value *value)
{
	static const struct option_word words[] = {{"delay", CONF_MESSAGE_DELAY},
		{"drop", CONF_MESSAGE_DROP}, {"close", CONF_MESSAGE_CLOSE}, {NULL, 0}};
	struct conf_websocket *websocket =
		&((struct conf_route *)value->instance->object)->websocket;
	struct slice rest = value->text, word;
	unsigned action = CONF_MESSAGE_DELAY;

	websocket->delay_max_ms = UINT64_MAX;
	if (!scan_next_token(&rest, &word) || !scan_word(words, word, &action))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	websocket->on_exceed = (enum conf_message_exceed)action;
	rest = slice_trim(rest);
	if (rest.len == 0)
		return true;
	if (action != CONF_MESSAGE_DELAY || !scan_duration_ms(rest, &websocket->delay_max_ms) ||
		websocket->delay_max_ms == 0)
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	return true;
}

/* SCHEME://HOST or SCHEME://HOST:PORT, as a browser's Origin has it (RFC 6454 section 6.2); the
 * host may begin with `*.`. */
static bool is_origin(struct slice text)
{
	const char *at = memmem(text.at, text.len, "://", 3);

	if (!at || at == text.at)
		return false;
	struct slice scheme = {text.at, (size_t)(at - text.at)};
	struct slice host = {at + 3, text.len - scheme.len - 3};
	if (!scan_is_token(scheme) || host.len == 0)
		return false;
	for (size_t i = 0; i < host.len; i++) {
		unsigned char c = (unsigned char)host.at[i];
		bool wild = c == '*' && i == 0 && host.len > 2 && host.at[1] == '.';
		if (!wild && !isalnum(c) && !memchr("-._:[]", c, 6))
			return false;
	}
	return true;
}

static bool parse_origins(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		if (!is_origin(item)) {
			good = value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(item));
			continue;
		}
		char *copy = value_text(value, item);
		for (char *c = copy; *c; c++)
			*c = (char)tolower((unsigned char)*c);
		value_list_add(value, value->at, copy);
	}
	return good;
}

static bool parse_tokens(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		if (scan_is_token(item))
			value_list_add(value, value->at, value_text(value, item));
		else
			good = value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(item));
	}
	return good;
}

const struct option_type type_websocket = {
	"word", "tunnel, messages or gateway", parse_websocket, NULL, false};
const struct option_type type_message_exceed = {"action",
	"delay, delay DURATION such as delay 5s, drop or close", parse_message_exceed,
	same_message_exceed, false};
const struct option_type type_origins = {"list of origins",
	"origins such as https://app.example.com or https://*.example.com", parse_origins,
	same_texts, true};
const struct option_type type_tokens = {
	"list of tokens", "tokens such as chat or v1.example", parse_tokens, same_texts, true};
