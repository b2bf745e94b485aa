/*
 * What a server has not accepted of the messages that it got: an answer with Content-Bytes-Accepted
 * takes so many bytes of the content of its request's events, and the rest comes again, in front of
 * the next events (Pushpin, "WebSocket-Over-HTTP Protocol").
 *
 *   [TEXT abc][TEXT de] --> Content-Bytes-Accepted: 2
 *   [TEXT c][TEXT de][TEXT f], Content-Bytes-Replayed: 3 --> all
 *
 * An empty message behind the last accepted byte is in the rest; where all bytes are accepted, so
 * is every message. The messages were judged, charged and counted when they were sent first. The
 * rest waits for the next message, a request that keeps the socket alive, or its end; DISCONNECT
 * has nothing with it.
 */
#ifndef GATEWAY_GATEWAY_REPLAY_H
#define GATEWAY_GATEWAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define REPLAY_ACCEPTS_ALL UINT64_MAX

/* Of a gateway. All zero before the first answer. */
struct gateway_replay {
	uint64_t accepted; /* by the answer that is being read, or REPLAY_ACCEPTS_ALL */
	char *events;      /* that are to come again, owned; NULL: none */
	size_t bytes;
	uint64_t content; /* bytes of their content */
	uint64_t sent;    /* the same in the request under way */
};

/* The field's value in the answer that is being read; one that is no number is ignored. */
void replay_accept(struct gateway_replay *replay, struct slice value);

/* The answer to a request with these events is here: keeps what it leaves. NULL, or a constant with
 * what is wrong: it accepts more than there was, leaves more than `most` bytes of content, or there
 * is no memory. */
const char *replay_keep(struct gateway_replay *replay, struct slice events, uint64_t most);

/* Puts what is kept before the events of a request, which are `*length` bytes of memory of their
 * own. False: no memory, and nothing has changed. */
bool replay_put(struct gateway_replay *replay, char **events, uint64_t *length);

void replay_clear(struct gateway_replay *replay);

/* ---- retry ---------------------------------------------------------------------------------- */

/* When a gateway tries a request again that no server has seen. */

/* A route may have so many (gateway_tries), the first included. */
#define RETRY_TRIES_MOST 10

/*
 * Milliseconds until the next of `tries`, when `failed` have failed; 0: there is none. One second,
 * then twice as long each time, each by up to a tenth more, so that the sockets of a server that
 * restarts do not return at once: `random` is any number.
 */
uint64_t retry_after_ms(unsigned failed, unsigned tries, uint64_t random);

#endif
