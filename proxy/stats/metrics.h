/*
 * The table of metrics: what each counter and histogram is called, counts and means. Names, labels
 * and help are here once; what is exported and documented is read from this table.
 *
 * Every scope has rows, one a route, a limit and so on (STATS_NODE has one), and a row is an array
 * of slots: one a counter and label value, or several a histogram.
 */
#ifndef STATS_METRICS_H
#define STATS_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* The subject of a row; its name is the label of that name. */
enum stats_scope {
	STATS_NODE, /* this process: no label */
	STATS_ROUTE,
	STATS_LIMIT,
	STATS_PLAN,
	STATS_UPSTREAM,
	STATS_SCOPES,
};

enum stats_verdict {
	STATS_ADMIT,
	STATS_REFUSE,
	STATS_DENY,
	STATS_DELAY,     /* admitted after waiting for its limit */
	STATS_UNLIMITED, /* no limit judged it */
	STATS_VERDICTS,
};

/* 0: the exchange ended without a response; else the first digit of the status. */
#define STATS_STATUS_CLASSES 6

enum stats_limit_verdict {
	STATS_LIMIT_ADMITTED,
	STATS_LIMIT_REFUSED,
	STATS_LIMIT_DELAYED,
	STATS_LIMIT_SHADOW_REFUSED,
	STATS_LIMIT_VERDICTS,
};

/* A histogram's slots: a bucket for each bound, one above the last, the sum in nanoseconds. */
#define STATS_BOUNDS          18
#define STATS_HISTOGRAM_SLOTS (STATS_BOUNDS + 2)

/* The result of a message to a WebSocket's client that its server did not send. */
enum stats_send_result {
	STATS_SEND_WRITTEN,
	STATS_SEND_DROPPED,
	STATS_SEND_GONE,
	STATS_SEND_RESULTS,
};

/* Slots of STATS_NODE's row. */
enum {
	STATS_CONNECTIONS,
	STATS_GAVE_WAY,
	STATS_HANDSHAKES, /* by their end, in the order of metrics.c: */
	STATS_HANDSHAKES_DONE = STATS_HANDSHAKES,
	STATS_HANDSHAKES_FAILED,
	STATS_HANDSHAKES_LATE,
	STATS_HANDSHAKES_DISPLACED,
	STATS_PROXY_HEADERS, /* by their end, in the order of metrics.c: */
	STATS_PROXY_HEADERS_READ = STATS_PROXY_HEADERS,
	STATS_PROXY_HEADERS_MISSING,
	STATS_PROXY_HEADERS_MALFORMED,
	STATS_PROXY_HEADERS_UNTRUSTED,
	STATS_PROXY_HEADERS_LATE,
	STATS_PROXY_HEADERS_DISPLACED,
	STATS_SPARED,
	STATS_MALFORMED,
	STATS_CLIENT_GONE,
	STATS_SHED,
	STATS_RETRIES,
	STATS_SLOW_REQUEST, /* in this order: the values of one label */
	STATS_SLOW_RESPONSE,
	STATS_STORE_QUESTIONS,
	STATS_STORE_CALLS,
	STATS_STORE_UNANSWERED,
	STATS_STORE_LEASED,
	STATS_LEASE_TAKEN,
	STATS_LEASE_REFUSED,
	STATS_RELAXED_PUBLISHED,
	STATS_STORE_MOVED,
	STATS_STORE_ASK,
	STATS_STORE_LATER,
	STATS_STORE_CLUSTER_DOWN,
	STATS_CONNECTIONS_HTTP2,
	STATS_REQUESTS_HTTP2,
	STATS_HTTP2_FLOODS,
	STATS_NODE_SLOTS,
};

/* Slots of a route's row. */
enum {
	STATS_REQUESTS, /* by status class, then verdict */
	STATS_RECEIVED_BYTES = STATS_REQUESTS + STATS_STATUS_CLASSES * STATS_VERDICTS,
	STATS_SENT_BYTES,
	STATS_REQUEST_DURATION,
	STATS_QUEUE_WAIT = STATS_REQUEST_DURATION + STATS_HISTOGRAM_SLOTS,
	STATS_UPSTREAM_DURATION = STATS_QUEUE_WAIT + STATS_HISTOGRAM_SLOTS,
	STATS_SOCKETS_OPENED = STATS_UPSTREAM_DURATION + STATS_HISTOGRAM_SLOTS,
	STATS_SOCKETS_CLOSED,
	STATS_SOCKETS_SLOW,
	STATS_SENDS, /* by result, as websocket/send_queue.h has them */
	STATS_MESSAGES = STATS_SENDS + STATS_SEND_RESULTS, /* of clients, by verdict */
	STATS_SERVER_MESSAGES = STATS_MESSAGES + STATS_VERDICTS,
	STATS_CLIENT_MESSAGE_BYTES, /* in this order: the values of one label */
	STATS_SERVER_MESSAGE_BYTES,
	STATS_MESSAGE_DURATION,
	STATS_ROUTE_SLOTS = STATS_MESSAGE_DURATION + STATS_HISTOGRAM_SLOTS,
};

/* Slots of a limit's row. */
enum { STATS_LIMIT_VERDICT, STATS_LIMIT_SLOTS = STATS_LIMIT_VERDICT + STATS_LIMIT_VERDICTS };

/* Slots of a plan's row. */
enum { STATS_PLAN_REQUESTS, STATS_PLAN_SLOTS = STATS_PLAN_REQUESTS + STATS_VERDICTS };

/* Slots of an upstream's row. */
enum { STATS_UPSTREAM_REQUESTS, STATS_UPSTREAM_FAILURES, STATS_UPSTREAM_SLOTS };

enum stats_type { STATS_COUNTER, STATS_HISTOGRAM };

struct stats_label {
	const char *name; /* NULL: none */
	const char *const *values;
	unsigned count;
};

#define STATS_LABELS 2

struct stats_metric {
	const char *name;
	enum stats_type type;
	enum stats_scope scope;
	unsigned slot; /* the first; labels[0] changes slowest */
	struct stats_label labels[STATS_LABELS];
	const char *help; /* one sentence */
};

extern const struct stats_metric stats_metrics[];
extern const size_t stats_metric_count;

/* Slots of one row of each scope. */
extern const unsigned stats_slots[STATS_SCOPES];

/* The same where the scope is known when this is compiled. */
static inline unsigned stats_slots_of(enum stats_scope scope)
{
	switch (scope) {
	case STATS_NODE:
		return STATS_NODE_SLOTS;
	case STATS_ROUTE:
		return STATS_ROUTE_SLOTS;
	case STATS_LIMIT:
		return STATS_LIMIT_SLOTS;
	case STATS_PLAN:
		return STATS_PLAN_SLOTS;
	case STATS_UPSTREAM:
		return STATS_UPSTREAM_SLOTS;
	case STATS_SCOPES:
		break;
	}
	return 0;
}

/* `route`, `limit`, ...; NULL for STATS_NODE. */
extern const char *const stats_scope_labels[STATS_SCOPES];

/* Upper bounds of a histogram's buckets, rising; the texts are the same in seconds. */
extern const uint64_t stats_bounds_ns[STATS_BOUNDS];
extern const char *const stats_bound_texts[STATS_BOUNDS];

/* [e]: how many bounds are below 2^e. No two lie between neighbouring powers of two. */
extern const uint8_t stats_bounds_below[64];

/* How many slots a metric has. */
unsigned stats_metric_slots(const struct stats_metric *metric);

#endif
