/*
 * The configuration: one immutable snapshot.
 *
 *   ini text --reader (inih)--> rows of the option table --parse, bounds--> struct conf --cross
 * checks--> snapshot
 *
 * A snapshot is built whole or not at all: conf_load returns every error it found, each with
 * file:line. Once built nothing in it changes; a reload builds another. It is freed when its last
 * holder lets go (conf_hold, conf_release), so exchanges in flight finish on the one they began
 * with.
 *
 * All texts are NUL-terminated and owned by the snapshot. All arrays are in file order, but for
 * `routes`, which stand most specific first. Times are milliseconds unless the name says otherwise.
 */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/log.h"
#include "conf/key.h"
#include "conf/lines.h"

/* A network or address: `prefix` bits of `address` (16 bytes; IPv4 as ::ffff:a.b.c.d, prefix + 96).
 */
struct conf_cidr {
	uint8_t address[16];
	uint8_t prefix;
};

struct conf_cidrs {
	struct conf_cidr *items;
	size_t count;
};

/* Where to listen or connect. `host` is a name when it is not a literal address. Only a `bind` can
 * be systemd:NAME, a socket that systemd opened and passes by that name. */
enum conf_address_kind {
	CONF_ADDRESS_INET,
	CONF_ADDRESS_NAME,
	CONF_ADDRESS_UNIX,
	CONF_ADDRESS_SYSTEMD
};
struct conf_address {
	enum conf_address_kind kind;
	unsigned line;
	const char *text; /* as written */
	const char *host; /* address, name, unix path, or systemd's name */
	uint16_t port;
	struct sockaddr_storage socket; /* INET and UNIX */
	socklen_t socket_len;
};

struct arena;
struct conf_source;

struct conf_text_list {
	const char **items;
	size_t count;
};

/* A field to set: `Name: value`. */
struct conf_field {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

struct conf_fields {
	struct conf_field *items;
	size_t count;
};

enum conf_ratelimit_headers {
	CONF_RATELIMIT_DRAFT_11,
	CONF_RATELIMIT_DRAFT_7,
	CONF_RATELIMIT_X,      /* X-RateLimit-Reset in seconds from now */
	CONF_RATELIMIT_X_UNIX, /* the same as a unix time */
	CONF_RATELIMIT_OFF,
	CONF_RATELIMIT_INHERIT, /* on a route: what the listener says */
};

/* Warnings: valid, but hardly meant. For people, without `file:line: ` in front. */
struct conf_warning {
	unsigned line; /* for conf_place */
	const char *text;
};

struct conf_listener {
	const char *name;
	unsigned line;
	struct conf_address
		*binds; /* bind = 0.0.0.0:8080, [::]:8080, unix:/path, systemd:NAME; repeatable */
	size_t bind_count;
	struct conf_cidrs trusted_proxies;
	bool trust_priority;        /* RFC 9218 urgency from clients */
	bool v6only;                /* default on */
	uint32_t backlog;           /* 1024 */
	uint32_t max_connections;   /* over all workers; 0: no bound */
	uint32_t pipeline_depth;    /* requests of one connection on their way at once, 16 */
	uint64_t header_timeout_ms; /* from the first byte of a request to the end of its head, 10s
				     */
	uint64_t idle_timeout_ms;   /* keep-alive: between requests, 75s */
	uint64_t body_timeout_ms;   /* between two reads of a request body, 60s */
	uint64_t send_timeout_ms;   /* between two writes to a client that does not read, 60s */
	uint64_t linger_timeout_ms; /* reading on behind the last response, 30s */
	uint64_t linger_bytes;      /* the same in bytes, linger_size, 1G */
	uint32_t max_lingering;     /* connections that do so, over all workers, 1000 */
	uint32_t max_header_bytes;  /* max_header_size: 431 beyond, 16k */
	uint32_t max_uri_bytes;     /* max_uri_size: 414 beyond, 8k */
	uint32_t max_fields;        /* max_headers: field lines in a head, 431 beyond, 100 */
	struct conf_fields response_set; /* of all responses, also of those of sluice itself */
	struct conf_text_list response_remove;
	bool health;            /* /healthz and /readyz are answered, off */
	bool passes_lookalikes; /* lookalike_fields = pass; else dropped */
	enum conf_ratelimit_headers ratelimit_headers;
	bool is_internal; /* [fleet] bind: for other nodes */
};

struct conf_server {
	struct conf_address address;
	unsigned line;
	uint32_t weight;          /* 1 */
	uint32_t max_in_flight;   /* 0: no bound */
	uint32_t max_connections; /* 0: no bound */
};

enum conf_balance { CONF_BALANCE_ROUND_ROBIN, CONF_BALANCE_LEAST_IN_FLIGHT, CONF_BALANCE_HASH };

#define CONF_SERVERS_MAX    64 /* of an upstream */
#define CONF_IN_FLIGHT_AUTO UINT32_MAX

struct conf_semaphore;

/* What an upstream does while its semaphore's broker is away. */
enum conf_semaphore_down { CONF_SEMAPHORE_DOWN_LOCAL, CONF_SEMAPHORE_DOWN_REFUSE };

struct conf_upstream {
	const char *name;
	unsigned line;
	unsigned index; /* in conf.upstreams */
	struct conf_server *servers;
	size_t server_count;
	enum conf_balance balance;
	const struct conf_key *hash_key; /* balance = hash: NULL means the session's key */
	uint32_t max_in_flight;          /* 0: no bound; CONF_IN_FLIGHT_AUTO */
	uint32_t max_in_flight_floor, max_in_flight_ceiling; /* bounds of auto: 1, 1000 */
	const struct conf_semaphore *semaphore;              /* whose slots it takes; NULL: none */
	uint64_t semaphore_idle_ms; /* slots not needed for so long are given back, 2s */
	enum conf_semaphore_down semaphore_down;
	uint32_t max_streams;                      /* responses without end at once, 0: no bound */
	uint64_t pace_amount, pace_per_ns;         /* pace = 50 per 1s; 0: none */
	uint32_t quantum;                          /* 10..50, 10 */
	uint64_t shed_target_ms, shed_interval_ms; /* 0: no shedding; 100 */
	uint64_t connect_timeout_ms;               /* 5s */
	uint64_t send_timeout_ms;                  /* between two writes of a request, 60s */
	uint64_t first_byte_timeout_ms; /* from the request's end to the response's first byte, 60s
					 */
	uint64_t idle_timeout_ms;       /* between two reads of a response, 60s */
	uint64_t tunnel_timeout_ms;     /* after a 101: neither side says anything, 1h */
	uint32_t keepalive; /* idle connections kept by a worker for a server, 64; 0: none */
	uint64_t keepalive_timeout_ms; /* 55s */
	uint32_t keepalive_requests;   /* requests on one connection, 0: no bound */
	uint64_t resolve_interval_ms;  /* names are looked up again, 30s */
	uint32_t max_fails;       /* failures in a row before a server is left out, 3; 0: never */
	uint64_t fail_timeout_ms; /* first interval it is left out; doubles, 1s */
	uint64_t fail_timeout_max_ms; /* 60s */
	uint32_t retries;             /* further tries on another server or a fresh connection, 2 */
	uint64_t lenient;            /* bits of enum http_lenient; 0: responses are read strictly */
	const char *health_path;     /* NULL: no active health checks */
	const char *health_host;     /* Host of the probe; NULL: the server's address */
	uint64_t health_interval_ms; /* 5s */
	uint64_t health_timeout_ms;  /* 2s */
	bool health_shared;          /* one node of the fleet probes for all, off */
};

enum conf_limit_algorithm {
	CONF_LIMIT_RING,
	CONF_LIMIT_GCRA,
	CONF_LIMIT_CALENDAR,
	CONF_LIMIT_CONCURRENCY
};
enum conf_limit_unit { CONF_UNIT_REQUESTS, CONF_UNIT_BYTES };
enum conf_calendar {
	CONF_CALENDAR_HOUR,
	CONF_CALENDAR_DAY,
	CONF_CALENDAR_WEEK,
	CONF_CALENDAR_MONTH
};

#define CONF_PRECISION_EXACT UINT32_MAX

/* How a limit of the fleet is judged. */
enum conf_fleet_way {
	CONF_FLEET_NONE,
	CONF_FLEET_EXACT,
	CONF_FLEET_LEASE,
	CONF_FLEET_SPLIT,
	CONF_FLEET_RELAXED
};

/* What a limit of the fleet does when the store does not answer. */
enum conf_store_down {
	CONF_STORE_DOWN_UNSET, /* on a limit: what [fleet] says */
	CONF_STORE_DOWN_LOCAL,
	CONF_STORE_DOWN_STRICT,
	CONF_STORE_DOWN_REFUSE,
	CONF_STORE_DOWN_ADMIT
};

struct conf_limit {
	const char *name;
	unsigned line;
	unsigned index;  /* in conf.limits */
	const char *was; /* the name that it had before; NULL: none */
	const struct conf_key *key;
	enum conf_limit_algorithm algorithm; /* algorithm = ring | gcra; calendar follows from the
						rate; concurrency = N instead of rate */
	enum conf_limit_unit unit;
	uint64_t amount; /* L: requests, bytes, or in flight */
	uint64_t per_ns; /* W; 0 for calendar and concurrency */
	enum conf_calendar calendar;
	const char *time_zone; /* IANA name, "UTC" by default */
	uint64_t burst;        /* gcra: 0 means L */
	uint32_t precision;    /* slots; 0: what fits 128 bytes a caller; CONF_PRECISION_EXACT */
	bool of_fleet;         /* scope = fleet: of all nodes together */
	enum conf_fleet_way fleet_way;
	enum conf_store_down store_down;
	bool shadow; /* mode = shadow */
	bool count_refused;
	uint64_t delay_max_ms; /* on_exceed = delay 2s; 0: reject */
	uint32_t ban_count;    /* ban = 10 per 1m for 5m; 0: none */
	uint64_t ban_per_ns, ban_for_ns;
};

/* Requests and their costs over a sliding window, of which no refusal leaves a trace: what leases
 * and shares of a fleet can count. */
static inline bool conf_limit_is_plain(const struct conf_limit *limit)
{
	return limit->algorithm == CONF_LIMIT_RING && limit->unit == CONF_UNIT_REQUESTS &&
	       !limit->count_refused && limit->ban_count == 0;
}

enum conf_lane { CONF_LANE_NORMAL, CONF_LANE_HIGH };

/* What callers get whose key has no plan. */
enum conf_unknown { CONF_UNKNOWN_INHERIT, CONF_UNKNOWN_DEFAULT, CONF_UNKNOWN_REFUSE };

struct conf_plan {
	const char *name;
	unsigned line;
	const struct conf_limit **limits;
	size_t limit_count;
	enum conf_lane lane;
	uint32_t weight;          /* its callers' share at a busy upstream, 1 */
	const char *callers_path; /* file: one key a line; NULL for the default plan */
	struct conf_text_list
		callers; /* what the file held, '#' comments and empty lines left out */
};

enum conf_ordering {
	CONF_ORDERING_AUTO,
	CONF_ORDERING_WRITES,
	CONF_ORDERING_STRICT,
	CONF_ORDERING_NONE
};
enum conf_path_kind { CONF_PATH_PREFIX, CONF_PATH_EXACT, CONF_PATH_REGEX };

/* What gives back a taken charge: refund = 5xx, 429 */
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
	uint64_t read_hold_ms;     /* 1s */
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
};

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

/* The limits that a key names, with the plan's among them. */
struct conf_limits {
	const struct conf_limit **items;
	size_t count;
	bool plan;            /* the word `plan` stands among them */
	size_t plan_position; /* how many of the items go before the plan's */
};

/* What becomes of a socket whose send queue is full. */
enum conf_queue_full {
	CONF_QUEUE_FULL_CLOSE, /* closed with 1013 */
	CONF_QUEUE_FULL_DROP,  /* its oldest normal messages are dropped */
};

/* What becomes of a route's WebSockets. All but `mode` is of no effect with a tunnel. */
/* With websocket = gateway. */
struct conf_gateway {
	uint32_t waiting;       /* messages behind the request under way, 16 */
	uint64_t waiting_bytes; /* the same in bytes, 64k */
	uint32_t batch;         /* messages of one request, 64 */
	uint64_t answer_bytes;  /* of an answer: gateway_answer_size, 1M */
	uint32_t tries;         /* of a request that could not be sent, 3 */
};

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
	const char *path;    /* normalised; "/" by default. Prefixes match on segment boundaries */
	void *regex;         /* CONF_PATH_REGEX: a compiled pcre2_code, anchored at neither end */
	void *regex_counted; /* the same with a callout at each step */
	uint64_t methods;    /* bit (1 << enum http_method), 0: any */
	const struct conf_upstream *upstream;
	const struct conf_limit **limits;
	size_t limit_count;
	bool plan_limits;     /* the word `plan` stands among the limits */
	size_t plan_position; /* how many of `limits` go before the plan's */
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
	enum conf_ratelimit_headers ratelimit_headers;
	struct conf_access access;
};

/*
 * A host pattern and the routes that have it, most specific path first. When one route has several
 * hosts, `routes` below can't stand in one order that is right for all of them; this can: try the
 * patterns that fit a request's host in the order of `hosts`, and each one's routes in theirs. The
 * first that fits in path and method is the one.
 */
struct conf_host {
	const char *text; /* api.example.com; *.example.com; "" for any host */
	const struct conf_route **routes;
	size_t route_count;
};

/* [admin]: none without a bind */
struct conf_admin {
	unsigned line;
	struct conf_address *binds;
	size_t bind_count;
	const char *token_path; /* NULL: none is asked for */
	bool dashboard;
};

/* What sluice says of itself to servers. */
struct conf_hop {
	const char *via; /* pseudonym in Via; NULL when off, the default */
	bool forwarded;  /* send Forwarded (RFC 7239) too, on */
};

/* Bytes that nobody is shown. */
struct conf_secret {
	const char *at; /* NULL: there is none */
	size_t len;
};

/* A claim of Grip-Sig, and of no publisher's token. The same key signs both: without it, a program
 * that reads one request to a backend could publish for an hour. */
#define CONF_GRIP_REQUEST_CLAIM "request"

/* What signs between sluice and the backends of gateways. */
struct conf_grip {
	struct conf_secret key;
	const char *issuer;
};

enum conf_access_format { CONF_ACCESS_COMBINED, CONF_ACCESS_JSON };

enum conf_traceparent { CONF_TRACEPARENT_PASS, CONF_TRACEPARENT_BEGIN, CONF_TRACEPARENT_OFF };

/* What callers have used of their limits, in files for invoices. */
struct conf_usage {
	uint64_t interval_ms; /* `usage`; 0: it is not kept */
	uint64_t bytes;       /* of its files, 1G */
};

/* The bounds on what is kept of all callers and clients. */
struct conf_totals {
	uint64_t callers;             /* table capacity for each limit, 1M */
	uint64_t sessions;            /* sessions kept at most, 1M */
	uint64_t queue;               /* waiting over all sessions, 100k */
	uint64_t queue_bytes;         /* what these hold in memory, 512M; 0: no bound */
	uint64_t socket_gather_bytes; /* what messages hold until passed on, 256M; 0: no bound */
	uint64_t socket_queue_bytes;  /* what the send queues of sockets hold, 256M; 0: no bound */
	uint64_t channels;            /* of GRIP that sockets are subscribed to, 1M */
};

/* Where bodies are kept for slow clients. */
struct conf_body_store {
	uint64_t memory_bytes, disk_bytes; /* of all bodies kept: 64M, 1G */
	const char *folder;                /* /var/tmp */
};

/* What is logged, and where. */
struct conf_logs {
	enum log_level level;
	struct log_target error, access;
	enum conf_access_format access_format;
};

/* The patterns of all routes: exact ones in byte order, wildcards from the longest, any. */
struct conf_hosts {
	struct conf_host *items;
	size_t count;
	size_t exact_count; /* so many of them, the first ones, are exact */
};

#define CONF_NODE_BYTES 65 /* of a node's name, with its NUL */

/* Redis, its Sentinels or nodes of a cluster: redis://user:password@host:port/database, or several
 */
struct conf_store {
	const char *text;               /* where, as written; NULL: none */
	struct conf_address *addresses; /* INET or NAME */
	size_t count;
	const char *user, *password; /* NULL: none */
	uint32_t database;
};

/* RabbitMQ: amqp://user:password@host:port/vhost */
struct conf_broker {
	struct conf_address address; /* INET or NAME */
	const char *user, *password; /* NULL: none */
	const char *vhost;
};

/* Slots that a broker keeps for all nodes. */
struct conf_semaphore {
	const char *name;
	unsigned line;
	struct conf_broker broker;
	const char *password;  /* from a file; NULL: the broker's */
	uint32_t size;         /* slots that are made */
	uint32_t nodes;        /* that divide them while the broker is away; 0: as were seen */
	uint64_t heartbeat_ms; /* whole seconds, 10s */
	uint64_t timeout_ms;   /* broker_timeout, 10s */
};

struct conf_semaphores {
	struct conf_semaphore *items;
	size_t count;
};

/* Where nodes share what they count. */
struct conf_fleet {
	struct conf_semaphores semaphores;
	struct conf_store store;
	const char *password;      /* from a file; NULL: the store's */
	const char *sentinel;      /* name of the primary at the Sentinels; NULL: none */
	const char *sentinel_user; /* NULL: none */
	const char *sentinel_password;
	const char *prefix;           /* of the store's keys, "sluice" */
	const char *node;             /* this one's name; NULL: the machine's and a random part */
	uint64_t membership_lease_ms; /* 5s */
	bool store_required;          /* not ready while the store is away */
	bool cluster;                 /* the stores are nodes of a Redis Cluster */
	uint64_t store_timeout_ms;    /* 20 */
	uint64_t publish_interval_ms; /* of limits with fleet = relaxed, 500 */
	uint32_t store_quorum;        /* replicas that must have what was counted, 0 */
	enum conf_store_down store_down;
	uint32_t nodes;            /* there are at most so many; 0: those that are there count */
	uint64_t lost_share_ms;    /* strict: a lost node's share is left to it, 1h */
	struct conf_address *bind; /* for other nodes; NULL: none */
	struct conf_secret secret; /* that nodes prove to each other to have */
	uint64_t lease_ms;         /* of what a node owns, 10s */
	uint32_t max_sessions;     /* whose owner a node knows, 100,000 */
};

struct conf {
	const char *path; /* the main file */
	/* [sluice] */
	struct conf_text_list includes; /* the patterns, absolute or as conf.path is */
	unsigned workers;               /* auto: one a processor */
	const char *state;              /* folder for the throttle counters; NULL: memory only */
	bool state_required;            /* no: fall back to memory when the folder can't be used */
	struct conf_usage usage;
	struct conf_totals totals;
	uint64_t lame_duck_ms;        /* 0 */
	uint64_t shutdown_timeout_ms; /* 30s */
	uint32_t buffer_bytes;        /* buffer_size: one read, 32k */
	struct conf_body_store body_store;
	struct conf_logs logs;
	enum conf_traceparent traceparent;
	const char *request_id_field; /* request_id = X-Request-Id; NULL when off */
	struct conf_hop hop;
	const char *pid_file;
	const char *user; /* after binding, drop to this user; NULL: stay */
	struct conf_grip grip;
	struct conf_admin admin;
	struct conf_fleet fleet;

	struct conf_listener *listeners;
	size_t listener_count;
	struct conf_upstream *upstreams;
	size_t upstream_count;
	struct conf_limit *limits;
	size_t limit_count;
	struct conf_text_list query_keys; /* query parameters that any key names: secrets */
	const struct conf_key *plans_key; /* [plans] key; NULL without plans */
	enum conf_unknown unknown;        /* [plans] unknown */
	struct conf_plan *plans;
	size_t plan_count;
	const struct conf_plan *default_plan; /* [plan default]; NULL: no limits for the unlisted */
	struct conf_route *routes;            /* most specific first */
	size_t route_count;
	struct conf_hosts hosts;

	struct conf_warning *warnings; /* by line */
	size_t warning_count;

	/* conf/'s own */
	struct arena *arena; /* owns all of the above and this struct */
	const struct conf_source *source;
	atomic_uint *holders;
};

/* One error, for people: `file:line: what is wrong; what was expected`. */
struct conf_error {
	char *text;
	unsigned line; /* over all files (conf/lines.h); 0: the main file as a whole */
};

struct conf_errors {
	struct conf_error *items;
	size_t count;
	const struct conf_lines *lines; /* of the files read so far; NULL before and after */
	bool incomplete;                /* memory ran out: there may be more, and none in `items` */
};

/*
 * Reads and checks the file at `path`. Returns a snapshot held once, or NULL with at least one
 * error in `errors`, sorted by line, all of them unless `incomplete`. The caller frees the errors
 * with conf_errors_free in either case.
 */
struct conf *conf_load(const char *path, struct conf_errors *errors);
/* The same for a process that serves, which must not wait: only a regular file is read, no pipe. */
struct conf *conf_load_again(const char *path, struct conf_errors *errors);

/* Reads only [admin] (and `include`), for a client of a sluice that runs: the snapshot has defaults
 * for all else, and neither errors nor unset variables elsewhere matter. Returns as conf_load. */
struct conf *conf_load_admin(const char *path, struct conf_errors *errors);

/* The same from a text in memory; `name` stands for the file in messages. Relative file: paths are
 * taken from `folder`; when it is NULL, no
 * file is looked at and those named are taken to be empty; nor is a user looked up. */
struct conf *conf_parse(const char *text, size_t len, const char *name, const char *folder,
	struct conf_errors *errors);

void conf_errors_free(struct conf_errors *errors);

/* The line in which [sluice] sets `key`, for messages; 0 when the file does not set it. */
unsigned conf_line(const struct conf *conf, const char *key);

/* The file and the line in it that a `line` of the snapshot stands for. For "%s:%u". */
struct conf_place conf_place(const struct conf *conf, unsigned line);
#define CONF_PLACE_ARGS(conf, at) conf_place(conf, at).path, conf_place(conf, at).line

/* Holders are counted atomically; the last release frees the snapshot. Any thread. */
const struct conf *conf_hold(const struct conf *conf);
void conf_release(const struct conf *conf);

#endif
