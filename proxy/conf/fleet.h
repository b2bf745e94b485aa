/*
 * [fleet] and [semaphore NAME]: what the nodes of a fleet share. Of a snapshot (conf.h).
 */
#ifndef CONF_FLEET_H
#define CONF_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limit.h"
#include "conf/terms.h"

#define CONF_NODE_BYTES 65 /* of a node's name, with its NUL */

/* Redis, its Sentinels or nodes of a cluster: redis://user:password@host:port/database, or several
 */
struct conf_store {
	const char *text;               /* where, as written; NULL: none */
	struct conf_address *addresses; /* INET or NAME */
	size_t count;
	const char *user, *password; /* NULL: none */
	uint32_t database;
	bool has_tls; /* rediss:// */
};

/* RabbitMQ: amqp://user:password@host:port/vhost */
struct conf_broker {
	struct conf_address address; /* INET or NAME */
	const char *user, *password; /* NULL: none */
	const char *vhost;
	bool has_tls; /* amqps:// */
};

/* Slots that a broker keeps for all nodes. */
struct conf_semaphore {
	const char *name;
	unsigned line;
	struct conf_broker broker;
	const char *password; /* from a file; NULL: the broker's */
	struct conf_tls tls;  /* of the broker, if it has TLS */
	uint32_t size;        /* slots that are made */
	uint32_t nodes; /* that divide them while the broker is away, each counted once for each
			 * of its upstreams with this semaphore; 0: as were seen */
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
	struct conf_tls tls;       /* of the store, if it has TLS */
	const char *sentinel;      /* name of the primary at the Sentinels; NULL: none */
	const char *sentinel_user; /* NULL: none */
	const char *sentinel_password;
	const char *prefix;           /* of the store's keys, "sluice" */
	const char *node;             /* this one's name; NULL: the machine's and a random part */
	uint64_t membership_lease_ms; /* 5s */
	bool store_required;          /* not ready while the store is away */
	bool cluster;                 /* the stores are nodes of a Redis Cluster */
	uint64_t store_timeout_ms;    /* 100 */
	uint64_t publish_interval_ms; /* of limits with fleet = relaxed, 500 */
	uint32_t store_quorum;        /* replicas that must have what was counted, 0 */
	enum conf_store_down store_down;
	uint32_t nodes;            /* there are at most so many; 0: those that are there count */
	uint64_t lost_share_ms;    /* strict: a lost node's share is left to it, 1h */
	struct conf_address *bind; /* for other nodes; NULL: none */
	struct conf_secret secret; /* that nodes prove to each other to have */
	/* Connections between nodes, in both roles: TLS 1.3 with a certificate, else plain */
	struct conf_tls links;
	uint64_t lease_ms;     /* of what a node owns, 10s */
	uint32_t max_sessions; /* whose owner a node knows, 100,000 */
};

#endif
