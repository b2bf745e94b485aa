#include "daemon/failure_lines.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "daemon/daemon.h"

static void set_timer(struct daemon *daemon)
{
	const struct timeval pause = {.tv_sec = LOG_PACE_MS / 1000};

	if (event_add(daemon->failure_lines.timer, &pause) != 0) /* the next failure is reported */
		atomic_store_explicit(
			&daemon->node.failures.is_reported, false, memory_order_release);
}

static void on_message(struct message *message)
{
	struct node *node = CONTAINER_OF(message, struct node, failures.message);

	set_timer(CONTAINER_OF(node, struct daemon, node));
}

/* A line of what has come to the internal listener, if the last one is old enough. Is there more?
 */
static bool write_hop_line(struct log_pace *pace, const char *what, uint64_t now_ms)
{
	unsigned count = log_pace_take_unlogged(pace, now_ms);

	if (count > 0)
		log_warn("listener fleet: %u more %s since the last line", count, what);
	return log_pace_has_unlogged(pace);
}

static bool write_hop_lines(struct node_hops *hops, uint64_t now_ms)
{
	bool more =
		write_hop_line(&hops->strangers, "connections without the fleet's secret", now_ms);

	return write_hop_line(
		       &hops->unread, "requests that this node does not understand", now_ms) ||
	       more;
}

/* A line for each server whose last one is old enough. Are there others with failures? */
static bool write_server_lines(const struct site *site, uint64_t now_ms)
{
	bool more = false;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server *server = &upstream->servers[j];
			unsigned count = server_take_unlogged(server, now_ms);
			if (count > 0)
				log_info("upstream %s: server %s: %u more failures since the last "
					 "line",
					upstream->conf->name, server->conf->address.text, count);
			more |= server_has_unlogged(server);
		}
	}
	return more;
}

/* Is there more? */
static bool write_lines(struct daemon *daemon, uint64_t now_ms)
{
	bool more = write_hop_lines(&daemon->node.hops, now_ms);

	if (daemon->site) /* the start may have failed */
		more |= write_server_lines(daemon->site, now_ms);
	return more;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	/* release: pairs with the acquire in node_note_failure: the message has been run, and may
	 * be posted again. Who finds it set has left its failure to be found here, at the latest
	 * when the next one tells. */
	atomic_store_explicit(&daemon->node.failures.is_reported, false, memory_order_release);
	if (write_lines(daemon, clock_monotonic_ms()))
		node_note_failure(&daemon->node);
}

bool failure_lines_begin(struct daemon *daemon)
{
	daemon->node.failures.message.run = on_message;
	daemon->failure_lines.timer = evtimer_new(daemon->node.loop.base, on_timer, daemon);
	return daemon->failure_lines.timer != NULL;
}

void failure_lines_write_all(struct daemon *daemon)
{
	write_lines(daemon, UINT64_MAX);
}

void failure_lines_end(struct daemon *daemon)
{
	if (daemon->failure_lines.timer)
		event_free(daemon->failure_lines.timer);
	daemon->failure_lines.timer = NULL;
}
