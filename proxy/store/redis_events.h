/* The events of a connection of hiredis on a loop's event base. */
#ifndef STORE_REDIS_EVENTS_H
#define STORE_REDIS_EVENTS_H

#include <event2/event.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

struct redisAsyncContext;

/* Watches it until hiredis frees it. What is sent is written when `redis_events_flush` says so, or
 * the socket takes more. False without memory. */
bool redis_events_attach(struct redisAsyncContext *redis, struct event_base *base);

/* Writes what was sent. The connection may be lost, and freed, by this. */
void redis_events_flush(struct redisAsyncContext *redis);

/* ---- redis bounds --------------------------------------------------------------------------- */

/*
 * The bounds of a peer's replies. hiredis asserts that each reply has been asked for and that a
 * channel's messages have their form, and keeps whatever it is sent until a reply is whole. So a
 * reply that breaks one of these rules ends the connection before hiredis makes it:
 *
 *   - a command waits for it, or it is an error, which hiredis takes, or a message of a channel;
 *   - of a peer that has been subscribed to, it is no array, or two or three elements, no arrays,
 *     of which the first two are strings, and the first does not end a subscription;
 *   - it has at most REDIS_ELEMENTS_MOST elements, those of arrays within it included;
 *   - while it is incomplete, at most REDIS_BYTES_MOST of it wait.
 */

#define REDIS_ELEMENTS_MOST ((size_t)1 << 20) /* a map of a cluster has up to 16,384 ranges */
#define REDIS_BYTES_MOST    ((size_t)16 << 20)

struct redis_bounds {
	struct redisAsyncContext *redis;
	struct redisReplyObjectFunctions *plain; /* hiredis's */
	struct redisReplyObjectFunctions own;    /* around them */
	size_t elements;                         /* of this reply */
	const char *refused;                     /* why; NULL: nothing was */
};

/* Holds a connection of hiredis to them, until redis_bounds_release. `bounds` stays at its place.
 */
void redis_bounds_hold(struct redis_bounds *bounds, struct redisAsyncContext *redis);

/* Before the connection is freed. Its error then says what was refused, where hiredis means a lack
 * of memory. */
void redis_bounds_release(struct redis_bounds *bounds);

/* Does more of a reply wait than may? hiredis must then read no more. */
bool redis_bounds_is_full(const struct redis_bounds *bounds);

#endif
