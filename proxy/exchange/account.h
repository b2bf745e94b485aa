/*
 * What an exchange adds to the counters (stats/): once, when it has ended; and what happened on its
 * way that its end does not show.
 */
#ifndef EXCHANGE_ACCOUNT_H
#define EXCHANGE_ACCOUNT_H

#include <stdint.h>

struct exchange;

/* It has ended. */
void account_exchange(const struct exchange *exchange);

/* Something of a connection that has switched: `slot` of its route's row (stats/metrics.h). */
void account_socket(const struct exchange *handshake, unsigned slot, uint64_t count);

/* Its limits make it wait. */
void account_delay(const struct exchange *exchange);

/* A server of its upstream failed it. */
void account_upstream_failure(const struct exchange *exchange);

#endif
