/*
 * The gate: may this request be served now?
 *
 *   request --> access lists --> plan --> limits: the route's, with the plan's in their place
 *                  | deny: 403             |  each limit's caller: one hash a key expression
 *                  `-- allow: no limits    v
 *                                    libthrottle, all or nothing --> verdict + receipt
 *                                                                       |
 *   at the end of the exchange: gate_finish(receipt) <------------------'
 *     settle the cost, refund, release concurrency, charge bytes
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
#include "gate/route.h"

/* Limits of one request: the route's and the plan's together. gate_new refuses more. */
#define GATE_LIMITS_MAX 16

enum gate_outcome {
	GATE_ADMIT,
	GATE_DELAY,  /* admitted from `delay_until_ns` on; nothing is taken yet: ask again then */
	GATE_REFUSE, /* 429 */
	GATE_DENY,   /* 403: on a deny list */
};

/* What a limit said. `index` in conf.limits tells metrics which. */
struct gate_limit {
	const struct conf_limit *limit;
	uint64_t remaining; /* after this request */
	uint64_t reset_ms;  /* until all of it, or the next of it, is free again: RateLimit's t */
	bool violated;
	bool banned;
};

/*
 * What was taken and must be given account of, once, by gate_finish. It is plain memory of the
 * exchange's; all zeroes stands for nothing. It holds no pointer into the snapshot.
 */
#define GATE_RECEIPT_WORDS (2 + 8 * GATE_LIMITS_MAX)
struct gate_receipt {
	uint32_t count; /* limits with something to give account of; 0: nothing to finish */
	uint64_t words[GATE_RECEIPT_WORDS];
};

struct gate_verdict {
	enum gate_outcome outcome;
	const struct conf_plan *plan; /* NULL: none */
	enum conf_lane lane;          /* the plan's, or the route's when it is higher */
	uint32_t weight;              /* the plan's, else 1 */
	uint64_t retry_after_ms;      /* REFUSE: the exact wait, rounded up; at least 1 */
	uint64_t delay_until_ns;      /* DELAY */
	unsigned limit_count;         /* 0: no limit applied */
	bool shadowed;                /* a shadow limit was violated (and nothing came of it) */
	struct identity caller;       /* hash of the first limit's key, else of the address */
	struct identity session; /* hash of the route's session key, domain: the route's name */
	char caller_text[IDENTITY_SHORT_BYTES];    /* the caller's hash for the log, no NUL */
	struct gate_limit limits[GATE_LIMITS_MAX]; /* the first limit_count are set */
};

struct gate;
struct throttle_table;

/* Compiles lists, plans and limits of `conf`, which must outlive the gate, over a table of
 * throttles, which is not owned. Limits are found again in the table by name, so a gate made for a
 * new snapshot goes on where that of the old one stands. NULL with errno: E2BIG when a route and a
 * plan together have more than GATE_LIMITS_MAX limits, ENOMEM. */
struct gate *gate_new(const struct conf *conf, struct throttle_table *throttles);
void gate_free(struct gate *gate);

/*
 * Judges one request on `route`. Fills all of `verdict`; with GATE_ADMIT `receipt` is set, else it
 * is zeroed. `now_ns` is the clock of throttle/throttle.h; `wait_ns` is how long it was delayed
 * already (0 the first time), counted against the limits' delay_max.
 */
void gate_check(const struct gate *gate, const struct conf_route *route,
	const struct identity_input *input, uint64_t now_ns, uint64_t wait_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt);

/* How an exchange ended. */
struct gate_end {
	unsigned status;      /* the upstream's; 0: it gave no response or was never asked */
	bool never_forwarded; /* the client left the queue, or no server was found: all is given
				 back */
	bool has_cost;        /* the response's cost field held a number */
	uint64_t cost;
	uint64_t request_bytes, response_bytes; /* bodies, as they passed */
};

/* Gives account of an admitted exchange, whichever way it ended, and zeroes the receipt. `gate` and
 * `route` may be of a newer snapshot than the check's. */
void gate_finish(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns);

#endif
