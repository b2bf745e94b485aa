/* A route's conditions except its path, and its exempted callers. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "http/method.h"

/* ---- hosts ---- */

/* [2001:DB8::1] in the form a request's host is compared in (RFC 5952). */
static const char *read_host_v6(struct value *value, struct slice host)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (host.len < 4 || host.len > sizeof(text) + 1 || host.at[host.len - 1] != ']')
		return NULL;
	memcpy(text, host.at + 1, host.len - 2);
	text[host.len - 2] = '\0';
	if (inet_pton(AF_INET6, text, &address) != 1)
		return NULL;
	inet_ntop(AF_INET6, &address, text, sizeof(text));
	return arena_format(value->build->arena, "[%s]", text);
}

static const char *read_host(struct value *value, struct slice host)
{
	struct slice name = host;
	char *copy;

	if (host.len > 0 && host.at[0] == '[')
		return read_host_v6(value, host);
	if (name.len > 2 && memcmp(name.at, "*.", 2) == 0) {
		name.at += 2;
		name.len -= 2;
	}
	if (name.len > 1 && name.at[name.len - 1] == '.') {
		name.len--;
		host.len--;
	}
	if (name.len == 0 || name.len > 253)
		return NULL;
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.at[i];
		bool dot_after_dot = c == '.' && (i == 0 || name.at[i - 1] == '.');

		if ((!isalnum(c) && c != '-' && c != '.' && c != '_') || c > 0x7e || dot_after_dot)
			return NULL;
	}
	copy = value_text(value, host);
	for (char *c = copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

static bool fail_host(struct value *value, struct slice host)
{
	if (slice_equal(host, SLICE("*")))
		return value_fail_plainly(value,
			"invalid host \"*\"; expected no host, for any, or %s",
			value->option->type->expected);
	if (scan_is_url(host))
		return value_fail_url(value, host, false);
	if (host.len > 0 && host.at[0] != '[' && memchr(host.at, ':', host.len))
		return value_fail(value, "\"%.*s\" has a port", SLICE_ARGS(host));
	return value_fail(value, "invalid host \"%.*s\"", SLICE_ARGS(host));
}

static bool parse_hosts(struct value *value)
{
	struct conf_text_list *hosts = value->at;
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		const char *host = read_host(value, item);

		if (!host)
			good = fail_host(value, item);
		else if (!text_index_add(&value->build->texts, value->build->arena, hosts, host))
			good = value_fail_plainly(value, "\"%s\" is given twice", host);
		else
			value_list_add(value, hosts, host);
	}
	return good;
}

/* ---- methods, statuses, cost, exemptions ---- */

static bool parse_methods(struct value *value)
{
	struct slice rest = value->text, item;
	uint64_t *bits = value->at;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		struct near_miss near = {.word = item};

		enum http_method method = http_method_of(item);
		/* CONNECT is not forwarded. */
		if (method == HTTP_METHOD_OTHER || method == HTTP_METHOD_CONNECT) {
			for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++)
				near_miss_offer(&near, http_method_name((enum http_method)i));
			good = value_fail(value, "unknown method \"%.*s\"%s%s%s", SLICE_ARGS(item),
				near.best ? " (did you mean \"" : "", near.best ? near.best : "",
				near.best ? "\"?)" : "");
			continue;
		}
		*bits |= UINT64_C(1) << method;
		/* A resource that serves GET serves HEAD (RFC 9110 section 9.3.2). */
		if (method == HTTP_METHOD_GET)
			*bits |= UINT64_C(1) << HTTP_METHOD_HEAD;
	}
	return good;
}

static void statuses_add(struct conf_statuses *statuses, unsigned first, unsigned last)
{
	for (unsigned status = first; status <= last; status++)
		statuses->bits[(status - 100) / 8] |= (uint8_t)(1u << ((status - 100) % 8));
	statuses->any = true;
}

/* 5xx, 429 */
static bool parse_statuses(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	while (slice_next_element(&rest, &item)) {
		uint64_t status;

		if (item.len == 3 && memcmp(item.at + 1, "xx", 2) == 0 && item.at[0] >= '2' &&
			item.at[0] <= '5')
			statuses_add(value->at, (unsigned)(item.at[0] - '0') * 100,
				(unsigned)(item.at[0] - '0') * 100 + 99);
		else if (item.len == 3 && scan_digits(item, &status) && status >= 200)
			statuses_add(value->at, (unsigned)status, (unsigned)status);
		else
			good = value_fail(value, "invalid final status \"%.*s\"", SLICE_ARGS(item));
	}
	return good;
}

/* 1, or response:X-Cost */
static bool parse_cost(struct value *value)
{
	struct conf_route *route = value->instance->object;
	struct slice text = value->text;
	char *field;

	if (text.len > 9 && memcmp(text.at, "response:", 9) == 0) {
		text = (struct slice){text.at + 9, text.len - 9};
		if (!scan_is_token(text))
			return value_fail(value, "invalid field name \"%.*s\"", SLICE_ARGS(text));
		field = value_text(value, text);
		for (char *c = field; *c; c++)
			*c = (char)tolower((unsigned char)*c);
		route->cost_field = field;
		route->cost = 1;
		return true;
	}
	if (!scan_count(text, &route->cost))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(text));
	return value_in_bounds(value, route->cost);
}

/* off, or protocols as Upgrade names them: websocket, custom/1 */
static bool parse_upgrades(struct value *value)
{
	struct slice rest = value->text, item;
	bool good = true;

	if (slice_equal(value->text, SLICE("off")))
		return true;
	if (slice_equal(value->text, SLICE("on")))
		rest = SLICE("websocket");
	/* With others in the list, neither of the two has a meaning. */
	while (slice_next_element(&rest, &item)) {
		const char *slash = memchr(item.at, '/', item.len);
		struct slice name = {item.at, slash ? (size_t)(slash - item.at) : item.len};
		struct slice version = {item.at + name.len + 1, item.len - name.len - 1};

		if (scan_is_switch(name) || !scan_is_token(name) ||
			(slash && !scan_is_token(version))) {
			good = value_fail(value, "invalid protocol \"%.*s\"", SLICE_ARGS(item));
			continue;
		}
		if (slice_equal_nocase(name, SLICE("h2c")))
			value_warn(value, "requests inside an h2c tunnel pass no limit and no "
					  "deny list");
		char *copy = value_text(value, item);
		for (char *c = copy; *c; c++)
			*c = (char)tolower((unsigned char)*c);
		value_list_add(value, value->at, copy);
	}
	return good;
}

/* Where a list's items go. */
struct access_lists {
	struct conf_cidrs *addresses;
	struct conf_text_list *keys;
};

/* Was it meant to be an address or network, whatever its numbers are? */
static bool looks_like_network(struct slice text)
{
	const char *slash = memchr(text.at, '/', text.len);
	struct slice host = {text.at, slash ? (size_t)(slash - text.at) : text.len};
	unsigned dots = 0, colons = 0, digits = 0, letters = 0;
	uint64_t bits;

	if (slash && !scan_digits((struct slice){slash + 1, text.len - host.len - 1}, &bits))
		return false;
	for (size_t i = 0; i < host.len; i++) {
		char c = host.at[i];

		if (!isxdigit((unsigned char)c) && c != '.' && c != ':')
			return false;
		dots += c == '.';
		colons += c == ':';
		digits += isdigit((unsigned char)c) != 0;
		letters += isalpha((unsigned char)c) != 0;
	}
	return (dots == 3 && digits > 3 && letters + colons == 0) || (colons > 1 && dots == 0);
}

/* A line of a file of networks and keys. */
static bool take_access_line(
	struct value *value, const char *path, unsigned number, struct slice line, void *user)
{
	struct access_lists *lists = user;
	struct conf_cidr cidr;

	if (!scan_cidr(line, &cidr)) {
		if (looks_like_network(line))
			value_warn(value,
				"%s:%u: \"%.*s\" is not a network and is taken for a caller's key",
				path, number, SLICE_ARGS(line));
		value_list_add(value, lists->keys, value_text(value, line));
		return true;
	}
	if (!cidr_is_clear(&cidr))
		return value_fail_plainly(value,
			"%s:%u: \"%.*s\" has bits set after its prefix; expected a network such as "
			"10.0.0.0/8",
			path, number, SLICE_ARGS(line));
	value_cidrs_add(value, lists->addresses, cidr);
	return true;
}

/* Networks, and files of networks and keys: allow = 10.0.0.0/8, file:vip.keys */
static bool parse_access(struct value *value)
{
	struct conf_route *route = value->instance->object;
	bool allow = value->at == &route->access.allow_addresses, good = true;
	struct access_lists lists = {
		value->at, allow ? &route->access.allow_keys : &route->access.deny_keys};
	struct slice rest = value->text, item;
	struct conf_cidr cidr;

	while (slice_next_element(&rest, &item)) {
		if (item.len > 6 && memcmp(item.at, "match:", 6) == 0)
			value_add_reference(value, (struct slice){item.at + 6, item.len - 6});
		else if (item.len > 5 && memcmp(item.at, "file:", 5) == 0)
			good = value_read_lines(value, (struct slice){item.at + 5, item.len - 5},
				       take_access_line, &lists) &&
			       good;
		else if (!scan_cidr(item, &cidr))
			good = value_fail(
				value, "\"%.*s\" is neither address nor file", SLICE_ARGS(item));
		else if (!cidr_is_clear(&cidr))
			good = value_fail(
				value, "\"%.*s\" has bits set after its prefix", SLICE_ARGS(item));
		else
			value_cidrs_add(value, lists.addresses, cidr);
	}
	return good;
}

/* ---- buffering ---- */

#define LEAST_KEPT 4096ULL
#define MOST_KEPT  (1ULL << 40)

/* off, 256k, or 256k file 16M */
static bool parse_buffering(struct value *value)
{
	struct conf_buffering *buffering = value->at;
	struct slice rest = value->text, memory, word;

	*buffering = (struct conf_buffering){0};
	if (slice_equal(value->text, SLICE("off")))
		return true;
	scan_next_token(&rest, &memory);
	if (!scan_size(memory, &buffering->memory_bytes))
		return value_fail(value, "invalid size \"%.*s\"", SLICE_ARGS(memory));
	if (scan_next_token(&rest, &word) &&
		(!slice_equal(word, SLICE("file")) ||
			!scan_size(slice_trim(rest), &buffering->file_bytes)))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	if (buffering->memory_bytes < LEAST_KEPT || buffering->memory_bytes > MOST_KEPT ||
		buffering->file_bytes > MOST_KEPT)
		return value_fail_plainly(value,
			"%.*s is out of bounds; expected 4k to 1024G, or off",
			SLICE_ARGS(value->text));
	return true;
}

const struct option_type type_hosts = {"list of hosts",
	"names such as api.example.com or *.example.com", parse_hosts, same_texts, true};
const struct option_type type_methods = {"list of methods",
	"registered methods such as GET, POST or PROPFIND, in upper case", parse_methods, NULL,
	true};
const struct option_type type_statuses = {
	"list of statuses", "statuses such as 429, 503 or 5xx", parse_statuses, NULL, true};
const struct option_type type_cost = {
	"cost", "a number or response:FIELD", parse_cost, same_cost, false};
const struct option_type type_access = {"list of networks and files",
	"addresses, networks such as 10.0.0.0/8, file:PATH of a file with one key per line, and "
	"match:NAME",
	parse_access, same_access, false};
const struct option_type type_upgrades = {"off or list of protocols",
	"off alone, or protocols such as websocket", parse_upgrades, same_texts, true};
const struct option_type type_buffering = {"sizes",
	"off, SIZE such as 64k, or SIZE file SIZE such as 64k file 16M", parse_buffering, NULL,
	false};
