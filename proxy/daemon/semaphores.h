/* The slots of semaphores that the daemon's upstreams take: see semaphore/keeping.h. Without
 * RabbitMQ no configuration has any. All on the main thread. */
#ifndef DAEMON_SEMAPHORES_H
#define DAEMON_SEMAPHORES_H

#include <stdbool.h>

struct daemon;

/* False without memory, with a line in the log. */
bool semaphores_begin(struct daemon *daemon);

/* The daemon's site is current. */
void semaphores_commit(struct daemon *daemon);

/* The workers have ended. */
void semaphores_end(struct daemon *daemon);

#endif
