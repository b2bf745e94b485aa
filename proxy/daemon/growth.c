/* growth: see growth.h. */
#include "daemon/growth.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/relay.h"
#include "throttle/throttle.h"
#include "worker/worker.h"

#define GROWTH_AGAIN_S 1

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct relay *relay = arg;

	(void)fd;
	(void)what;
	relay->growth.is_waiting = false; /* the turn that this was in looks again */
}

bool growth_begin(struct relay *relay)
{
	relay->growth.timer = evtimer_new(relay->node.loop.base, on_timer, relay);
	return relay->growth.timer != NULL;
}

void growth_end(struct relay *relay)
{
	if (relay->growth.timer)
		event_free(relay->growth.timer);
	relay->growth.timer = NULL;
}

/* Busy is what a reload or another process is with the table: no line for that. */
static void wait(struct relay *relay, int error)
{
	const struct timeval pause = {.tv_sec = GROWTH_AGAIN_S};

	if (error != EAGAIN && error != EWOULDBLOCK && !relay->growth.has_failed) {
		relay->growth.has_failed = true;
		log_error("limits: no memory for more callers: %s; trying again; until then new "
			  "callers may share a counter",
			strerror(error));
	}
	relay->growth.is_waiting = event_add(relay->growth.timer, &pause) == 0;
}

void growth_make(struct relay *relay)
{
	/* relaxed: what it says is looked at by the table itself */
	if (!atomic_load_explicit(&relay->growth.look_is_due, memory_order_relaxed) ||
		relay->growth.is_waiting)
		return;
	atomic_store_explicit(&relay->growth.look_is_due, false, memory_order_relaxed);
	if (throttle_table_grow(relay->node.throttles) != 0) {
		wait(relay, errno);
		return;
	}
	if (relay->growth.has_failed)
		log_info("limits: there is memory for more callers again");
	relay->growth.has_failed = false;
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&relay->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < relay->node.worker_count; i++)
		worker_command(relay->node.workers[i], WORKER_SEEN);
}

void growth_look(struct worker *worker)
{
	struct relay *relay = relay_of(worker);

	if (throttle_table_wants_growth(relay->node.throttles) &&
		!atomic_exchange_explicit(&relay->growth.look_is_due, true, memory_order_relaxed))
		relay_tell_main(relay);
}
