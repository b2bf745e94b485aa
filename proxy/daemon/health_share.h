/* Health checks that nodes share (health_shared): see probers.h. Without Redis no configuration has
 * any. All on the main thread. */
#ifndef DAEMON_HEALTH_SHARE_H
#define DAEMON_HEALTH_SHARE_H

#include <stdbool.h>

struct daemon;

/* False without memory, with a line in the log. */
bool health_share_begin(struct daemon *daemon);

/* The daemon's site is current, and its servers are checked. */
void health_share_commit(struct daemon *daemon);

/* The daemon stops: other nodes probe from now on, and this one learns what they find. */
void health_share_leave(struct daemon *daemon);

/* Before the checks are freed, and the fleet. */
void health_share_end(struct daemon *daemon);

#endif
