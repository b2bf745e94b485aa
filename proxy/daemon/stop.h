/*
 * How the daemon stops.
 *
 *   serving --SIGTERM--> lame duck --lame_duck, SIGTERM--> drain --shutdown_timeout, SIGTERM--> cut
 *
 * A lame duck serves on but is not ready for more; a drain finishes what is under way.
 * A process that another one has replaced stops the same way. Main thread.
 */
#ifndef DAEMON_STOP_H
#define DAEMON_STOP_H

#include <stdbool.h>
#include <sys/types.h>

struct daemon;

/* Makes the timer. False without memory. */
bool stop_prepare(struct daemon *daemon);
void stop_end(struct daemon *daemon);

/* A signal asks for an end: the first one begins it, each further one takes the next step at once.
 */
void stop_by_signal(struct daemon *daemon);

/* Process `pid` has taken over what bindings_hand_over and the like have left to it: this one
 * drains and ends. */
void stop_hand_over(struct daemon *daemon, pid_t pid);

#endif
