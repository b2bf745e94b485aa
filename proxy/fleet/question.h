/*
 * A worker's pending questions to the store, and its records of admitted requests. Private to the
 * fleet; all of it belongs to the worker's thread.
 *
 *   ask --> question, in a batch --> store --> answer --> reply to the exchange that waits
 *             `-- account: what was taken here and there <-- receipt, until it is settled
 */
#ifndef FLEET_QUESTION_H
#define FLEET_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/batch.h"
#include "fleet/batches.h"
#include "fleet/debts.h"
#include "fleet/hand.h"
#include "fleet/health.h"
#include "fleet/holds.h"
#include "fleet/lease.h"
#include "fleet/limit_facts.h"
#include "store/locks.h"
#include "fleet/members.h"
#include "fleet/owning.h"
#include "fleet/rule.h"
#include "fleet/relaxed.h"
#include "fleet/split.h"
#include "fleet/strict_list.h"
#include "fleet/rung.h"
#include "store/cluster_map.h"
#include "store/store_link.h"
#include "fleet/way.h"
#include "gate/authority.h"
#include "worker/worker.h"

struct fleet_worker;

/* One limit's part of an account. */
struct account_charge {
	struct throttle_key caller; /* as all nodes name it */
	struct rule rule;
	const char *limit;  /* its name, as long as the worker */
	uint64_t name_hash; /* of its name: limit_hash_name */
	uint64_t cost;
	uint64_t slot; /* of the charge at the store; 0: nothing is charged there */
	uint64_t delay_max_ns;
	struct hand *hand;        /* of lease: its caller's; NULL: none */
	struct hold *hold;        /* of exact, in flight: while asked for, and while slot is set */
	uint64_t epoch, taken_ns; /* slot's; epoch of lease */
	uint64_t since_us;     /* of lease: the store charged it at this time of its own or later */
	uint64_t bytes;        /* that have passed and are not charged yet */
	int local;             /* of the node's own limits: its place in `local`; else -1 */
	const struct way *way; /* of the fleet's limits; else NULL, as of those judged here */
	const struct way *here;          /* of a limit of the fleet that the node's table judges */
	uint64_t reserved;               /* of here: so much of the quota was not this node's */
	int64_t noted;                   /* of here: so much of the charge was noted */
	enum way_verdict said;           /* by the way */
	struct throttle_outcome outcome; /* unless it said WAY_ASK */
	/* Of the fleet's limits, by the ladder (ladder.h, own.h): */
	enum conf_store_down down;
	enum rung rung;
	uint64_t quota, share;          /* of the limit, and of this node */
	uint32_t number;                /* of the limit in the node's table, */
	struct throttle_key own_caller; /* and its caller there */
	int own;                        /* place in account.own; -1: it is not counted there */
	bool is_shared;                 /* rung_is_shared */
	bool is_owed;                   /* to the store, */
	struct debt_time owed;          /* since then */
	uint64_t late_ns;               /* of strict: an answer is not taken from then on; else 0 */
};

/* Is the store asked about it? */
static inline bool account_asks(const struct account_charge *charge)
{
	return charge->way && charge->said == WAY_ASK;
}

/* Its part of a batch. */
static inline struct batch_charge account_batch_charge(
	const struct account_charge *charge, uint64_t cost)
{
	return (struct batch_charge){&charge->rule, charge->limit, charge->caller, cost};
}

/* The charges of one request. A receipt names it by its address. */
struct account {
	struct account *next; /* while spare */
	struct fleet_worker *worker;
	/* Of the throttles, when it was asked about, and then when its answer came: what is done
	 * with it in one go is done at one time. */
	uint64_t now_ns;
	unsigned sites; /* that had come into force by then (limit_facts.h) */
	unsigned count; /* limits, in the order of gate_charges */
	bool refused;   /* by a limit that is decided on this node */
	bool is_away;   /* a limit can't be judged, as the store did not answer in time */
	struct account_charge charges[GATE_LIMITS_MAX];
	struct throttle_receipt local; /* of the node's table */
	struct throttle_receipt own;   /* of the same, for limits of the fleet */
};

struct question {
	struct question *next; /* in its batch; while spare */
	struct hash_link link; /* of fleet_worker.open */
	struct authority_reply reply;
	struct account *account;
	unsigned part;                 /* whose limits the store is asked about now */
	struct throttle_verdict local; /* the verdict of the node's own limits */
	uint64_t number;
	bool is_open; /* an exchange waits for it */
};

/* A call of the store's function on its way. */
struct fleet_batch {
	struct store_call call;
	struct fleet_batch *next; /* while filling or spare */
	struct fleet_worker *worker;
	struct question *first, **end; /* those that it asks, in this order */
	enum fleet_function function;
	bool is_late;             /* answered later than store_timeout */
	struct lease_part *parts; /* of FLEET_LEASE; LEASE_PARTS_MOST */
	unsigned part_count;
	struct batch batch;
};

/* Limits' names, kept for what goes back when its snapshot is gone. */
struct fleet_name {
	struct fleet_name *next;
	char text[];
};

/* A worker's unsent questions to one function: a batch for each part. */
struct filling {
	struct fleet_batch *first;
	struct fleet_batch *of[1 + SLOT_PARTS]; /* NULL: none */
};

/* A part of the store, as a worker has it. */
struct fleet_part_state {
	bool was_lost;    /* its connection, or it has not been found yet */
	bool knows_epoch; /* since it was connected */
};

/* Questions of a worker that the store has not answered; beyond them it is taken to be down. */
#define FLEET_PENDING_MOST 4096

struct fleet_worker {
	struct worker *worker;
	const struct batches_calls *calls;
	struct authority *authority;
	struct store_link store;
	char *prefix;      /* of the store's keys */
	uint64_t store_id; /* members_store_id */
	struct fleet_name *names;
	struct limits_known limits;
	struct period *periods; /* of calendars */
	struct holds holds;     /* what is in flight */
	/* The store's clock less this worker's of the throttles, when it last answered:
	 * microseconds */
	int64_t store_ahead_us;
	struct filling filling[FLEET_FUNCTIONS];
	struct fleet_batch *spare_batches[FLEET_FUNCTIONS];
	unsigned spare_count;
	struct leases leases;
	struct account *spare_accounts;
	struct question *spare_questions;
	struct hash_table open; /* questions, by their numbers */
	unsigned pending;
	bool is_linked;                                /* counted in node.store_links */
	bool was_ready;                                /* the store, when it last changed */
	struct fleet_part_state parts[1 + SLOT_PARTS]; /* the first alone, but of a cluster */
	bool is_paying, was_paid;   /* what is owed: it is on its way, and has not failed so far */
	struct deadline pay_more;   /* to pay what a turn did not */
	struct deadline look;       /* at the rungs, for the log */
	struct checking checking;   /* of the first worker */
	struct trouble_mark away;   /* its connection */
	bool has_warned;            /* of a call that the store refuses, since it was connected */
	struct joining joining;     /* of the first worker */
	struct splitting splitting; /* likewise */
	struct relaxing relaxing;
	struct strict_list strict; /* of the first worker */
	struct owning owning;      /* of sessions */
	unsigned memory_part;      /* of a cluster, last asked for its epoch alone */
	struct deadline silence;   /* of the store, while something is in flight */
	struct locks locks;
};

static inline struct fleet_worker *worker_fleet(const struct worker *worker)
{
	return worker->memory[PART_FLEET];
}

/* Of the worker that asks. */
struct fleet_worker *fleet_worker_of(const struct questions *questions);

/* The part of the store that a caller belongs to. */
static inline unsigned fleet_part_of(const struct fleet_worker *fleet, struct throttle_key caller)
{
	return fleet->store.cluster ? slot_part_of(caller) : 0;
}

/* Is the store asked about it now, with the others of its part? */
static inline bool question_asks(
	const struct question *question, const struct account_charge *charge)
{
	return account_asks(charge) &&
	       fleet_part_of(question->account->worker, charge->caller) == question->part;
}

/* Memory from the worker's spare. NULL without memory. */
struct account *account_new(struct fleet_worker *fleet);
void account_free(struct account *account);
struct question *question_new(struct fleet_worker *fleet);
void question_free(struct fleet_worker *fleet, struct question *question);
/* Frees all that is spare. */
void questions_clear(struct fleet_worker *fleet);

/* Open ones by their numbers. */
void question_add(struct fleet_worker *fleet, struct question *question);
/* Takes it out; NULL: there is none of this number. */
struct question *question_take(struct fleet_worker *fleet, uint64_t number);

/* The same text, as long as the worker; NULL without memory. */
const char *fleet_name_of(struct fleet_worker *fleet, const char *name);

#endif
