/*
 * Reading a client's requests: the heads, one after another, each of which begins an exchange.
 *
 *   bytes -> [in] -> parser -> exchange -> the connection's list
 *
 * It stops where a body begins, and continues after it; where pipeline_depth exchanges are there;
 * and where replies of our own are composed faster than the client takes them.
 */
#ifndef HTTP1_READ_REQUESTS_H
#define HTTP1_READ_REQUESTS_H

#include <stdbool.h>

#include "http1/downstream_inside.h"

/* Composed but unsent: with as much of it no further request is read. */
#define READ_REQUESTS_REPLIES_BYTES (16 * 1024)

enum read_requests {
	READ_REQUESTS_PAUSED, /* there are no more now, or they may not begin */
	READ_REQUESTS_ENDED,  /* the client will send no more; what it asked for is still answered,
				 as  it may have closed only its half */
	READ_REQUESTS_RESET,  /* the connection failed */
	READ_REQUESTS_NO_MEMORY, /* it can't continue */
};

/* Reads heads and begins exchanges as long as there are any and they may begin. */
enum read_requests read_requests(struct downstream *downstream);

/* The head of `reading` is there, or as much as there will ever be of it: it takes its place in the
 * list. */
void read_requests_append(struct downstream *downstream);

/* A request whose head was read in part will never be one. */
void read_requests_discard_head(struct downstream *downstream);

static inline bool read_requests_are_stalled(const struct downstream *downstream)
{
	return buffer_used(&downstream->out.prefix) >= READ_REQUESTS_REPLIES_BYTES;
}

#endif
