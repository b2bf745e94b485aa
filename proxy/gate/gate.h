/*
 * The gate: may this request be served now?
 *
 *   request --gate_identify--> plan, access lists, limits: the route's with the plan's among them,
 *                   |          each limit's caller: one hash a key expression
 *                   v
 *   gate_judge: deny: 403; allow: no limits; else libthrottle, all or nothing
 *                   |                                            `--> verdict + receipt
 *   at the end of the exchange: gate_finish(receipt) <---------------------------'
 *     settles the cost, refunds, releases concurrency, charges bytes
 *
 * A gate belongs to one snapshot and is immutable; the throttles live outside of it and outlive
 * it. Any thread may check. No allocation a request.
 */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "gate/identity.h"
#include "throttle/throttle.h"

/* Limits of one request: the route's and the plan's together. conf/check.c refuses more. */
#define GATE_LIMITS_MAX THROTTLE_MAX_CHARGES
_Static_assert(GATE_LIMITS_MAX <= 32, "the limits of a request are bits of its receipt");

enum gate_outcome {
	GATE_ADMIT,
	GATE_DELAY,  /* admitted from `delay_until_ns` on; nothing is taken yet: ask again then */
	GATE_REFUSE, /* 429 */
	GATE_DENY,   /* 403: on a deny list */
	GATE_AMBIGUOUS,   /* 400: the server may read another key than would be charged */
	GATE_NO_KEY,      /* 401: the route refuses unknown callers, and there is no key */
	GATE_UNKNOWN,     /* 403: nor has the key a plan */
	GATE_UNDECIDED,   /* 400: whether a condition holds could not be found out */
	GATE_UNAVAILABLE, /* 503: the authority over its limits could not judge */
};

struct authority; /* gate/authority.h */
struct authority_judgement;

/* A limit's outcome. */
struct gate_limit {
	const struct conf_limit *limit;
	uint64_t caller; /* whom it charges: `lo` of the throttle's key */
	uint64_t quota;
	uint64_t remaining; /* after this request */
	uint64_t reset_ms;  /* RateLimit's t: until more can be had when nothing remains or this
			       request did not fit, else until all of it is free again */
	bool violated;      /* also of a shadow limit */
	bool banned;
	bool overflow; /* judged with others, as the table was full */
};

/*
 * The charges, which must be settled once by gate_finish. Plain memory of the exchange's; all
 * zeroes: none. It points to no snapshot, so it outlives them; account is given to the authority
 * that it names, whatever a reload has put in force since.
 */
struct gate_receipt {
	struct authority *authority; /* that admitted; NULL: the table, by `throttle` */
	uint64_t account;            /* the authority's own name for what was taken */
	struct throttle_receipt throttle;
	uint32_t in_bytes;      /* bit i: the i-th held is charged by the byte */
	uint32_t by_cost;       /* bit i: it is charged the request's cost */
	uint32_t in_flight;     /* bit i: it is given back at the end */
	uint64_t bytes_charged; /* of this exchange, by gate_charge_bytes or gate_hold_bytes */
	bool holds_bytes;       /* by the second */
};

/* Makes it empty. Its previous contents are not read, so most of it need not be initialised. */
static inline void gate_receipt_clear(struct gate_receipt *receipt)
{
	receipt->authority = NULL;
	receipt->account = 0;
	receipt->throttle.count = 0;
	receipt->in_bytes = receipt->by_cost = receipt->in_flight = 0;
	receipt->bytes_charged = 0;
	receipt->holds_bytes = false;
}

struct gate_verdict {
	enum gate_outcome outcome;
	const struct conf_plan *plan; /* NULL: none */
	enum conf_lane lane;          /* high if the plan or the route sets it */
	uint32_t weight;              /* the plan's, else 1 */
	uint64_t retry_after_ms;      /* REFUSE: the exact wait, rounded up, at least 1;
					 UINT64_MAX: it will never fit. UNAVAILABLE */
	uint64_t delay_until_ns;      /* DELAY */
	unsigned limit_count;         /* 0: no limit applied */
	bool violated;                /* a limit that is enforced was violated: REFUSE or DELAY */
	bool shadowed;                /* a shadow limit was violated (and nothing came of it) */
	bool exempt;                  /* on the route's allow list, or by an override */
	bool overridden;              /* an override of this caller is in force */
	bool names_client;          /* the session's key found a value that distinguishes clients */
	struct throttle_key caller; /* hash of the first limit's key, else of the session's */
	struct throttle_key session;               /* hash of the session's key and the route */
	struct gate_limit limits[GATE_LIMITS_MAX]; /* the first limit_count are set */
};

struct gate;
struct roster;

/*
 * The limits of a snapshot as the library has them, in conf's order, for throttle_table_open and
 * throttle_table_apply. `guard_ns` is how far behind the true time a now_ns may be: the longest
 * loop turn. NULL with errno: ENOMEM, or ENAMETOOLONG with a limit's name over
 * THROTTLE_NAME_BYTES - 1 or a zone's over THROTTLE_ZONE_BYTES - 1. The caller frees it.
 */
struct throttle_limit *gate_throttle_limits(const struct conf *conf, uint64_t guard_ns);

/*
 * Compiles lists, plans and limits of `conf`, which must outlive the gate, over a table of
 * throttles, which is not owned. The table must have the snapshot's limits; they are found by name,
 * so a reload is: throttle_table_apply with the new limits, gate_new with the new snapshot, swap,
 * throttle_table_collect a loop turn later. Admitted requests still count. NULL with errno: ENOENT
 * when the table lacks a limit, ENOMEM.
 */
struct gate *gate_new(const struct conf *conf, struct throttle_table *throttles);

/* The operators' settings for single callers (gate/roster.h), which must outlive the gate. Before
 * the first request; NULL: there are none. False without memory. On the roster's thread. */
bool gate_use_roster(struct gate *gate, struct roster *roster);

/* Requests with this limit are judged by `authority`, in all their limits. Before the first
 * request. False: another authority has the limit, or one that applies together with it. */
bool gate_use_authority(
	struct gate *gate, const struct conf_limit *limit, struct authority *authority);

/* The value of WWW-Authenticate in a 401, by the key of plans. */
struct slice gate_challenge(const struct gate *gate);

/* The plan that the lists in the files give to a key; NULL: none. */
const struct conf_plan *gate_listed_plan(const struct gate *gate, struct slice key);
void gate_free(struct gate *gate);

struct limit_set;

/* Whom a request is charged to, and by which limits. Valid as long as its gate. */
struct gate_identity {
	const struct conf_plan *plan; /* NULL: none */
	const struct limit_set *set;
	struct authority *authority; /* over the set's limits; NULL: the table, by gate_judge */
	uint8_t access;              /* enum access_verdict */
	uint8_t stranger; /* enum gate_outcome: GATE_NO_KEY or GATE_UNKNOWN; GATE_ADMIT: served */
	bool overridden;
	bool revoked;   /* an operator revoked its key: refused, whatever else applies */
	bool leased;    /* the authority may admit it by what nodes lease: authority_calls.admit */
	bool ambiguous; /* the server may read another key */
	bool undecided; /* a match of it was too costly, or had too long a value */
	bool names_client; /* the session's key found a value that distinguishes clients */
	struct throttle_key hashes[GATE_LIMITS_MAX + 1]; /* of the set's key expressions */
	/* With an authority: the caller of each limit of the fleet, by a seed that all nodes have.
	 * Those of other limits are not set. */
	struct throttle_key shared[GATE_LIMITS_MAX];
};

/* The session of a request on a route, as all nodes of the fleet name it. */
struct throttle_key gate_shared_session(
	const struct gate *gate, const struct conf_route *route, struct identity_input *input);

/* The kind of the judged object. */
enum gate_kind {
	GATE_REQUEST,   /* by the route's limits */
	GATE_HANDSHAKE, /* of a WebSocket that is read: by these and max_sockets, until it ends */
	GATE_MESSAGE,   /* of such a WebSocket: by message_limits, and it costs 1 */
	GATE_KINDS,
};

struct match_table;

/* The matches of the gate's snapshot. */
const struct match_table *gate_matches(const struct gate *gate);

/* Does gate_identify look at identity_input.now_s? Any thread. */
bool gate_needs_time(const struct gate *gate);

/* The first step: evaluates each key expression once, finds the plan, and looks the lists up.
 * What is no request comes to routes only that read their WebSockets; a message is identified by
 * its handshake. */
void gate_identify_as(const struct gate *gate, const struct conf_route *route, enum gate_kind kind,
	struct identity_input *input, struct gate_identity *identity);

/* Of a request. */
static inline void gate_identify(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, struct gate_identity *identity)
{
	gate_identify_as(gate, route, GATE_REQUEST, input, identity);
}

/*
 * The second step: judges the request. Fills `verdict`, of whose limits only the first limit_count;
 * with GATE_ADMIT `receipt` is what was taken, else it is empty. `now_ns` is the library's time
 * (throttle/throttle.h). `waited_ns` is how long it was delayed already, 0 the first time: it
 * counts against the limits' longest delay. One that has waited and is refused again counts for no
 * ban and for no `count_refused`. `ahead`: the costs of those that wait for each limit already, of
 * which one that comes now waits for the end; NULL: nobody waits, or it is one of them.
 */
void gate_judge(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, const uint64_t *ahead, uint64_t now_ns,
	uint64_t waited_ns, struct gate_verdict *verdict, struct gate_receipt *receipt);

/*
 * The same in two steps, for limits that an authority judges. gate_begin determines all but their
 * effect: `verdict` has the session, lane and plan; `receipt` is empty. True: they must be asked;
 * false: the verdict is final. gate_conclude completes the verdict by what the authority has
 * judged; with GATE_ADMIT `receipt` names it. Of what is `ahead` of it, a ring's part of a
 * window is left out.
 */
bool gate_begin(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, struct gate_verdict *verdict,
	struct gate_receipt *receipt);
void gate_conclude(const struct gate_identity *identity,
	const struct authority_judgement *judgement, const uint64_t *ahead, uint64_t now_ns,
	uint64_t waited_ns, struct gate_verdict *verdict, struct gate_receipt *receipt);

/* It could not judge. */
void gate_conclude_unavailable(uint64_t retry_after_ms, struct gate_verdict *verdict);

/*
 * May it wait behind one that a limit delays? Then a charge must be of the time when it is
 * forwarded: what waits long after it was charged arrives in another window than it was charged in.
 * So it is charged when its turn has come. True for all of a route where a limit of any kind or
 * plan delays, or WebSocket messages that are over a limit wait. Not for limits that an authority
 * judges.
 */
bool gate_judges_at_turn(const struct gate_identity *identity);

/* The request to the limits: by the table's numbers, the caller and the cost of each. Returns how
 * many. */
unsigned gate_charges(const struct gate_identity *identity,
	struct throttle_charge charges[static GATE_LIMITS_MAX]);

/* What a verdict that delays waits for longest: the charge of that limit. False: no limit was
 * violated. */
bool gate_waits_for(const struct gate_identity *identity, const struct gate_verdict *verdict,
	struct throttle_charge *charge);

/* The i-th of these limits. Valid as long as the identity's gate. */
const struct conf_limit *gate_limit_at(const struct gate_identity *identity, unsigned i);

/* The verdict that gate_judge would give now; takes nothing and counts no refusal. */
void gate_explain(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, uint64_t now_ns, struct gate_verdict *verdict);

/* Both steps at once. */
void gate_check(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt);

/* How an exchange ended. */
struct gate_end {
	unsigned status;      /* the upstream's; 0: it gave no response */
	bool never_forwarded; /* not a byte went upstream: all is given back */
	bool has_cost;        /* the response's cost field (route->cost_field) held a number */
	uint64_t cost;
	uint64_t bytes; /* bodies, both ways, as they passed: all of them, including those reported
			   by gate_charge_bytes */
};

/* Charges limits in bytes while an exchange continues; `bytes` is the total so far. Never refuses:
 * what is too much is a debt that the caller's next requests wait for. */
void gate_charge_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns);

/* Charges limits in bytes what a message has that was just admitted, before anything behind it is
 * judged. Nothing of it has left: what gives the admission back gives the bytes back, too. Does
 * nothing for an authority. */
void gate_hold_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns);

/* Gives account of an admitted exchange, whichever way it ended: refunds by route->refund, settles
 * the cost, charges bytes (also of what is refunded), releases concurrency. The receipt is empty
 * then; to finish an empty one does nothing. `gate` and `route` may be of a newer snapshot than the
 * check's. `now_ns` is not looked at where an authority has judged. */
void gate_finish(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns);

/* Are requests whose response has this status given back? */
static inline bool gate_is_refunded(const struct conf_route *route, unsigned status)
{
	return route->refund.any && status - 100 < 1000 &&
	       (route->refund.bits[(status - 100) / 8] >> (status - 100) % 8 & 1);
}

/* Is nothing of what was taken to be given back or charged? Of a request that was forwarded and
 * got a response with this status, which names no cost. */
static inline bool gate_keeps_all(
	const struct conf_route *route, const struct gate_receipt *receipt, unsigned status)
{
	return (receipt->in_flight | receipt->in_bytes) == 0 && !receipt->authority &&
	       !gate_is_refunded(route, status);
}

/* Was anything taken? */
static inline bool gate_receipt_is_empty(const struct gate_receipt *receipt)
{
	return receipt->throttle.count == 0 && !receipt->authority;
}

/* The same without the time, which most requests do not need: true when nothing is to be given
 * back or charged, and the receipt is empty then. False: nothing is done, call gate_finish. */
bool gate_finish_plain(
	const struct conf_route *route, struct gate_receipt *receipt, const struct gate_end *end);

/* The number in the table of a limit of the gate's snapshot. Any thread. */
uint32_t gate_limit_number(const struct gate *gate, const struct conf_limit *limit);

/* The hash by which limits find a caller whose key is this text (identity_hash_text), and the
 * limit's number in the table: for explain and reset. False when the text can't be one's key. */
bool gate_find_caller(const struct gate *gate, const struct conf_limit *limit, struct slice text,
	struct throttle_key *caller, uint32_t *number);

/* The same of a limit of the fleet, as all nodes name the caller. */
bool gate_find_shared_caller(const struct gate *gate, const struct conf_limit *limit,
	struct slice text, struct throttle_key *caller);

#endif
