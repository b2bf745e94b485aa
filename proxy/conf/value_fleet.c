/*
 * Where the store is, and how to be let in. See value.h. No message repeats what was written: it
 * may be a password.
 */
#include "conf/same.h"
#include "conf/value_url.h"

#include <netinet/in.h>
#include <string.h>

enum { PORT_DEFAULT = 6379, DATABASE_MOST = 65535 };

static bool begins(struct slice text, const char *word)
{
	return text.len >= strlen(word) && memcmp(text.at, word, strlen(word)) == 0;
}

/* redis://[user[:password]@]host[:port][/database]: its host into `address`, the rest into `store`
 */
static bool read_url(struct value *value, struct slice text, struct conf_store *store,
	struct conf_address *address)
{
	struct value_url url;
	uint64_t database = 0;

	if (text.len == 0)
		return value_fail(value, "a URL is missing before or after a comma");
	if (begins(text, "unix:") || begins(text, "redis+unix:") || text.at[0] == '/')
		return value_fail(value, "it cannot be reached by a unix socket");
	store->has_tls = begins(text, "rediss://");
	if (!value_read_url(value, text, store->has_tls ? SLICE("rediss://") : SLICE("redis://"),
		    PORT_DEFAULT, &url))
		return false;
	if (url.path.len > 0 && (!scan_digits(url.path, &database) || database > DATABASE_MOST))
		return value_fail(value,
			"invalid database behind the '/': it is a number from 0 to %d",
			DATABASE_MOST);
	store->user = url.user;
	store->password = url.password;
	store->database = (uint32_t)database;
	*address = url.address;
	return true;
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
	if (more.has_tls != store->has_tls)
		return value_fail(value, "some URLs begin with redis:// and others with rediss://");
	if (more.user || more.password || more.database != 0)
		return value_fail(value,
			"a user, password or database in a later URL belongs in the first one");
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

	if (!begins(path, "file:"))
		return value_fail(value, "a secret belongs in a file of its own");
	if (path.len == 5)
		return value_fail(value, "there is no path");
	*at = NULL;
	if (!value_read_lines(value, (struct slice){path.at + 5, path.len - 5}, take_line, at))
		return false;
	if (!*at && value->build->names_files)
		return value_fail(value, "the file has only empty lines and comments (#)");
	if (!*at)
		*at = value_text(value, path); /* no file is looked at */
	return true;
}

/* Is it an address of any interface, which others can't connect to? */
static bool is_any(const struct conf_address *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket;

	return address->socket.ss_family == AF_INET ? v4->sin_addr.s_addr == INADDR_ANY
						    : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

/* bind = 10.0.0.1:7946 */
static bool parse_node_bind(struct value *value)
{
	struct conf_address *address = arena_alloc(value->build->arena, sizeof(*address));

	if (!value_read_address(value, value->text, false, address))
		return false;
	if (address->kind != CONF_ADDRESS_INET || is_any(address) || address->port == 0)
		return value_fail(
			value, "other nodes cannot connect to \"%.*s\"", SLICE_ARGS(value->text));
	*(struct conf_address **)value->at = address;
	return true;
}

static SAME(same_node_bind)
{
	const struct conf_address *const *one = (const void *)((const char *)a + option->offset);
	const struct conf_address *const *other = (const void *)((const char *)b + option->offset);

	return *one == *other || (*one && *other && strcmp((*one)->text, (*other)->text) == 0);
}

const struct option_type type_node_bind = {"address",
	"ADDRESS:PORT or [IPV6]:PORT of one interface, which other nodes can connect to",
	parse_node_bind, same_node_bind, false};
const struct option_type type_store = {"URL",
	"redis://HOST:PORT, or rediss://HOST:PORT for TLS, with USER:PASSWORD@ before the host and "
	"/DATABASE behind it as needed; "
	"several with commas between them",
	parse_store, same_store, false};
const struct option_type type_secret_line = {
	"file", "file:PATH", parse_secret_line, same_text, false};

/* ---- a semaphore's broker ---- */

enum {
	BROKER_PORT = 5672,
	BROKER_TLS_PORT = 5671,
	VHOST_MAX = 255, /* a short string of AMQP 0-9-1, section 4.2.5.3 */
};

/* amqp://[user:password@]host[:port][/vhost], or amqps:// for TLS, as RabbitMQ's URI specification
 * has it, but that a path without a name is the virtual host "/", too. */
static bool parse_broker(struct value *value)
{
	struct conf_broker *broker = value->at;
	struct value_url url;

	*broker = (struct conf_broker){0};
	broker->has_tls = begins(value->text, "amqps://");
	if (!value_read_url(value, value->text,
		    broker->has_tls ? SLICE("amqps://") : SLICE("amqp://"),
		    broker->has_tls ? BROKER_TLS_PORT : BROKER_PORT, &url))
		return false;
	if (url.user && !url.password)
		return value_fail(value, "there is a user without a password");
	if (memchr(url.path.at, '/', url.path.len))
		return value_fail(value, "the virtual host has a '/', which is written %%2F");
	if (memchr(url.path.at, '?', url.path.len) || memchr(url.path.at, '#', url.path.len))
		return value_fail(value, "unexpected text after the virtual host");
	broker->vhost = url.path.len > 0 ? value_decode_url(value, url.path) : "/";
	if (!broker->vhost)
		return value_fail(value, "the virtual host is not percent-encoded");
	if (strlen(broker->vhost) > VHOST_MAX)
		return value_fail(
			value, "the virtual host is longer than %d bytes", (int)VHOST_MAX);
	broker->address = url.address;
	broker->user = url.user;
	broker->password = url.password;
	return true;
}

const struct option_type type_broker = {"URL",
	"amqp://HOST:PORT, or amqps://HOST:PORT for TLS, with USER:PASSWORD@ before the host and "
	"/VHOST behind it as needed",
	parse_broker, same_broker, false};
