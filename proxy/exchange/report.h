/*
 * What is recorded of an exchange (record/): its line and its counts when it has ended, and before
 * that what its end does not show.
 */
#ifndef EXCHANGE_REPORT_H
#define EXCHANGE_REPORT_H

#include "record/access.h"
#include "record/account.h"

struct exchange;

/* It has ended: counts it and writes its line. */
void report_end(const struct exchange *exchange);

/* Writes its line as it is now, unless it is a message whose route logs none. */
void report_line(const struct exchange *exchange);

/* It continues without its request, perhaps for long: counts its verdict now. Returns what is
 * counted when it is over (account_request). */
struct account_end report_keep_end(const struct exchange *exchange);
/* And the request's part of its line (access_log_kept). NULL without memory. */
struct access_kept *report_keep_line(const struct exchange *exchange);

/* Its limits make it wait. */
void report_delay(const struct exchange *exchange);
/* Its server has sent a final response, or switched protocols. */
void report_response(const struct exchange *exchange);
/* A server of its upstream failed it. */
void report_failure(const struct exchange *exchange);

#endif
