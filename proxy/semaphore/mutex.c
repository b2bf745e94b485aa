/* See mutex.h. */
#include "semaphore/mutex.h"

#include <stdio.h>

/* Between two tries: what an administrator does takes a few ms a slot. */
enum { PAUSE_MS = 50 };

enum mutex_result mutex_lock(struct broker *broker, const char *name, uint64_t timeout_ms)
{
	uint64_t begin_ms = broker->calls->now_ms(broker);

	for (;;) {
		enum broker_result result = broker->calls->declare(broker, name, BROKER_EXCLUSIVE);
		if (result == BROKER_DONE)
			return MUTEX_HELD;
		if (result != BROKER_LOCKED)
			return result == BROKER_LOST ? MUTEX_LOST : MUTEX_FOREIGN;
		/* A queue that is nobody's own is locked to who would have it exclusively. */
		if (broker->calls->look(broker, name) == BROKER_DONE) {
			snprintf(broker->why, sizeof(broker->why),
				"queue '%s' exists and is not exclusive: it can't be the mutex",
				name);
			return MUTEX_FOREIGN;
		}
		if (broker->calls->now_ms(broker) - begin_ms >= timeout_ms)
			return MUTEX_BUSY;
		broker->calls->pause(broker, PAUSE_MS);
	}
}

void mutex_unlock(struct broker *broker, const char *name)
{
	broker->calls->remove(broker, name);
}
