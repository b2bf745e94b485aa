#include "websocket/filter.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"
#include "gate/identity.h"
#include "http/forwarded.h"
#include "websocket/view.h"

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

/* ---- sockets --------------------------------------------------------------------------------- */

static bool fits_type(const struct socket_filter *filter, const struct websocket *socket)
{
	return strcmp(filter->type, socket_type(socket)) == 0;
}

static bool fits_route(const struct socket_filter *filter, const struct websocket *socket)
{
	return strcmp(filter->route, socket->handshake->route->name) == 0;
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
	{"caller", "the 16 digits that the access log has", read_caller, fits_caller},
	{"session", "a session's id of 32 digits", read_session, fits_session},
	{"address", "an address, or a network such as 10.0.0.0/8", read_address, fits_address},
	{"min_age", A_DURATION, read_min_age, fits_min_age},
	{"max_age", A_DURATION, read_max_age, fits_max_age},
	{"min_idle", A_DURATION, read_min_idle, fits_min_idle},
	{"max_idle", A_DURATION, read_max_idle, fits_max_idle},
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
	unsigned i = find_term(name);

	if (i == TERMS)
		return FILTER_UNKNOWN;
	filter->terms |= UINT32_C(1) << i;
	return terms[i].read(filter, slice_of(value)) ? FILTER_OK : FILTER_INVALID;
}

const char *filter_expects(const char *name)
{
	unsigned i = find_term(name);

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
	return true;
}
