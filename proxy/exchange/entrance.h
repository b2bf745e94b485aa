/*
 * What a listener answers before any route, limit or queue, because of how the request has come:
 *
 *   GET /.well-known/acme-challenge/NAME               200, the file NAME of acme_challenge (RFC
 * 8555 section 8.3) http with redirect = https                         308, the same URL under
 * https https, and the certificate is not the host's       421 (RFC 9110 section 7.4)
 *
 * A request that another node has forwarded was seen by that node's listener.
 */
#ifndef EXCHANGE_ENTRANCE_H
#define EXCHANGE_ENTRANCE_H

#include <stdbool.h>

#include "exchange/exchange.h"

static inline bool entrance_may_answer(
	const struct exchange *exchange, const struct conf_listener *listener)
{
	return listener->redirect_port != 0 || listener->acme_challenge || exchange->client->tls;
}

/* False: the request passes. */
bool entrance_answered(struct exchange *exchange);

#endif
