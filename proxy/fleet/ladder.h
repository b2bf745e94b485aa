/*
 * A node's state of the store for the rungs of its limits (rung.h), and the rung of each limit. One
 * for all workers; private to the fleet, but for ladder_look.
 *
 *   link of each worker --ladder_lost, ladder_back--+
 *   answers of the store --ladder_learn-------------+--> facts --> ladder_climb: each request
 *   membership --standing.h-------------------------+         `--> ladder_look: admin; ladder_note:
 * log
 */
#ifndef FLEET_LADDER_H
#define FLEET_LADDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/debts.h"
#include "fleet/rung.h"
#include "store/cluster_map.h"
#include "fleet/way.h"

struct account;
struct account_charge;
struct authority;
struct conf;
struct conf_limit;
struct fleet_worker;
struct node;

#define LADDER_TEXT_BYTES 512
#define LADDER_SHARED     4096

/* Eight times the weight of one answer. */
#define LADDER_LATENESS_MOST 256

/* Of a part of the store (cluster_map.h); relaxed: numbers that stand alone. */
struct ladder_part {
	_Atomic uint64_t back_ms;   /* the last return of any worker's connection; 0: none */
	_Atomic uint64_t forgot_ms; /* as rung_facts has it; 0: it has not */
	_Atomic uint64_t young_ms;  /* as rung_facts has it */
	_Atomic unsigned lateness;  /* of its last answers, 0 to LADDER_LATENESS_MOST */
};

struct ladder {
	struct ladder_part parts[1 + SLOT_PARTS]; /* the first alone, but of a cluster */
	_Atomic unsigned nodes;                   /* that divide a limit; 0: unknown (members.h) */
	/* When callers with store_down = local had to keep to the share last, by a part of their
	 * keys, and any of them; relaxed. Callers that have a place together are taken for one. */
	_Atomic uint64_t shared_ms[LADDER_SHARED], any_shared_ms;
	struct debts debts;
	struct strict strict; /* of store_down = strict */
	pthread_mutex_t lock; /* of what follows */
	char seen[LADDER_TEXT_BYTES], said[LADDER_TEXT_BYTES];
};

/* False: the system gives no random bytes. To be ended all the same. */
bool ladder_init(struct ladder *ladder);
void ladder_end(struct ladder *ladder);

/* What a part of the store said of its memory: of an epoch that is odd (epoch.lua), that it has
 * lost it; of another that began less than two leases ago, that it may have. Times of the store. */
struct ladder_memory {
	uint64_t epoch, store_us, lease_ms;
};
/* `now_ms` is the loop's. Any thread. True: rungs have changed by that. */
bool ladder_learn(
	struct ladder *ladder, unsigned part, const struct ladder_memory *memory, uint64_t now_ms);
/* A part of the store has answered a call, later than store_timeout or in time. One that answers in
 * time again has come back (ladder_back): what shares admitted is not charged yet. Any thread.
 * True: rungs have changed by that. */
bool ladder_time(struct ladder *ladder, unsigned part, bool is_late, uint64_t now_ms);
/* A worker has found a part of the store again. */
void ladder_back(struct ladder *ladder, unsigned part, uint64_t now_ms);

/* The share of a limit with store_down = local has judged this caller, or an answer about it was
 * late, so that other nodes' shares may admit it: for a window it keeps to this node's share. True:
 * no caller had to for some time, so that rungs have changed by that. */
bool ladder_share(struct ladder *ladder, struct throttle_key caller, uint64_t now_ms);
/* The same now, on the worker's thread; the log reports rungs that have changed. */
void ladder_keep_to_share(struct fleet_worker *fleet, struct throttle_key caller);

/* The behaviour of a limit of the fleet without the store: its own word, or that of [fleet]; the
 * default of a limit that shares cannot divide is to refuse. */
enum conf_store_down ladder_down(const struct conf *conf, const struct conf_limit *limit);
/* Has the site a limit with store_down = strict? */
bool ladder_has_strict(const struct conf *conf);
/* Does its rung say anything? A limit with fleet = split has its shares instead. */
bool ladder_has(const struct conf_limit *limit);

/* Sets the rungs of the account's charges, and their shares. `may_ask`: as far as this worker can
 * ask the store, it may; else none of it is there. */
void ladder_climb(struct account *account, bool may_ask);
/* The same of a charge that the store is not asked about one by one, and may answer late.
 * `has_store`: its store answers. */
void ladder_climb_one(struct account *account, struct account_charge *charge, bool has_store);

/* With store_down = strict: has this part of the store lost its memory, less than a window and the
 * tail ago? Then nothing that it admits counts. */
bool ladder_lacks_memory(const struct fleet_worker *fleet, struct throttle_key caller,
	const struct rule *rule, enum fleet_function function);

/* Is each of its charges on the first rung, as long as the store is heard? Not of store_down =
 * strict, whose quota depends on the other nodes. Sets nothing. */
bool ladder_is_first(const struct account *account);

/* One limit, as it is now on this node; of a cluster, for callers of the part that is worst off. */
struct ladder_sight {
	enum conf_store_down down;
	enum rung rung;
	unsigned nodes; /* that divide it; 0: unknown */
};
struct ladder_sight ladder_look(const struct authority *authority, const struct node *node,
	const struct conf *conf, const struct conf_limit *limit, uint64_t now_ms);

/* Writes to the log which limits are on which rung, once when that has changed: when two looks have
 * found the same. False: it need not be looked at again until a connection changes. */
bool ladder_note(struct authority *authority, const struct node *node, const struct conf *conf,
	uint64_t now_ms);

#endif
