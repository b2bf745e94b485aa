/* An exchange's answer of our own (exchange/reply.c). */
#ifndef EXCHANGE_REPLY_H
#define EXCHANGE_REPLY_H

#include <stdint.h>

struct exchange;

/* Answers by ourselves. `why` for the log; retry_after_ms or HTTP_PROBLEM_NO_RETRY. */
void exchange_reply(
	struct exchange *exchange, unsigned status, const char *why, uint64_t retry_after_ms);

/* Malformed beyond hope: answer and close. */
void exchange_reject(struct exchange *exchange, unsigned status, const char *why)
	__attribute__((cold));

/* In EXCHANGE_REPLYING: throws the request's body away as it comes. */
void reply_discard_body(struct exchange *exchange);

/* Sends it when the exchange is the first on its connection and its request is read. */
void reply_if_first(struct exchange *exchange);

#endif
