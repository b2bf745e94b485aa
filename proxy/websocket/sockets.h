/* The WebSockets of a worker whose messages are read, and what they share. */
#ifndef WEBSOCKET_SOCKETS_H
#define WEBSOCKET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "websocket/frames.h"

struct websocket;

struct websockets {
	struct frame_pool frames;
	struct websocket *first;
	uint64_t count;
	uint64_t begun;      /* so far: names them */
	uint64_t random;     /* for times that are to differ; nobody's secret */
	bool is_handed_over; /* another process serves, and this one ends with its sockets */
};

/* NULL without memory or randomness. */
struct websockets *websockets_new(void);
/* There are none any more. NULL is ignored. */
void websockets_free(struct websockets *all);

/* Below `bound`, which is not 0. */
uint64_t websockets_random_below(struct websockets *all, uint64_t bound);

#endif
