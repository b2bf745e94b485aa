/*
 * What is counted of a request or message (stats/): its verdict, and its end. A room that serves
 * them knows when; this one knows the counters.
 */
#ifndef RECORD_ACCOUNT_H
#define RECORD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/stats.h"

struct conf_route;
struct gate_verdict;
struct site;
struct worker;

/* The counts of a request or message at its end, except those of its verdict. */
struct account_end {
	uint64_t received_bytes, sent_bytes; /* of bodies */
	uint64_t began_ns, started_ns, queue_ns;
	uint16_t status;
	uint8_t verdict; /* enum stats_verdict */
	bool has_upstream_status;
};

/* A verdict, and the caller that it is about. */
struct judged {
	struct worker *worker;
	const struct site *site;
	const struct gate_verdict *verdict;
	const uint8_t *address; /* the caller's, 16 bytes */
};

/* The name under which a verdict is counted; NULL: nothing was judged. */
enum stats_verdict account_verdict_of(const struct gate_verdict *verdict, bool was_delayed);

/* Counts the verdict at the limits and at the plan. */
void account_verdict(const struct judged *judged, enum stats_verdict counts_as);
/* Its limits delay it. */
void account_delay(const struct judged *judged);

/* A request has ended. `route` may be NULL. */
void account_request(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end);
/* A message of a WebSocket has ended. */
void account_message(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end);

/* A server of the route's upstream has failed. */
void account_upstream_failure(
	struct worker *worker, const struct site *site, const struct conf_route *route);

#endif
