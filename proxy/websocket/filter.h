/*
 * Which sockets are meant: terms of a name and a value, all of which must fit. The table of them is
 * in filter.c.
 */
#ifndef WEBSOCKET_FILTER_H
#define WEBSOCKET_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "throttle/throttle.h"
#include "channels/grip_control.h"

#define FILTER_NAME_BYTES 256

/* Of values that a gateway's server has set; more in a filter are refused. */
#define FILTER_META       4
#define FILTER_META_BYTES 256
#define FILTER_META_START "meta."

struct filter_meta {
	char name[FILTER_META_BYTES], value[FILTER_META_BYTES];
};

struct websocket;

/* All zero: any socket. It holds copies of all that it was given. */
struct socket_filter {
	uint32_t terms; /* a bit of each that was given */
	char type[FILTER_NAME_BYTES], route[FILTER_NAME_BYTES];
	uint64_t caller;
	uint64_t session[2];
	struct conf_cidr address;
	uint64_t min_age_ms, max_age_ms, min_idle_ms, max_idle_ms;
	char connection[FILTER_NAME_BYTES];
	char channel[GRIP_CHANNEL_BYTES];
	size_t channel_bytes;
	struct filter_meta meta[FILTER_META];
	unsigned meta_count;
};

enum filter_result {
	FILTER_OK,
	FILTER_UNKNOWN, /* there is no such term */
	FILTER_INVALID, /* its value is none: see filter_expects */
};

/* One more term; of one name the last counts. `meta.NAME` is a value that the server of a gateway's
 * socket has set (meta.h). */
enum filter_result filter_add(struct socket_filter *filter, const char *name, const char *value);

/* The form of a term's value, for a message. */
const char *filter_expects(const char *name);

/* The names of all terms, one after the other; NULL behind the last. */
const char *filter_name(unsigned i);

/* On the thread of the socket's worker. */
bool filter_fits(const struct socket_filter *filter, const struct websocket *socket);

#endif
