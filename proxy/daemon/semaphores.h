/* The slots of semaphores that the relay's upstreams take: see semaphore/keeping.h. Without
 * RabbitMQ no configuration has any. All on the main thread. */
#ifndef DAEMON_SEMAPHORES_H
#define DAEMON_SEMAPHORES_H

#include <stdbool.h>

struct relay;

/* False without memory, with a line in the log. */
bool semaphores_begin(struct relay *relay);

/* The relay's site is current. */
void semaphores_commit(struct relay *relay);

/* The workers have ended. */
void semaphores_end(struct relay *relay);

#endif
