/*
 * What has happened since the look before, as the JSON of GET /api/v1/events: counts by route and
 * limit, and how queues and servers are now.
 */
#ifndef ADMIN_LAST_SECOND_H
#define ADMIN_LAST_SECOND_H

#include <jansson.h>

struct last_second;
struct relay;

/* Counts from now on. NULL without memory. */
struct last_second *last_second_new(const struct relay *relay);
/* NULL is ignored. */
void last_second_free(struct last_second *last);

/* What was counted since the last call, and counts from now on. NULL without memory. Main thread.
 */
json_t *last_second_take(struct last_second *last, const struct relay *relay);

#endif
