/*
 * The state of the store itself, to be displayed: where the primary is, how soon it answers, how
 * far its replicas are behind, and whether it may evict keys. The first worker asks it (INFO
 * replication memory) each time that it renews the node's membership; a reader on any thread sees
 * the store's last answer. Of a Redis Cluster one primary after the other is asked, and only about
 * eviction.
 */
#ifndef FLEET_HEALTH_H
#define FLEET_HEALTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_link.h"

#define HEALTH_REPLICAS      16 /* that are listed */
#define HEALTH_ADDRESS_BYTES 80
#define HEALTH_POLICY_BYTES  32

struct health_replica {
	char address[HEALTH_ADDRESS_BYTES]; /* host:port, as the primary knows it */
	bool is_online;
	uint64_t behind_bytes; /* of what the primary has written */
	uint64_t silent_s;     /* since the primary last received something of it */
};

struct health_sight {
	char primary[HEALTH_ADDRESS_BYTES]; /* host:port; "": none was received yet */
	uint64_t answered_ns;               /* monotonic */
	uint64_t round_trip_ns;
	unsigned connected; /* replicas, also those beyond the list */
	unsigned count;     /* in the list */
	struct health_replica replicas[HEALTH_REPLICAS];
	/* maxmemory-policy where maxmemory is set and the policy is another than noeviction: what
	 * was counted may vanish. "": it does not, or nothing is known. */
	char eviction[HEALTH_POLICY_BYTES];
};

/* Reads what INFO says into `sight`: connected, count, replicas and eviction. What it does not
 * know is passed over, as is a replica without an offset. */
void health_read(const char *text, size_t len, struct health_sight *sight);

/* The part that all threads of the process share. */
struct health {
	pthread_mutex_t lock;
	struct health_sight sight;
};

void health_init(struct health *health);
void health_end(struct health *health);
/* A copy. Any thread. */
void health_look(struct health *health, struct health_sight *sight);

/* The first worker's part: one question at a time. */
struct checking {
	struct health *health;
	struct store_link *store;
	struct store_call call;
	uint64_t asked_ns;
	bool is_asked;
	bool has_warned; /* of eviction, since the store was connected */
	unsigned clean;  /* answers in a row that know of no eviction */
};

/* `health` and `store` outlive it. */
void checking_init(struct checking *checking, struct health *health, struct store_link *store);
/* Asks the store, unless it has been asked and has not answered. A user who may not ask (INFO) has
 * no answer, and all else continues. */
void checking_ask(struct checking *checking);
/* The connection is another: what is wrong is worth a warning again. */
void checking_renew(struct checking *checking);

#endif
