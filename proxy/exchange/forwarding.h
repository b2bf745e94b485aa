/*
 * The fields that report the client to a server: X-Forwarded-*, X-Real-IP, Forwarded (RFC 7239) and
 * Via.
 *
 * A connection's requests come from one peer and nearly always name one host, so the contents of
 * these fields stay the same: they are composed for the first request and kept with the connection,
 * in the form of the sink.
 */
#ifndef EXCHANGE_FORWARDING_H
#define EXCHANGE_FORWARDING_H

#include <stdint.h>

#include "http/field_sink.h"

struct exchange;

/* The text composed last on a connection, and its inputs. Zeroed: nothing yet. */
struct forwarding {
	char *text; /* the host it was for, then the fields; owned */
	uint32_t host_len, len;
	uint64_t site; /* serial */
	uint8_t major, minor, sink_major;
};

/* Puts the fields for the exchange's request, and keeps them when the request had none of these
 * itself. Without memory they are composed each time. */
void forwarding_put(
	struct field_sink *sink, struct forwarding *forwarding, const struct exchange *exchange);

void forwarding_clear(struct forwarding *forwarding);

#endif
