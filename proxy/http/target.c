#include "http/target.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "http/bytes16.h"

/* The classes of a byte: part of a reg-name (RFC 3986 section 3.2.2, without percent-encoding), of
 * a path, of a query. */
enum { HOST = 1, UPPER = 2, PATH = 4, QUERY = 8, TARGET = PATH | QUERY };

static const uint8_t byte_class[256] = {
	['!'] = HOST | TARGET,
	['"'] = TARGET,
	['$'] = HOST | TARGET,
	['%'] = TARGET,
	['&' ... '*'] = HOST | TARGET,
	['+'] = HOST | TARGET,
	[','] = TARGET,
	['-'] = HOST | TARGET,
	['.'] = HOST | TARGET,
	['/'] = TARGET,
	['0' ... '9'] = HOST | TARGET,
	[':'] = TARGET,
	[';'] = HOST | TARGET,
	['<'] = TARGET,
	['='] = HOST | TARGET,
	['>'] = TARGET,
	['?'] = QUERY,
	['@'] = TARGET,
	['A' ... 'Z'] = HOST | UPPER | TARGET,
	['[' ... '^'] = TARGET,
	['_'] = HOST | TARGET,
	['`'] = TARGET,
	['a' ... 'z'] = HOST | TARGET,
	['{' ... '}'] = TARGET,
	['~'] = HOST | TARGET,
	[0x80 ... 0xff] = TARGET,
};

static bool parse_port(struct slice digits, struct http_authority *authority)
{
	unsigned port = 0;

	/* `host:` is valid and means the default port (RFC 3986 section 3.2.3). */
	if (digits.len == 0)
		return true;
	if (digits.len > 5)
		return false;
	for (size_t i = 0; i < digits.len; i++) {
		if (digits.at[i] < '0' || digits.at[i] > '9')
			return false;
		port = port * 10 + (unsigned)(digits.at[i] - '0');
	}
	if (port > UINT16_MAX)
		return false;
	authority->has_port = true;
	authority->port = (uint16_t)port;
	return true;
}

static bool ipv6_of(struct slice text, struct in6_addr *address)
{
	char copy[INET6_ADDRSTRLEN];

	if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.at, '\0', text.len))
		return false;
	memcpy(copy, text.at, text.len);
	copy[text.len] = '\0';
	return inet_pton(AF_INET6, copy, address) == 1;
}

static bool parse_ipv6_authority(struct slice text, struct http_authority *authority)
{
	struct in6_addr address;
	const char *bracket = memchr(text.at, ']', text.len);

	if (!bracket)
		return false;
	authority->is_ipv6 = true;
	authority->host = (struct slice){text.at + 1, (size_t)(bracket - text.at - 1)};
	if (!ipv6_of(authority->host, &address))
		return false;
	struct slice rest = {bracket + 1, text.len - authority->host.len - 2};
	if (rest.len == 0)
		return true;
	return rest.at[0] == ':' &&
	       parse_port((struct slice){rest.at + 1, rest.len - 1}, authority);
}

/* How many bytes from the front were seen to be small letters, digits, '-' and '.': no more than
 * are. */
static size_t plain_host(struct slice text)
{
	size_t len = 0;

	while (text.len >= 8 && len < text.len) {
		size_t end = text.len - len < 16 ? text.len : len + 16;
		const char *first = text.at + (end < 16 ? 0 : end - 16);
		if (bytes16_not_host(first, text.at + end - 8) != 0)
			break;
		len = end;
	}
	return len;
}

bool http_authority_parse(struct slice text, struct http_authority *authority)
{
	*authority = (struct http_authority){.host = text};
	if (text.len == 0)
		return true;
	if (text.at[0] == '[')
		return parse_ipv6_authority(text, authority);

	size_t len = plain_host(text);
	uint8_t seen = 0, class;
	while (len < text.len && ((class = byte_class[(unsigned char)text.at[len]]) & HOST)) {
		seen |= class;
		len++;
	}
	authority->host.len = len;
	authority->has_upper = seen & UPPER;
	if (len > HTTP_HOST_BYTES)
		return false;
	if (len == text.len)
		return true;
	return len > 0 && text.at[len] == ':' &&
	       parse_port((struct slice){text.at + len + 1, text.len - len - 1}, authority);
}

static struct slice ipv6_host(struct slice text, char out[static HTTP_HOST_BYTES])
{
	struct in6_addr address;
	char shortest[INET6_ADDRSTRLEN];

	if (!ipv6_of(text, &address) || !inet_ntop(AF_INET6, &address, shortest, sizeof(shortest)))
		return SLICE_NONE;
	size_t len = strlen(shortest);
	out[0] = '[';
	memcpy(out + 1, shortest, len);
	out[len + 1] = ']';
	return (struct slice){out, len + 2};
}

struct slice http_authority_host(
	const struct http_authority *authority, char out[static HTTP_HOST_BYTES])
{
	struct slice host = authority->host;

	if (authority->is_ipv6)
		return ipv6_host(host, out);
	if (host.len > 0 && host.at[host.len - 1] == '.')
		host.len--;
	if (!authority->has_upper)
		return host;
	for (size_t i = 0; i < host.len; i++) {
		unsigned char c = (unsigned char)host.at[i];
		out[i] = (char)(byte_class[c] & UPPER ? c | 0x20 : c);
	}
	return (struct slice){out, host.len};
}

/* How many bytes from the front are of the class. */
static size_t span(struct slice text, uint8_t class)
{
	size_t i = 0;

	while (i < text.len && (byte_class[(unsigned char)text.at[i]] & class))
		i++;
	return i;
}

/* `/a?b` into path and query; every byte is looked at. */
static bool split_path(struct slice text, struct http_target *target)
{
	size_t len = span(text, PATH);

	target->path = (struct slice){text.at, len};
	if (len == text.len)
		return true;
	if (text.at[len] != '?')
		return false;
	target->has_query = true;
	target->query = (struct slice){text.at + len + 1, text.len - len - 1};
	return span(target->query, QUERY) == target->query.len;
}

static bool has_scheme(struct slice raw, struct slice scheme)
{
	return raw.len >= scheme.len &&
	       slice_equal_nocase((struct slice){raw.at, scheme.len}, scheme);
}

static bool parse_absolute(struct slice raw, struct http_target *target)
{
	size_t begin;

	target->form = HTTP_TARGET_ABSOLUTE;
	if (has_scheme(raw, SLICE("http://"))) {
		begin = strlen("http://");
	} else if (has_scheme(raw, SLICE("https://"))) {
		begin = strlen("https://");
		target->is_https = true;
	} else {
		return false;
	}
	size_t end = begin;
	while (end < raw.len && raw.at[end] != '/' && raw.at[end] != '?')
		end++;
	target->authority_text = (struct slice){raw.at + begin, end - begin};
	/* RFC 9110 section 4.2.1: an http URI with an empty host is invalid. */
	if (!http_authority_parse(target->authority_text, &target->authority) ||
		target->authority.host.len == 0)
		return false;
	if (!split_path((struct slice){raw.at + end, raw.len - end}, target))
		return false;
	if (target->path.len == 0)
		target->path = SLICE("/");
	return true;
}

static bool parse_authority_form(struct slice raw, struct http_target *target)
{
	target->form = HTTP_TARGET_AUTHORITY;
	target->authority_text = raw;
	return http_authority_parse(raw, &target->authority) && target->authority.host.len > 0 &&
	       target->authority.has_port;
}

bool http_target_parse(struct slice raw, enum http_method method, struct http_target *target)
{
	*target = (struct http_target){.form = HTTP_TARGET_ORIGIN};
	if (raw.len == 0)
		return false;
	if (method == HTTP_METHOD_CONNECT)
		return parse_authority_form(raw, target);
	if (raw.at[0] == '/')
		return split_path(raw, target);
	if (raw.at[0] == '*') {
		target->form = HTTP_TARGET_ASTERISK;
		target->path = raw;
		return raw.len == 1 && method == HTTP_METHOD_OPTIONS;
	}
	return parse_absolute(raw, target);
}
