/* Addresses, networks and servers. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static bool take_prefix(struct slice *text, struct slice prefix)
{
	if (text->len < prefix.len || memcmp(text->at, prefix.at, prefix.len) != 0)
		return false;
	text->at += prefix.len;
	text->len -= prefix.len;
	return true;
}

/* ---- networks ---- */

bool scan_cidr(struct slice text, struct conf_cidr *cidr)
{
	const char *slash = memchr(text.at, '/', text.len);
	struct slice host = {text.at, slash ? (size_t)(slash - text.at) : text.len};
	char copy[INET6_ADDRSTRLEN];
	unsigned char *address = cidr->address;
	uint64_t bits = 128, offset = 0;

	if (host.len == 0 || host.len >= sizeof(copy) || memchr(host.at, '\0', host.len))
		return false;
	memcpy(copy, host.at, host.len);
	copy[host.len] = '\0';
	memset(address, 0, 16);
	if (inet_pton(AF_INET, copy, address + 12) == 1) {
		address[10] = address[11] = 0xff;
		offset = 96;
	} else if (inet_pton(AF_INET6, copy, address) != 1) {
		return false;
	}
	if (slash) {
		struct slice digits = {slash + 1, text.len - host.len - 1};

		if (!scan_digits(digits, &bits) || bits > 128 - offset)
			return false;
		bits += offset;
	}
	cidr->prefix = (uint8_t)bits;
	return true;
}

bool cidr_is_clear(const struct conf_cidr *cidr)
{
	for (unsigned bit = cidr->prefix; bit < 128; bit++)
		if (cidr->address[bit / 8] & (0x80 >> (bit % 8)))
			return false;
	return true;
}

void value_cidrs_add(struct value *value, struct conf_cidrs *list, struct conf_cidr cidr)
{
	list->items =
		arena_grow(value->build->arena, list->items, list->count, sizeof(*list->items));
	list->items[list->count++] = cidr;
}

static bool parse_networks(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		struct conf_cidr cidr;

		if (!scan_cidr(item, &cidr))
			good = value_fail(
				value, "invalid address or network \"%.*s\"", SLICE_ARGS(item));
		else if (!cidr_is_clear(&cidr))
			good = value_fail(
				value, "\"%.*s\" has bits set after its prefix", SLICE_ARGS(item));
		else
			value_cidrs_add(value, value->at, cidr);
	}
	return good;
}

/* ---- addresses ---- */

static bool read_unix(struct value *value, struct slice path, struct conf_address *address)
{
	struct sockaddr_un *socket = (struct sockaddr_un *)&address->socket;

	if (path.len == 0 || path.at[0] != '/')
		return value_fail_plainly(
			value, "invalid path \"%.*s\"; expected unix:/PATH", SLICE_ARGS(path));
	if (!value_check_path(value, path))
		return false;
	if (path.len >= sizeof(socket->sun_path))
		return value_fail_plainly(value,
			"the socket's path has %zu bytes; expected at most %zu", path.len,
			sizeof(socket->sun_path) - 1);
	address->kind = CONF_ADDRESS_UNIX;
	address->host = value_text(value, path);
	socket->sun_family = AF_UNIX;
	memcpy(socket->sun_path, path.at, path.len);
	address->socket_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1);
	return true;
}

static bool is_host_name(struct slice name)
{
	bool all_digits = true;

	if (name.len == 0 || name.len > 253 || name.at[0] == '-' || name.at[0] == '.')
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';

		if (!letter && !digit && c != '-' && c != '.' && c != '_')
			return false;
		if (c == '.' && i + 1 < name.len && name.at[i + 1] == '.')
			return false;
		if (!digit && c != '.')
			all_digits = false;
	}
	return !all_digits; /* 10.0.0.300 is meant as an address */
}

/* A literal address into `address->socket`; false when it is none. */
static bool read_literal(struct slice host, bool v6, struct conf_address *address)
{
	char copy[INET6_ADDRSTRLEN + 32];
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address->socket;
	const struct addrinfo hints = {
		.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *found;

	if (host.len == 0 || host.len >= sizeof(copy))
		return false;
	memcpy(copy, host.at, host.len);
	copy[host.len] = '\0';
	if (!v6) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(address->port);
		address->socket_len = sizeof(*v4);
		return inet_pton(AF_INET, copy, &v4->sin_addr) == 1;
	}
	/* inet_pton knows no zones: [fe80::1%eth0] */
	if (getaddrinfo(copy, NULL, &hints, &found) != 0)
		return false;
	memcpy(&address->socket, found->ai_addr, sizeof(struct sockaddr_in6));
	((struct sockaddr_in6 *)&address->socket)->sin6_port = htons(address->port);
	address->socket_len = sizeof(struct sockaddr_in6);
	freeaddrinfo(found);
	return true;
}

/* `0.0.0.0:443 ssl`, as nginx has it */
static bool fail_word_behind(struct value *value, struct slice text)
{
	struct slice address, word;
	bool is_tls;

	scan_next_token(&text, &address);
	scan_next_token(&text, &word);
	is_tls = slice_equal(word, SLICE("ssl")) || slice_equal(word, SLICE("quic")) ||
		 slice_equal(word, SLICE("http2"));
	return value_fail_plainly(value, "unexpected \"%.*s\" behind \"%.*s\"; expected only %s%s",
		SLICE_ARGS(word), SLICE_ARGS(address), value->option->type->expected,
		is_tls ? "; this version speaks HTTP/1.1 without TLS" : "");
}

static bool read_inet(
	struct value *value, struct slice text, bool bind, struct conf_address *address)
{
	const char *colon = memrchr(text.at, ':', text.len);
	struct slice host = {text.at, colon ? (size_t)(colon - text.at) : text.len}, port;
	bool v6 = host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
	static const char all[] = " (0.0.0.0 is all of IPv4, [::] all of IPv6)";
	uint64_t number;

	if (scan_is_url(text))
		return value_fail_url(value, text, true);
	if (memchr(text.at, ' ', text.len) || memchr(text.at, '\t', text.len))
		return fail_word_behind(value, text);
	if (host.len == 0 || scan_digits(text, &number))
		return value_fail(
			value, "\"%.*s\" has no address%s", SLICE_ARGS(text), bind ? all : "");
	if (!colon || (text.at[0] == '[' && !v6))
		return value_fail(value, "\"%.*s\" has no port", SLICE_ARGS(text));
	port = (struct slice){colon + 1, text.len - host.len - 1};
	if (!scan_digits(port, &number) || number < 1 || number > 65535)
		return value_fail(value, "invalid port \"%.*s\" (1 to 65535)", SLICE_ARGS(port));
	address->port = (uint16_t)number;
	if (v6)
		host = (struct slice){host.at + 1, host.len - 2};
	else if (memchr(host.at, ':', host.len))
		return value_fail(
			value, "the IPv6 address \"%.*s\" is not in brackets", SLICE_ARGS(host));
	address->host = value_text(value, host);
	if (read_literal(host, v6, address)) {
		address->kind = CONF_ADDRESS_INET;
		return true;
	}
	memset(&address->socket, 0, sizeof(address->socket));
	address->socket_len = 0;
	address->kind = CONF_ADDRESS_NAME;
	if (v6 || !is_host_name(host))
		return value_fail(value, "invalid address \"%.*s\"%s", SLICE_ARGS(host),
			bind && slice_equal(host, SLICE("*")) ? all : "");
	if (bind)
		return value_fail(
			value, "\"%.*s\" is a host name, not an address", SLICE_ARGS(host));
	return true;
}

bool value_read_address(
	struct value *value, struct slice text, bool bind, struct conf_address *address)
{
	struct slice rest = text;

	memset(address, 0, sizeof(*address));
	address->text = value_text(value, text);
	address->line = value->line;
	if (take_prefix(&rest, SLICE("unix:")))
		return read_unix(value, rest, address);
	if (bind && take_prefix(&rest, SLICE("systemd:"))) {
		if (!scan_is_token(rest))
			return value_fail(value, "\"%.*s\" names no socket", SLICE_ARGS(text));
		address->kind = CONF_ADDRESS_SYSTEMD;
		address->host = value_text(value, rest);
		return true;
	}
	return read_inet(value, text, bind, address);
}

/* Addresses to listen at, several by commas, added to a list. */
static bool read_binds(struct value *value, struct conf_address **items, size_t *count)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		struct conf_address address;

		if (!value_read_address(value, item, true, &address)) {
			good = false;
			continue;
		}
		*items = arena_grow(value->build->arena, *items, *count, sizeof(**items));
		(*items)[(*count)++] = address;
	}
	return good;
}

static bool parse_binds(struct value *value)
{
	struct conf_listener *listener = value->instance->object;

	return read_binds(value, &listener->binds, &listener->bind_count);
}

static bool parse_admin_binds(struct value *value)
{
	struct conf_admin *admin = value->at;

	return read_binds(value, &admin->binds, &admin->bind_count);
}

/* A host name or an address, without a port. */
static bool parse_tls_name(struct value *value)
{
	struct conf_address unused = {0};
	struct slice text = value->text;

	if (!is_host_name(text) && !read_literal(text, false, &unused) &&
		!read_literal(text, true, &unused))
		return value_fail(value, "invalid name \"%.*s\"", SLICE_ARGS(text));
	*(const char **)value->at = value_text(value, text);
	return true;
}

/* https://HOST or https://HOST:PORT, to be HOST:PORT; port 443 is that of https. False: the error
 * was added. */
static bool read_https(struct value *value, struct slice *text, enum conf_server_tls *tls)
{
	static const struct slice scheme = SLICE("https://");

	if (text->len < scheme.len || strncasecmp(text->at, scheme.at, scheme.len) != 0)
		return true;
	struct slice host = {text->at + scheme.len, text->len - scheme.len};
	const char *slash = memchr(host.at, '/', host.len);
	if (slash && slash + 1 != host.at + host.len)
		return value_fail_plainly(value,
			"\"%.*s\" has a path; expected https://HOST or https://HOST:PORT, and the "
			"path as add_prefix of the routes",
			SLICE_ARGS(*text));
	host.len -= slash != NULL;
	const char *colon = memrchr(host.at, ':', host.len);
	bool has_port = colon && host.at[host.len - 1] != ']';
	*text = has_port
			? host
			: slice_of(arena_format(value->build->arena, "%.*s:443", SLICE_ARGS(host)));
	*tls = CONF_SERVER_TLS_ON;
	return true;
}

/* ADDRESS [key=value ...] */
static bool parse_server(struct value *value)
{
	struct conf_upstream *upstream = value->instance->object;
	const struct option_section *section = &option_sections[SECTION_SERVER];
	struct conf_server server = {.line = value->line};
	struct slice rest = value->text, token;

	if (!scan_next_token(&rest, &token))
		return false;
	if (memchr(token.at, ',', token.len))
		return value_fail_plainly(value,
			"\"%.*s\" has a comma in it; expected one server, and a line server = "
			"HOST:PORT for "
			"each",
			SLICE_ARGS(value->text));
	enum conf_server_tls tls = CONF_SERVER_TLS_AS_UPSTREAM;
	if (!read_https(value, &token, &tls) ||
		!value_read_address(value, token, false, &server.address))
		return false;
	value_set_defaults(value, section, &server);
	server.tls = tls;
	while (scan_next_token(&rest, &token)) {
		const char *sign = memchr(token.at, '=', token.len);
		struct slice name = {token.at, sign ? (size_t)(sign - token.at) : token.len};

		if (!sign && memchr(token.at, ':', token.len))
			return value_fail_plainly(value,
				"\"%.*s\" is a second server; expected a line for each, here "
				"server = %.*s",
				SLICE_ARGS(token), SLICE_ARGS(token));
		if (!sign)
			return value_fail(value, "\"%.*s\" is not key=value", SLICE_ARGS(token));
		if (!value_set_option(value, section, &server, name,
			    (struct slice){sign + 1, token.len - name.len - 1}))
			return false;
	}
	if (upstream->server_count == CONF_SERVERS_MAX)
		return value_fail_plainly(value,
			"the upstream has %u servers already; expected no more", CONF_SERVERS_MAX);
	upstream->servers = arena_grow(value->build->arena, upstream->servers,
		upstream->server_count, sizeof(*upstream->servers));
	upstream->servers[upstream->server_count++] = server;
	return true;
}

const struct option_type type_admin_binds = {"addresses",
	"ADDRESS:PORT, [IPV6]:PORT or unix:/PATH, several by commas", parse_admin_binds,
	same_admin_binds, false};
const struct option_type type_binds = {"list of addresses",
	"ADDRESS:PORT, [IPV6]:PORT, unix:/PATH or systemd:NAME", parse_binds, same_binds, false};
const struct option_type type_networks = {"list of networks",
	"addresses and networks such as 10.0.0.0/8 or 2001:db8::/32", parse_networks, same_networks,
	true};
const struct option_type type_server = {"server",
	"HOST:PORT, [IPV6]:PORT, https://HOST or unix:/PATH, then weight=, max_in_flight=, "
	"max_connections=, tls= and tls_name=",
	parse_server, same_servers, false};
const struct option_type type_tls_name = {
	"name", "a host name or an address, without a port", parse_tls_name, same_text, false};
