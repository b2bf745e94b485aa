/* The events of a connection of hiredis on a loop's event base. */
#ifndef STORE_REDIS_EVENTS_H
#define STORE_REDIS_EVENTS_H

#include <event2/event.h>
#include <stdbool.h>

struct redisAsyncContext;

/* Watches it until hiredis frees it. What is sent is written when `redis_events_flush` says so, or
 * the socket takes more. False without memory. */
bool redis_events_attach(struct redisAsyncContext *redis, struct event_base *base);

/* Writes what was sent. The connection may be lost, and freed, by this. */
void redis_events_flush(struct redisAsyncContext *redis);

#endif
