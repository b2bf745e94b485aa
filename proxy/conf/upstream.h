/*
 * [upstream NAME]: servers, the bounds on what is in flight at them, and their health. Of a
 * snapshot (conf.h).
 */
#ifndef CONF_UPSTREAM_H
#define CONF_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/key.h"
#include "conf/terms.h"

enum conf_server_tls { CONF_SERVER_TLS_AS_UPSTREAM, CONF_SERVER_TLS_OFF, CONF_SERVER_TLS_ON };

struct conf_server {
	struct conf_address address;
	unsigned line;
	uint32_t weight;          /* 1 */
	uint32_t max_in_flight;   /* 0: no bound */
	uint32_t max_connections; /* 0: no bound */
	enum conf_server_tls tls;
	const char *tls_name; /* NULL: the upstream's */
};

enum conf_send_proxy { CONF_SEND_PROXY_OFF, CONF_SEND_PROXY_V1, CONF_SEND_PROXY_V2 };

enum conf_balance { CONF_BALANCE_ROUND_ROBIN, CONF_BALANCE_LEAST_IN_FLIGHT, CONF_BALANCE_HASH };

#define CONF_SERVERS_MAX    64 /* of an upstream */
#define CONF_IN_FLIGHT_AUTO UINT32_MAX

struct conf_semaphore;

/* The behaviour of an upstream while its semaphore's broker is unavailable. */
enum conf_semaphore_down { CONF_SEMAPHORE_DOWN_LOCAL, CONF_SEMAPHORE_DOWN_REFUSE };

/* pace = 50 per 1s; 0: none */
struct conf_pace {
	uint64_t amount, per_ns;
};

/* 0: no shedding; 100 */
struct conf_shed {
	uint64_t target_ms, interval_ms;
};

/* Options of an upstream that takes slots of a semaphore. */
struct conf_slot_use {
	uint64_t idle_ms; /* those not needed for so long are given back, 2s */
	enum conf_semaphore_down down;
};

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
	struct conf_slot_use slots;
	uint32_t max_streams; /* responses without end at once, 0: no bound */
	struct conf_pace pace;
	uint32_t quantum; /* 10..50, 10 */
	struct conf_shed shed;
	uint64_t connect_timeout_ms;    /* 5s */
	uint64_t send_timeout_ms;       /* between two writes of a request, 60s */
	uint64_t first_byte_timeout_ms; /* from the request's end to the response's first byte, 60s
					 */
	uint64_t idle_timeout_ms;       /* between two reads of a response, 60s */
	uint64_t tunnel_timeout_ms;     /* after a 101: neither side sends anything, 1h */
	uint64_t stream_timeout_ms;     /* idle_timeout of a response without end, 1h */
	struct conf_text_list stream_types; /* those besides text/event-stream */
	uint32_t keepalive; /* idle connections kept by a worker for a server at most, 100k; 0: none
			     */
	uint64_t keepalive_timeout_ms; /* 55s */
	uint32_t keepalive_requests;   /* requests on one connection, 0: no bound */
	uint64_t resolve_interval_ms;  /* names are looked up again, 30s */
	uint32_t max_fails;       /* failures in a row before a server is left out, 3; 0: never */
	uint64_t fail_timeout_ms; /* first interval it is left out; doubles, 1s */
	uint64_t fail_timeout_max_ms; /* 60s */
	uint32_t retries;             /* further tries on another server or a fresh connection, 2 */
	uint64_t lenient;            /* bits of enum http_lenient; 0: responses are read strictly */
	enum conf_protocol protocol; /* http/1.1 */
	const char *health_path;     /* NULL: no active health checks */
	const char *health_host;     /* Host of the probe; NULL: the server's address */
	uint64_t health_interval_ms; /* 5s */
	uint64_t health_timeout_ms;  /* 2s */
	bool health_shared;          /* one node of the fleet probes for all, off */
	enum conf_send_proxy send_proxy; /* each connection is one client's, for one request, off */
	struct conf_tls tls;
};

static inline bool conf_server_has_tls(
	const struct conf_upstream *upstream, const struct conf_server *server)
{
	return server->tls == CONF_SERVER_TLS_ON ||
	       (server->tls == CONF_SERVER_TLS_AS_UPSTREAM && upstream->tls.is_on);
}

/* The name that its certificate has to have; NULL: there is none (a unix socket). */
static inline const char *conf_server_tls_name(
	const struct conf_upstream *upstream, const struct conf_server *server)
{
	const char *name = server->tls_name ? server->tls_name : upstream->tls.name;

	return name || server->address.kind == CONF_ADDRESS_UNIX ? name : server->address.host;
}

#endif
