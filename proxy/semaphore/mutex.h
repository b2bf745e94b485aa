/*
 * The mutex of a semaphore's administrators: the exclusive queue NAME. The broker deletes it with
 * the connection of the administrator, however that ends, so that no administrator who died keeps
 * others out. All that the holder of the mutex changes must be by the same connection: when the
 * broker takes the mutex away, it takes no more orders from there either.
 */
#ifndef SEMAPHORE_MUTEX_H
#define SEMAPHORE_MUTEX_H

#include "semaphore/broker.h"

enum mutex_result {
	MUTEX_HELD,
	MUTEX_BUSY,    /* another had it all the time */
	MUTEX_FOREIGN, /* the broker refuses it, or a queue of that name is no mutex */
	MUTEX_LOST,    /* the broker is */
};

/* Takes the mutex, or tries again until `timeout_ms` is over. The broker's `why` has the reason for
 * MUTEX_FOREIGN and MUTEX_LOST. */
enum mutex_result mutex_lock(struct broker *broker, const char *name, uint64_t timeout_ms);

/* Gives it back. Where that fails the end of the connection does it. */
void mutex_unlock(struct broker *broker, const char *name);

#endif
