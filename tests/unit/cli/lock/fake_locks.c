#include "fake_locks.h"

void (*fake_locks_ask)(struct locks *locks, struct lock_ask *ask);
void (*fake_locks_cancel)(struct lock_ask *ask);
bool (*fake_locks_look_refused)(struct lock_store *store);

void __wrap_locks_ask(struct locks *locks, struct lock_ask *ask);
void __wrap_locks_ask(struct locks *locks, struct lock_ask *ask)
{
	fake_locks_ask(locks, ask);
}

void __wrap_locks_cancel(struct locks *locks, struct lock_ask *ask);
void __wrap_locks_cancel(struct locks *locks, struct lock_ask *ask)
{
	(void)locks;
	fake_locks_cancel(ask);
}

bool __wrap_lock_store_look_refused(struct lock_store *store);
bool __wrap_lock_store_look_refused(struct lock_store *store)
{
	return fake_locks_look_refused(store);
}
