/*
 * [route NAME]: which requests it takes, and what applies to them. Of a snapshot (conf.h).
 */
#ifndef CONF_ROUTE_H
#define CONF_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/key.h"
#include "conf/limit.h"
#include "conf/terms.h"
#include "conf/upstream.h"

enum conf_ordering {
	CONF_ORDERING_AUTO,
	CONF_ORDERING_WRITES,
	CONF_ORDERING_STRICT,
	CONF_ORDERING_NONE
};
enum conf_path_kind { CONF_PATH_PREFIX, CONF_PATH_EXACT, CONF_PATH_REGEX };

/* The condition for returning a charge: refund = 5xx, 429 */
struct conf_statuses {
	uint8_t bits[125]; /* bit (status - 100) for 100..1099 */
	bool any;
};

/* request_buffering = 64k file 16M: bytes of a body kept in memory and then in a file; 0: none */
struct conf_buffering {
	uint64_t memory_bytes, file_bytes;
};

/* Whose requests stay in order on a route, and how they wait for their turn. */
struct conf_sessions {
	const struct conf_key *key; /* `session`; never NULL: the first limit's key, else ip */
	enum conf_ordering ordering;
	uint64_t read_hold_ms;     /* 250ms */
	uint32_t in_flight;        /* 0: no bound */
	uint32_t queue_depth;      /* waiting in one session, 1000 */
	uint64_t queue_bytes;      /* what these hold in memory, 0: no bound */
	uint64_t queue_timeout_ms; /* 30s */
	uint32_t high_burst;       /* high exchanges that may pass a waiting normal one, 16 */
	enum conf_lane lane;
	uint64_t idle_timeout_ms; /* 60s */
	bool affinity;            /* upstream_affinity = session */
	bool of_fleet;            /* session_scope = fleet: one node at a time owns a session */
	bool refuses_elsewhere;   /* session_elsewhere = refuse; else forwarded to the owner */
	uint64_t owner_idle_ms;   /* without use, until another node may own a session, 1s */
};

/* `allow` and `deny`, by address or by the first limit's key value: without limits, or 403. */
struct conf_access {
	struct conf_cidrs allow_addresses, deny_addresses; /* allow = 10.0.0.0/8, file:vip.keys */
	struct conf_text_list allow_keys, deny_keys;
	struct conf_when allow_when, deny_when; /* match:NAME, match:!NAME: any of these bits */
};

static inline bool conf_access_has_conditions(const struct conf_access *access)
{
	return conf_when_is_set(&access->allow_when) || conf_when_is_set(&access->deny_when);
}

enum conf_websocket_mode {
	CONF_WEBSOCKET_TUNNEL,
	CONF_WEBSOCKET_MESSAGES,
	CONF_WEBSOCKET_GATEWAY, /* the server speaks HTTP (WebSocket-over-HTTP) */
};
enum conf_message_exceed {
	CONF_MESSAGE_DELAY, /* the client is not read until the message fits */
	CONF_MESSAGE_DROP,
	CONF_MESSAGE_CLOSE,
};

/* The treatment of a socket whose send queue is full. */
enum conf_queue_full {
	CONF_QUEUE_FULL_CLOSE, /* closed with 1013 */
	CONF_QUEUE_FULL_DROP,  /* its oldest normal messages are dropped */
};

/* With websocket = gateway. */
struct conf_gateway {
	uint32_t waiting;       /* messages behind the request under way, 16 */
	uint64_t waiting_bytes; /* the same in bytes, 64k */
	uint32_t batch;         /* messages of one request, 64 */
	uint64_t answer_bytes;  /* of an answer: gateway_answer_size, 1M */
	uint32_t tries;         /* of a request that could not be sent, 3 */
};

/* A route's WebSockets. With a tunnel, only `mode` has an effect. */
struct conf_websocket {
	enum conf_websocket_mode mode;
	struct conf_limits limits; /* message_limits */
	enum conf_message_exceed on_exceed;
	uint64_t delay_max_ms;                /* of a message; UINT64_MAX: no bound */
	const char *notice;                   /* text for the client of a dropped message; NULL */
	uint64_t max_message_bytes;           /* 1M */
	uint64_t message_timeout_ms;          /* from the first to the last of a message, 30s */
	const struct conf_limit *max_sockets; /* of concurrency; NULL: none */
	struct conf_text_list origins;        /* lower case; none: any */
	struct conf_text_list protocols;      /* none: any */
	uint64_t ping_interval_ms;            /* without a sign of the client's, 30s; 0: none */
	uint64_t ping_timeout_ms;             /* 10s */
	uint64_t idle_timeout_ms;             /* without a message, 1h; 0: no end */
	uint64_t lifetime_ms;                 /* 0: no end */
	uint64_t close_timeout_ms;            /* 5s */
	uint64_t queue_bytes;                 /* of a send queue: socket_queue_bytes, 1M */
	uint32_t queue_messages;              /* the same, 1000 */
	enum conf_queue_full on_queue_full;
	uint32_t channels; /* socket_channels, 100 */
	bool logs_messages;
	const char *type; /* socket_type; NULL: the route's name */
	struct conf_gateway gateway;
};

struct conf_route {
	const char *name;
	unsigned line;
	unsigned index;              /* in conf.routes */
	struct conf_text_list hosts; /* lower case; `*.suffix` allowed; empty: any host */
	enum conf_path_kind path_kind;
	const char *path; /* normalised; "/" by default. Prefixes match on segment boundaries */
	struct conf_regex regex; /* CONF_PATH_REGEX */
	uint64_t methods;        /* bit (1 << enum http_method), 0: any */
	struct conf_when when;   /* it takes no other requests */
	const struct conf_upstream *upstream;
	struct conf_limits limits;
	struct conf_sessions sessions;
	enum conf_unknown unknown;                /* unknown_callers */
	uint64_t max_body_bytes;                  /* max_body_size: 413 beyond; 0: no bound */
	struct conf_buffering request_buffering;  /* before a place is taken, 64k file 16M */
	struct conf_buffering response_buffering; /* so that a place is given back, 32k file 64M */
	uint64_t min_rate; /* bytes a second of a body either way, beyond the grace; 0: none */
	uint64_t min_rate_grace_ms; /* 10s */
	uint64_t cost;              /* what a request is charged, 1 */
	const char *cost_field;     /* cost = response:X-Cost : lower-case field name; NULL: none */
	struct conf_statuses refund;
	struct conf_text_list upgrades; /* protocols that Upgrade may ask for, lower case;
					   websocket */
	struct conf_websocket websocket;
	struct conf_text_list request_trailers; /* that pass, besides the usual ones */
	struct conf_fields request_set,
		response_set; /* request_header_set = Name: value; repeatable */
	struct conf_text_list request_remove, response_remove;
	const char *strip_prefix, *add_prefix;
	bool forwards_normal_path;  /* forward_path = normal; else as received */
	bool allows_ambiguous_path; /* ambiguous_path = allow; else refused */
	bool restricts;             /* a restriction is set, and allows_ambiguous_path is not */
	bool is_before_gateway;     /* one of its servers also serves a route's gateway */
	bool holds_responses;       /* grip_hold */
	enum conf_ratelimit_headers ratelimit_headers;
	struct conf_access access;
};

/*
 * A host pattern and the routes that have it, most specific path first. When one route has several
 * hosts, `routes` below can't have one order that is right for all of them; this can: try the
 * patterns that fit a request's host in the order of `hosts`, and each one's routes in theirs. The
 * first that fits in path and method is the one.
 */
struct conf_host {
	const char *text; /* api.example.com; *.example.com; "" for any host */
	const struct conf_route **routes;
	size_t route_count;
};

/* The patterns of all routes: exact ones in byte order, wildcards from the longest, any. */
struct conf_hosts {
	struct conf_host *items;
	size_t count;
	size_t exact_count; /* so many of them, the first ones, are exact */
};

#endif
