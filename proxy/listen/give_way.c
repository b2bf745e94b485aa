#include "listen/give_way.h"

#include "base/log.h"
#include "listen/listener.h"
#include "worker/node.h"
#include "worker/worker.h"

/* The interval of lines about idle connections that are closed. */
#define LINE_MS 60000

static void close_idle(
	const struct listener *listener, struct idle_link *link, struct connection_bound *bound)
{
	struct worker *worker = listener->worker;
	uint64_t now_ms = worker_now_ms(worker);
	/* Both relaxed: a number for people; of two that are late together one writes the line. */
	unsigned count = atomic_fetch_add_explicit(&bound->gave_way, 1, memory_order_relaxed) + 1;
	uint64_t next_ms = atomic_load_explicit(&bound->next_line_ms, memory_order_relaxed);

	worker_count(worker, STATS_GAVE_WAY);
	if (now_ms >= next_ms &&
		atomic_compare_exchange_strong_explicit(&bound->next_line_ms, &next_ms,
			now_ms + LINE_MS, memory_order_relaxed, memory_order_relaxed))
		log_warn("%s%s: closing idle connections for new ones, %u so far",
			bound->name ? "max_connections are open, listener "
				    : "all descriptors for clients are in use",
			bound->name ? bound->name : "", count);
	listener->protocol->close_idle(link);
}

/* Of all who are asked for one, one closes one. True: this one. */
static bool answer(struct listener *listener, struct connection_bound *bound)
{
	if (!atomic_load(&bound->wanted) || !atomic_load(&bound->waiting))
		return false;
	struct idle_link *link = listener->protocol->find_idle(listener->worker, bound);
	if (!link || !atomic_exchange(&bound->wanted, false))
		return false;
	close_idle(listener, link, bound);
	return true;
}

bool give_way(struct listener *listener, struct connection_bound *bound)
{
	struct worker *worker = listener->worker;

	if (listener->protocol->give_way(listener))
		return true;
	struct idle_link *link = listener->protocol->find_idle(worker, bound);
	if (link) {
		close_idle(listener, link, bound);
		return true;
	}
	/* seq_cst: before the commands, so that who gets these sees it. */
	atomic_store(&bound->wanted, true);
	node_command_workers(worker->node, WORKER_GIVE_WAY);
	return false;
}

void give_way_answer(struct worker *worker)
{
	/* Any listener may have ended with its last connection: then from the first again. */
	for (struct listener *l = worker->listeners; l;)
		l = answer(l, l->binding->bound) ? worker->listeners : l->next;
	if (worker->listeners)
		answer(worker->listeners, &worker->node->listening->descriptors);
}
