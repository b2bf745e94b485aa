#include "listen/give_way.h"

#include "base/log.h"
#include "listen/listener.h"
#include "worker/node.h"
#include "worker/worker.h"

/* The interval of lines about idle connections that are closed. */
#define LINE_MS 60000

/* One that has a place of the bound, and its protocol. */
struct found {
	const struct protocol *protocol;
	struct idle_link *link; /* NULL: there is none */
};

static struct found find_idle(const struct listener *listener, const struct connection_bound *bound)
{
	struct found found = {NULL, NULL};

	for (const struct protocol *const *p = listener->protocols; *p && !found.link; p++)
		found = (struct found){*p, (*p)->find_idle(listener->worker, bound)};
	return found;
}

static void close_idle(
	const struct listener *listener, struct found found, struct connection_bound *bound)
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
				    : "descriptors or memory for clients ran out",
			bound->name ? bound->name : "", count);
	found.protocol->close_idle(found.link);
}

/* One of the workers that are asked for a connection closes one. True: this worker does. */
static bool answer(struct listener *listener, struct connection_bound *bound)
{
	if (!atomic_load(&bound->wanted) || !atomic_load(&bound->waiting))
		return false;
	struct found found = find_idle(listener, bound);
	if (!found.link || !atomic_exchange(&bound->wanted, false))
		return false;
	close_idle(listener, found, bound);
	return true;
}

bool give_way(struct listener *listener, struct connection_bound *bound)
{
	struct worker *worker = listener->worker;

	for (const struct protocol *const *p = listener->protocols; *p; p++) {
		if ((*p)->give_way(listener))
			return true;
	}
	if (handshake_give_way(listener))
		return true;
	struct found found = find_idle(listener, bound);
	if (found.link) {
		close_idle(listener, found, bound);
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
	for (struct listener *l = listen_part(worker)->listeners; l;)
		l = answer(l, l->binding->bound) ? listen_part(worker)->listeners : l->next;
	if (listen_part(worker)->listeners)
		answer(listen_part(worker)->listeners, &node_listening(worker->node)->descriptors);
}
