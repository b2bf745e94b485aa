#include "http1/idle.h"

#include <string.h>

#include "base/container.h"
#include "http1/downstream.h"
#include "listen/give_way.h"
#include "listen/listener.h"
#include "worker/node.h"
#include "worker/worker.h"

/* The connections that have been idle longest, the oldest first. */
struct candidates {
	struct downstream *at[IDLE_LOOK];
	unsigned count;
};

static struct downstream *of_link(struct idle_link *link)
{
	return CONTAINER_OF(link, struct downstream, idle);
}

/* Half of an empty line, which may come before a request, is nothing of one. */
static bool has_part(const struct buffer *in)
{
	return in->at && buffer_used(in) > 0 &&
	       !(buffer_used(in) == 1 && buffer_head(in)[0] == '\r');
}

/* Nothing of a request has come, as far as is known without asking the system. */
static bool is_idle(const struct downstream *d)
{
	return d->state == DOWNSTREAM_OPEN && !d->client.first && d->input == INPUT_NONE &&
	       flow_is_empty(&d->out) && !has_part(&d->in) && !d->stream.readable &&
	       !d->stream.woken;
}

/* Its request may be here, or its end. While the system still holds a part of a response, a request
 * that comes to the closed connection would take it back by a reset. */
static bool is_idle_to_system(struct downstream *d)
{
	return !stream_has_input(&d->stream) && stream_taken(&d->stream) == d->stream.sent;
}

static void add(struct candidates *found, struct downstream *d)
{
	unsigned i;

	if (found->count < IDLE_LOOK)
		found->count++;
	else if (found->at[IDLE_LOOK - 1]->idle.since_ms <= d->idle.since_ms)
		return;
	for (i = found->count - 1; i > 0 && found->at[i - 1]->idle.since_ms > d->idle.since_ms; i--)
		found->at[i] = found->at[i - 1];
	found->at[i] = d;
}

static void collect(struct listener *listener, struct candidates *found)
{
	uint64_t now_ms = worker_now_ms(listener->worker);
	struct idle_link *newer;
	unsigned looked = 0;

	for (struct idle_link *link = listener->idle.oldest; link; link = newer) {
		struct downstream *d = of_link(link);
		newer = link->newer;
		if (looked == IDLE_LOOK || link->placed_ms + GIVE_WAY_IDLE_MS > now_ms)
			break;
		if (d->wait.reason != WAIT_IDLE) {
			idle_list_take_out(&listener->idle, link); /* until it is idle again */
		} else if (is_idle(d) && link->since_ms + GIVE_WAY_IDLE_MS <= now_ms) {
			add(found, d);
			looked++;
		}
	}
}

static bool is_same_peer(const struct downstream *a, const struct downstream *b)
{
	return a->peer.is_unix == b->peer.is_unix &&
	       memcmp(a->peer.address, b->peer.address, sizeof(a->peer.address)) == 0;
}

/* The oldest of the address that has most of them; its place in the array. */
static unsigned choose(const struct candidates *found)
{
	unsigned chosen = 0, most = 0;

	for (unsigned i = 0; i < found->count; i++) {
		unsigned count = 0;
		for (unsigned j = 0; j < found->count; j++)
			count += is_same_peer(found->at[i], found->at[j]);
		if (count > most) {
			most = count;
			chosen = i;
		}
	}
	return chosen;
}

/* Is it the bound of the listener's max_connections, or of the process? */
static bool is_of(const struct listener *listener, const struct connection_bound *bound)
{
	return listener->binding->bound == bound ||
	       &node_listening(listener->worker->node)->descriptors == bound;
}

struct idle_link *idle_find(struct worker *worker, const struct connection_bound *bound)
{
	struct candidates found = {.count = 0};

	for (struct listener *l = listen_part(worker)->listeners; l; l = l->next) {
		if (is_of(l, bound))
			collect(l, &found);
	}
	while (found.count > 0) {
		unsigned chosen = choose(&found);
		struct downstream *d = found.at[chosen];
		if (is_idle_to_system(d))
			return &d->idle;
		idle_list_put(&d->client.listener->idle, &d->idle, worker_now_ms(worker));
		memmove(&found.at[chosen], &found.at[chosen + 1],
			(--found.count - chosen) * sizeof(found.at[0]));
	}
	return NULL;
}

void idle_close(struct idle_link *link)
{
	downstream_close(of_link(link), "idle, closed for a new client");
}
