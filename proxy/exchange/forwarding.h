/*
 * The fields that report the client to a server: X-Forwarded-*, X-Real-IP, Forwarded (RFC 7239) and
 * Via.
 *
 * A connection's requests come from one peer and nearly always name one host, so the contents of
 * these fields stay the same: the lines are composed for the first request and kept with the
 * connection.
 */
#ifndef EXCHANGE_FORWARDING_H
#define EXCHANGE_FORWARDING_H

#include <stdint.h>

#include "http/out.h"

struct exchange;

/* The text composed last on a connection, and its inputs. Zeroed: nothing yet. */
struct forwarding {
	char *text; /* the host it was for, then the lines; owned */
	uint32_t host_len, len;
	uint64_t site; /* serial */
	uint8_t minor;
};

/* Appends the lines for the exchange's request, each with its CRLF, and keeps them when the request
 * had none of these fields itself. Without memory they are composed each time. */
void forwarding_put(
	struct http_out *out, struct forwarding *forwarding, const struct exchange *exchange);

void forwarding_clear(struct forwarding *forwarding);

#endif
