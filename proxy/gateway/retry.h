/* When a gateway tries a request again that no server has seen. */
#ifndef GATEWAY_RETRY_H
#define GATEWAY_RETRY_H

#include <stdint.h>

/* A route may have so many (gateway_tries), the first included. */
#define RETRY_TRIES_MOST 10

/*
 * Milliseconds until the next of `tries`, when `failed` have failed; 0: there is none. One second,
 * then twice as long each time, each by up to a tenth more, so that the sockets of a server that
 * restarts do not return at once: `random` is any number.
 */
uint64_t retry_after_ms(unsigned failed, unsigned tries, uint64_t random);

#endif
