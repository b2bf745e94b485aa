#include "websocket/filter.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"
#include "gate/identity.h"
#include "http/forwarded.h"
#include "websocket/grip.h"
#include "websocket/survey.h"

/* ---- values ---------------------------------------------------------------------------------- */

static bool read_name(char name[static FILTER_NAME_BYTES], struct slice text)
{
	if (text.len == 0 || text.len >= FILTER_NAME_BYTES)
		return false;
	memcpy(name, text.at, text.len);
	name[text.len] = '\0';
	return true;
}

static bool read_type(struct socket_filter *filter, struct slice text)
{
	return read_name(filter->type, text);
}

static bool read_route(struct socket_filter *filter, struct slice text)
{
	return read_name(filter->route, text);
}

static bool read_caller(struct socket_filter *filter, struct slice text)
{
	struct throttle_key caller;

	if (!identity_of_short(text, &caller))
		return false;
	filter->caller = caller.lo;
	return true;
}

/* 32 hexadecimal digits, as sessions are listed. */
static bool read_session(struct socket_filter *filter, struct slice text)
{
	if (text.len != 32)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		if (!isxdigit((unsigned char)c))
			return false;
		filter->session[i / 16] = filter->session[i / 16] << 4 |
					  (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return true;
}

static bool read_address(struct socket_filter *filter, struct slice text)
{
	return scan_cidr(text, &filter->address);
}

static bool read_min_age(struct socket_filter *filter, struct slice text)
{
	return scan_duration_ms(text, &filter->min_age_ms);
}

static bool read_max_age(struct socket_filter *filter, struct slice text)
{
	return scan_duration_ms(text, &filter->max_age_ms);
}

static bool read_min_idle(struct socket_filter *filter, struct slice text)
{
	return scan_duration_ms(text, &filter->min_idle_ms);
}

static bool read_max_idle(struct socket_filter *filter, struct slice text)
{
	return scan_duration_ms(text, &filter->max_idle_ms);
}

static bool read_connection(struct socket_filter *filter, struct slice text)
{
	return read_name(filter->connection, text);
}

static bool read_channel(struct socket_filter *filter, struct slice text)
{
	if (!grip_channel_is_valid(text))
		return false;
	memcpy(filter->channel, text.at, text.len);
	filter->channel_bytes = text.len;
	return true;
}

static bool read_meta(struct socket_filter *filter, const char *name, const char *value)
{
	struct filter_meta *meta = &filter->meta[filter->meta_count];

	if (filter->meta_count == FILTER_META || *name == '\0' ||
		strlen(name) >= sizeof(meta->name) || strlen(value) >= sizeof(meta->value))
		return false;
	strcpy(meta->name, name);
	strcpy(meta->value, value);
	filter->meta_count++;
	return true;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static bool fits_type(const struct socket_filter *filter, const struct websocket *socket)
{
	return strcmp(filter->type, socket_type(socket)) == 0;
}

static bool fits_route(const struct socket_filter *filter, const struct websocket *socket)
{
	return strcmp(filter->route, socket->passage->account.route->name) == 0;
}

static bool fits_caller(const struct socket_filter *filter, const struct websocket *socket)
{
	return filter->caller == socket_caller(socket);
}

static bool fits_session(const struct socket_filter *filter, const struct websocket *socket)
{
	uint64_t key[2];

	socket_session(socket, key);
	return key[0] == filter->session[0] && key[1] == filter->session[1];
}

static bool fits_address(const struct socket_filter *filter, const struct websocket *socket)
{
	struct conf_cidr network = filter->address;
	const struct conf_cidrs list = {&network, 1};

	return forwarded_peer_trusted(&list, socket_address(socket));
}

static bool fits_min_age(const struct socket_filter *filter, const struct websocket *socket)
{
	return socket_age_ms(socket) >= filter->min_age_ms;
}

static bool fits_max_age(const struct socket_filter *filter, const struct websocket *socket)
{
	return socket_age_ms(socket) <= filter->max_age_ms;
}

static bool fits_min_idle(const struct socket_filter *filter, const struct websocket *socket)
{
	return socket_idle_ms(socket) >= filter->min_idle_ms;
}

static bool fits_max_idle(const struct socket_filter *filter, const struct websocket *socket)
{
	return socket_idle_ms(socket) <= filter->max_idle_ms;
}

static bool fits_connection(const struct socket_filter *filter, const struct websocket *socket)
{
	struct socket_server_facts facts;

	socket->server->describe(socket, &facts);
	return facts.connection_id.len > 0 &&
	       slice_equal(slice_of(filter->connection), facts.connection_id);
}

static bool fits_channel(const struct socket_filter *filter, const struct websocket *socket)
{
	return socket_is_subscribed(socket, (struct slice){filter->channel, filter->channel_bytes});
}

/* A value that was not set is empty. */
static bool fits_meta(const struct socket_filter *filter, const struct websocket *socket)
{
	struct socket_server_facts facts;

	socket->server->describe(socket, &facts);
	for (unsigned i = 0; i < filter->meta_count; i++) {
		const struct filter_meta *meta = &filter->meta[i];
		struct slice value = SLICE_NONE;
		if (facts.meta)
			value = meta_find(facts.meta, slice_of(meta->name));
		if (!slice_equal(value, slice_of(meta->value)))
			return false;
	}
	return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct term {
	const char *name, *expects;
	bool (*read)(struct socket_filter *filter, struct slice text);
	bool (*fits)(const struct socket_filter *filter, const struct websocket *socket);
};

#define A_DURATION "a duration such as 90s or 5m"
static const struct term terms[] = {
	{"type", "a type", read_type, fits_type},
	{"route", "a route's name", read_route, fits_route},
	{"caller", "the 16 hexadecimal digits of the access log", read_caller, fits_caller},
	{"session", "a session's id of 32 digits", read_session, fits_session},
	{"address", "an address, or a network such as 10.0.0.0/8", read_address, fits_address},
	{"min_age", A_DURATION, read_min_age, fits_min_age},
	{"max_age", A_DURATION, read_max_age, fits_max_age},
	{"min_idle", A_DURATION, read_min_idle, fits_min_idle},
	{"max_idle", A_DURATION, read_max_idle, fits_max_idle},
	{"connection", "the Connection-Id of a gateway's socket", read_connection, fits_connection},
	{"channel", "a channel's name of at most 1024 bytes", read_channel, fits_channel},
};
#define TERMS (sizeof(terms) / sizeof(terms[0]))
_Static_assert(TERMS <= 32, "a bit for each term");

static unsigned find_term(const char *name)
{
	unsigned i = 0;

	while (i < TERMS && strcmp(terms[i].name, name) != 0)
		i++;
	return i;
}

enum filter_result filter_add(struct socket_filter *filter, const char *name, const char *value)
{
	const size_t start = strlen(FILTER_META_START);
	unsigned i = find_term(name);

	if (strncmp(name, FILTER_META_START, start) == 0)
		return read_meta(filter, name + start, value) ? FILTER_OK : FILTER_INVALID;
	if (i == TERMS)
		return FILTER_UNKNOWN;
	filter->terms |= UINT32_C(1) << i;
	return terms[i].read(filter, slice_of(value)) ? FILTER_OK : FILTER_INVALID;
}

const char *filter_expects(const char *name)
{
	unsigned i = find_term(name);

	if (strncmp(name, FILTER_META_START, strlen(FILTER_META_START)) == 0)
		return "up to 4 names with values of less than 256 bytes";
	return i < TERMS ? terms[i].expects : NULL;
}

const char *filter_name(unsigned i)
{
	return i < TERMS ? terms[i].name : NULL;
}

bool filter_fits(const struct socket_filter *filter, const struct websocket *socket)
{
	for (unsigned i = 0; i < TERMS; i++) {
		if (filter->terms >> i & 1 && !terms[i].fits(filter, socket))
			return false;
	}
	return filter->meta_count == 0 || fits_meta(filter, socket);
}
