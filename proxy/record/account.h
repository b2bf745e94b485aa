/*
 * The counts of an exchange (stats/): once, when it has ended; and what happened on its way that
 * its end does not show.
 */
#ifndef RECORD_ACCOUNT_H
#define RECORD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct conf_route;
struct exchange;
struct site;
struct worker;

/* Its counts at its end, except its verdict. */
struct account_end {
	uint64_t received_bytes, sent_bytes; /* of bodies */
	uint64_t began_ns, started_ns, queue_ns;
	uint16_t status;
	uint8_t verdict; /* enum stats_verdict */
	bool has_upstream_status;
};

/* It has ended. */
void account_exchange(const struct exchange *exchange);

/* It continues without its request, for long perhaps: its verdict is counted now, and what is
 * returned when it is over, by account_kept. */
struct account_end account_keep(const struct exchange *exchange);
void account_kept(struct worker *worker, const struct site *site, const struct conf_route *route,
	const struct account_end *end);

/* Its limits make it wait. */
void account_delay(const struct exchange *exchange);

/* Its server has sent a final response, or switched protocols. */
void account_server_response(const struct exchange *exchange);

/* A server of its upstream failed it. */
void account_upstream_failure(const struct exchange *exchange);

#endif
