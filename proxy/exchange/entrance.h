/*
 * Requests that sluice answers itself, whatever their limits:
 *
 *   GET /.well-known/acme-challenge/NAME           200, the file NAME of acme_challenge
 *                                                  (RFC 8555 section 8.3)
 *   http with redirect = https                     308, the same URL under https
 *   https, and the certificate is not the host's   421 (RFC 9110 section 7.4)
 *   /healthz, /readyz with health = on             200, 503: for load balancers that can look only
 *                                                  where clients connect
 *   OPTIONS, TRACE with Max-Forwards: 0            200, 405 (RFC 9110 section 7.6.2)
 *
 * All but the last are answered before any route, limit or queue. A request that another node has
 * forwarded was seen by that node's listener.
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

/* Answers a probe and returns true; any other request passes. /healthz says that sluice runs,
 * /readyz that it takes new requests. */
bool probe_answered(struct exchange *exchange);

/*
 * An OPTIONS or TRACE with `Max-Forwards: 0` ends here: it is answered, and true returned. Another
 * number is decremented in the request's head; other values pass as they came, as does the
 * field of other methods.
 */
bool max_forwards_reached(struct exchange *exchange);

#endif
