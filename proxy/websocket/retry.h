/* When a gateway tries a request again that no server has seen. */
#ifndef WEBSOCKET_RETRY_H
#define WEBSOCKET_RETRY_H

#include <stdint.h>

/* Tries of a request, the first included. */
#define RETRY_TRIES 3

/*
 * Milliseconds until the next try, when `failed` have failed; 0: there is none. One second, then
 * two, each by up to a tenth more, so that the sockets of a server that restarts do not return at
 * once: `random` is any number.
 */
uint64_t retry_after_ms(unsigned failed, uint64_t random);

#endif
