/* growth: see growth.h. */
#include "daemon/growth.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/daemon.h"
#include "throttle/throttle.h"
#include "worker/worker.h"

#define GROWTH_AGAIN_S 1

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	daemon->growth.is_waiting = false; /* the turn that this was in looks again */
}

bool growth_begin(struct daemon *daemon)
{
	daemon->growth.timer = evtimer_new(daemon->node.loop.base, on_timer, daemon);
	return daemon->growth.timer != NULL;
}

void growth_end(struct daemon *daemon)
{
	if (daemon->growth.timer)
		event_free(daemon->growth.timer);
	daemon->growth.timer = NULL;
}

/* Busy is what a reload or another process is with the table: no line for that. */
static void wait(struct daemon *daemon, int error)
{
	const struct timeval pause = {.tv_sec = GROWTH_AGAIN_S};

	if (error != EAGAIN && error != EWOULDBLOCK && !daemon->growth.has_failed) {
		daemon->growth.has_failed = true;
		log_error("limits: no memory for more callers: %s; trying again; until then new "
			  "callers may share a counter",
			strerror(error));
	}
	daemon->growth.is_waiting = event_add(daemon->growth.timer, &pause) == 0;
}

void growth_make(struct daemon *daemon)
{
	/* relaxed: what it says is looked at by the table itself */
	if (!atomic_load_explicit(&daemon->growth.look_is_due, memory_order_relaxed) ||
		daemon->growth.is_waiting)
		return;
	atomic_store_explicit(&daemon->growth.look_is_due, false, memory_order_relaxed);
	if (throttle_table_grow(daemon->node.throttles) != 0) {
		wait(daemon, errno);
		return;
	}
	if (daemon->growth.has_failed)
		log_info("limits: there is memory for more callers again");
	daemon->growth.has_failed = false;
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&daemon->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < daemon->node.worker_count; i++)
		worker_command(daemon->node.workers[i], WORKER_SEEN);
}

void growth_look(struct worker *worker)
{
	struct daemon *daemon = daemon_of(worker);

	if (throttle_table_wants_growth(daemon->node.throttles) &&
		!atomic_exchange_explicit(&daemon->growth.look_is_due, true, memory_order_relaxed))
		daemon_tell_main(daemon);
}
