/* See semaphore_slots.h. */
#include "upstream/semaphore_slots.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

const char *semaphore_state_name(enum semaphore_state state)
{
	static const char *const names[SEMAPHORE_STATES] = {
		[SEMAPHORE_NONE] = "none",
		[SEMAPHORE_CONNECTING] = "connecting",
		[SEMAPHORE_HOLDS] = "holds",
		[SEMAPHORE_AWAY] = "away",
		[SEMAPHORE_RETURNS] = "returns",
	};

	return names[state];
}

int semaphore_slots_begin(struct semaphore_slots *slots)
{
	if (slots->wake_fd < 0)
		slots->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return slots->wake_fd < 0 ? errno : 0;
}

void semaphore_slots_end(struct semaphore_slots *slots)
{
	if (slots->wake_fd >= 0)
		close(slots->wake_fd);
	slots->wake_fd = -1;
}

void semaphore_slots_wake(void *ctx)
{
	const struct semaphore_slots *slots = ctx;
	const uint64_t one = 1;

	/* It fails only when it is awake for long. */
	if (write(slots->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void semaphore_slots_set(struct semaphore_slots *slots, uint64_t since_ns, uint64_t until_ns)
{
	/* release: pairs with the acquire below; who sees the later end sees the later beginning */
	atomic_store_explicit(&slots->since_ns, since_ns, memory_order_release);
	atomic_store_explicit(&slots->until_ns, until_ns, memory_order_release);
}

bool semaphore_slots_let(const struct semaphore_slots *slots, uint64_t placed_ns)
{
	uint64_t until_ns = atomic_load_explicit(&slots->until_ns, memory_order_acquire);

	if (until_ns == 0 || placed_ns == 0)
		return true;
	/* acquire: pairs with the release above */
	return placed_ns >= atomic_load_explicit(&slots->since_ns, memory_order_acquire) &&
	       clock_monotonic_ns() < until_ns;
}
