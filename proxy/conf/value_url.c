/* See value_url.h. */
#include "conf/value_url.h"

#include <string.h>

enum { PART_BYTES = 512 };

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *value_decode_url(struct value *value, struct slice text)
{
	char *out = value_text(value, text);
	size_t len = 0;

	if (text.len > PART_BYTES)
		return NULL;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		if (c == '%') {
			int high = i + 2 < text.len ? hex_of(text.at[i + 1]) : -1;
			int low = i + 2 < text.len ? hex_of(text.at[i + 2]) : -1;
			if (high < 0 || low < 0 || high + low == 0)
				return NULL;
			c = (char)(high * 16 + low);
			i += 2;
		}
		out[len++] = c;
	}
	out[len] = '\0';
	return out;
}

/* The user or the password, which `what` names. False when it is none; the error was added. */
static bool read_part(
	struct value *value, const char *what, struct slice text, const char **decoded)
{
	if (text.len > PART_BYTES)
		return value_fail_plainly(value, "the %s has %zu bytes; expected at most %d", what,
			text.len, PART_BYTES);
	*decoded = value_decode_url(value, text);
	if (!*decoded)
		return value_fail(value,
			"the %s is not percent-encoded: two hexadecimal digits other than 00 "
			"follow each '%%'",
			what);
	return true;
}

/* user, user:password, or :password */
static bool read_credentials(struct value *value, struct slice text, struct value_url *url)
{
	const char *colon = memchr(text.at, ':', text.len);
	struct slice user = {text.at, colon ? (size_t)(colon - text.at) : text.len};

	if (user.len > 0 && !read_part(value, "user", user, &url->user))
		return false;
	return !colon ||
	       read_part(value, "password", (struct slice){colon + 1, text.len - user.len - 1},
		       &url->password);
}

static bool read_host(
	struct value *value, struct slice host, unsigned port, struct conf_address *address)
{
	const char *colon = memrchr(host.at, ':', host.len);
	bool has_port = colon && host.at[host.len - 1] != ']';
	struct slice text = host;

	if (!has_port)
		text = slice_of(
			arena_format(value->build->arena, "%.*s:%u", SLICE_ARGS(host), port));
	if (host.len == 0)
		return value_fail(value, "there is no host");
	if (host.len == 5 && memcmp(host.at, "unix:", 5) == 0)
		return value_fail(value, "it cannot be reached by a unix socket");
	if (host.at[0] == '[' && !memchr(host.at, ']', host.len))
		return value_fail(value, "the host begins with '[' and has no ']'");
	if (memchr(host.at, ' ', host.len) || memchr(host.at, '\t', host.len))
		return value_fail(value, "there is a blank in the host");
	if (!value_read_address(value, text, false, address))
		return false;
	if (address->kind != CONF_ADDRESS_INET && address->kind != CONF_ADDRESS_NAME)
		return value_fail(value, "the host is neither a name nor an address");
	return true;
}

bool value_read_url(struct value *value, struct slice text, struct slice scheme, unsigned port,
	struct value_url *url)
{
	*url = (struct value_url){0};
	if (text.len < scheme.len || memcmp(text.at, scheme.at, scheme.len) != 0)
		return value_fail(value, "it does not begin with %.*s", SLICE_ARGS(scheme));
	text = (struct slice){text.at + scheme.len, text.len - scheme.len};
	const char *at = memrchr(text.at, '@', text.len);
	if (at && !read_credentials(value, (struct slice){text.at, (size_t)(at - text.at)}, url))
		return false;
	if (at)
		text = (struct slice){at + 1, text.len - (size_t)(at + 1 - text.at)};
	const char *slash = memchr(text.at, '/', text.len);
	struct slice host = {text.at, slash ? (size_t)(slash - text.at) : text.len};
	url->has_path = slash != NULL;
	url->path = (struct slice){
		text.at + host.len + url->has_path, text.len - host.len - url->has_path};
	return read_host(value, host, port, &url->address);
}
