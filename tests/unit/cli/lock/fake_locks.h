/* The store's locks, as a suite sets them, in place of fleet/locks.h's and lock_store.h's. */
#ifndef TESTS_UNIT_CLI_LOCK_FAKE_LOCKS_H
#define TESTS_UNIT_CLI_LOCK_FAKE_LOCKS_H

#include "cli/lock/lock_store.h"

extern void (*fake_locks_ask)(struct locks *locks, struct lock_ask *ask);
extern void (*fake_locks_cancel)(struct lock_ask *ask);
extern bool (*fake_locks_look_refused)(struct lock_store *store);

#endif
