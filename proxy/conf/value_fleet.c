/*
 * Where the store is, and how to be let in. See value.h. No message repeats what was written: it
 * may be a password.
 */
#include "conf/same.h"
#include "conf/value.h"

#include <string.h>

enum { PORT_DEFAULT = 6379, DATABASE_MOST = 65535, CREDENTIAL_BYTES = 512 };

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A part of a URL, percent-decoded (RFC 3986 section 2.1); NULL when it is none. */
static const char *decode(struct value *value, struct slice text)
{
	char *out = value_text(value, text);
	size_t len = 0;

	if (text.len > CREDENTIAL_BYTES)
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

/* user:password, or :password */
static bool read_credentials(struct value *value, struct slice text, struct conf_store *store)
{
	const char *colon = memchr(text.at, ':', text.len);
	struct slice user = {text.at, colon ? (size_t)(colon - text.at) : text.len};

	if (!colon)
		return value_fail(value, "there is a user without a password");
	store->user = user.len > 0 ? decode(value, user) : NULL;
	store->password = decode(value, (struct slice){colon + 1, text.len - user.len - 1});
	if (!store->password || (user.len > 0 && !store->user))
		return value_fail(value, "the user or the password is not percent-encoded");
	return true;
}

static bool read_host(struct value *value, struct slice host, struct conf_address *address)
{
	const char *colon = memrchr(host.at, ':', host.len);
	bool has_port = colon && host.at[host.len - 1] != ']';
	struct slice text = host;

	if (!has_port)
		text = slice_of(arena_format(
			value->build->arena, "%.*s:%d", SLICE_ARGS(host), PORT_DEFAULT));
	if (host.len == 0)
		return value_fail(value, "there is no host");
	if (!value_read_address(value, text, false, address))
		return false;
	if (address->kind != CONF_ADDRESS_INET && address->kind != CONF_ADDRESS_NAME)
		return value_fail(value, "the host is neither a name nor an address");
	return true;
}

/* redis://[user:password@]host[:port][/database]: its host into `address`, the rest into `store` */
static bool read_url(struct value *value, struct slice rest, struct conf_store *store,
	struct conf_address *address)
{
	static const struct slice scheme = SLICE("redis://");
	uint64_t database = 0;

	if (rest.len < scheme.len || memcmp(rest.at, scheme.at, scheme.len) != 0)
		return value_fail(value, "it does not begin with redis://");
	rest = (struct slice){rest.at + scheme.len, rest.len - scheme.len};
	const char *at = memrchr(rest.at, '@', rest.len);
	if (at && !read_credentials(value, (struct slice){rest.at, (size_t)(at - rest.at)}, store))
		return false;
	if (at)
		rest = (struct slice){at + 1, rest.len - (size_t)(at + 1 - rest.at)};
	const char *slash = memchr(rest.at, '/', rest.len);
	struct slice host = {rest.at, slash ? (size_t)(slash - rest.at) : rest.len};
	struct slice number = {rest.at + host.len + 1, slash ? rest.len - host.len - 1 : 0};
	if (number.len > 0 && (!scan_digits(number, &database) || database > DATABASE_MOST))
		return value_fail(value, "the database is no number up to %d", DATABASE_MOST);
	store->database = (uint32_t)database;
	return read_host(value, host, address);
}

/* The first of several says how to be let in; the others have their hosts only. */
static bool add_url(struct value *value, struct slice text, struct conf_store *store)
{
	struct conf_store more = {0};
	struct conf_address *address;

	store->addresses =
		arena_grow(value->build->arena, store->addresses, store->count, sizeof(*address));
	address = &store->addresses[store->count++];
	if (store->count == 1)
		return read_url(value, text, store, address);
	if (!read_url(value, text, &more, address))
		return false;
	if (more.password || more.database != 0)
		return value_fail(value,
			"a user, password or database stands behind the first of several; only the "
			"first has them");
	return true;
}

/* One, or several with commas between them. A comma in a password is percent-encoded. */
static bool parse_store(struct value *value)
{
	struct conf_store *store = value->at;
	struct slice rest = value->text;
	const char *written = "";

	*store = (struct conf_store){0};
	for (bool is_last = false; !is_last;) {
		const char *comma = memchr(rest.at, ',', rest.len);
		struct slice url = {rest.at, comma ? (size_t)(comma - rest.at) : rest.len};
		is_last = !comma;
		if (comma)
			rest = (struct slice){comma + 1, rest.len - url.len - 1};
		if (!add_url(value, slice_trim(url), store))
			return false;
		written = arena_format(value->build->arena, "%s%s%s", written, *written ? ", " : "",
			store->addresses[store->count - 1].text);
	}
	store->text = written;
	return true;
}

static bool take_line(
	struct value *value, const char *path, unsigned number, struct slice line, void *first)
{
	(void)path;
	(void)number;
	if (!*(const char **)first)
		*(const char **)first = value_text(value, line);
	return true;
}

/* password = file:PATH */
static bool parse_secret_line(struct value *value)
{
	struct slice path = value->text;
	const char **at = value->at;

	if (path.len <= 5 || memcmp(path.at, "file:", 5) != 0)
		return value_fail(value, "a secret belongs in a file of its own");
	*at = NULL;
	if (!value_read_lines(value, (struct slice){path.at + 5, path.len - 5}, take_line, at))
		return false;
	if (!*at && value->build->names_files)
		return value_fail(value, "the file has no line");
	if (!*at)
		*at = value_text(value, path); /* no file is looked at */
	return true;
}

const struct option_type type_store = {"URL",
	"redis://HOST:PORT, with USER:PASSWORD@ before the host and /DATABASE behind it as needed; "
	"several with commas between them",
	parse_store, same_store, 0};
const struct option_type type_secret_line = {"file", "file:PATH", parse_secret_line, same_text, 0};
