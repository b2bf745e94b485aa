/*
 * The events since the previous look, as the JSON of GET /api/v1/events: counts by route and limit,
 * and how queues and servers are now.
 */
#ifndef ADMIN_LAST_SECOND_H
#define ADMIN_LAST_SECOND_H

#include <jansson.h>

struct last_second;
struct daemon;

/* Counts from now on. NULL without memory. */
struct last_second *last_second_new(const struct daemon *daemon);
/* NULL is ignored. */
void last_second_free(struct last_second *last);

/* The counts since the last call; begins a new period. NULL without memory. Main thread.
 */
json_t *last_second_take(struct last_second *last, const struct daemon *daemon);

#endif
