#include "http2/h2_linger.h"

#include "base/list.h"
#include "base/log.h"
#include "http2/h2_connection.h"
#include "listen/give_way.h"

/* How long a client may be silent, and all of it. */
#define SILENT_MS 2000

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static unsigned bound_of(const struct listener *listener)
{
	unsigned workers = listener->worker->node->worker_count;

	return (listener->conf->max_lingering + workers - 1) / workers;
}

void h2_linger_leave(struct h2_connection *c)
{
	struct h2_worker *h2 = c->h2;

	if (c->state != H2_LINGERING)
		return;
	LIST_REMOVE(h2->oldest_lingering, h2->newest_lingering, c, linger.older, linger.newer);
	h2->lingering--;
}

static void watch(struct h2_connection *c)
{
	uint64_t now_ms = worker_now_ms(c->worker);
	uint64_t end_ms = c->linger.since_ms + c->listener->conf->linger_timeout_ms;

	wait_for(&c->wait, WAIT_LINGER, c->linger.bytes, least(end_ms, now_ms + SILENT_MS), now_ms);
}

void h2_linger_begin(struct h2_connection *c)
{
	struct h2_worker *h2 = c->h2;

	if (c->stream.read_ended || c->listener->conf->max_lingering == 0) {
		h2_connection_close(c, "done");
		return;
	}
	idle_list_take_out(&c->listener->idle_http2, &c->idle);
	h2_connection_end_session(c);
	stream_end_output(&c->stream);
	c->state = H2_LINGERING;
	c->linger.since_ms = worker_now_ms(c->worker);
	LIST_APPEND(h2->oldest_lingering, h2->newest_lingering, c, linger.older, linger.newer);
	h2->lingering++;
	while (h2->lingering > bound_of(c->listener) && h2->oldest_lingering)
		h2_connection_close(h2->oldest_lingering, "lingering, closed for another");
	if (c->state == H2_LINGERING)
		h2_linger_run(c);
}

void h2_linger_run(struct h2_connection *c)
{
	struct buffer_pool *pool = &c->worker->blocks;

	while (stream_may_have_more(&c->stream) && !c->stream.read_ended &&
		c->linger.bytes < c->listener->conf->linger_bytes) {
		if (!h2_may_work(c)) {
			stream_yield(&c->stream);
			break;
		}
		c->turn.work++;
		c->in.start = c->in.end = 0;
		if ((!c->in.at && !buffer_acquire(&c->in, pool)) ||
			stream_read(&c->stream, &c->in) != STREAM_OK)
			break;
		c->linger.bytes += buffer_used(&c->in);
	}
	buffer_release(&c->in, pool);
	if (c->stream.read_ended || c->linger.bytes >= c->listener->conf->linger_bytes)
		h2_connection_close(c, "lingered");
	else
		watch(c);
}

/* ---- giving way ------------------------------------------------------------------------------ */

bool h2_give_way(struct listener *listener)
{
	for (struct h2_connection *c = h2_part(listener->worker)->oldest_lingering; c;
		c = c->linger.newer) {
		if (c->listener != listener)
			continue;
		h2_connection_close(c, "lingering, closed for a new client");
		return true;
	}
	return false;
}

static struct h2_connection *of_link(struct idle_link *link)
{
	return CONTAINER_OF(link, struct h2_connection, idle);
}

/* Nothing of a request has come, and its client has taken all that was sent. */
static bool is_idle(struct h2_connection *c, uint64_t now_ms)
{
	return c->state <= H2_OPEN && c->stream_count == 0 && !c->in.at && !c->link.block.at &&
	       !c->head.is_open && !c->stream.readable && !c->stream.woken &&
	       c->idle.since_ms + GIVE_WAY_IDLE_MS <= now_ms && !stream_has_input(&c->stream) &&
	       stream_taken(&c->stream) == c->stream.sent;
}

/* Those looked at for one that is idle. */
#define LOOK_MOST 16

struct idle_link *h2_find_idle(struct worker *worker, const struct connection_bound *bound)
{
	uint64_t now_ms = worker_now_ms(worker);

	for (struct listener *l = listen_part(worker)->listeners; l; l = l->next) {
		unsigned looked = 0;
		if (l->binding->bound != bound &&
			&node_listening(worker->node)->descriptors != bound)
			continue;
		struct idle_link *newer;
		for (struct idle_link *link = l->idle_http2.oldest; link && looked < LOOK_MOST;
			link = newer) {
			newer = link->newer;
			if (of_link(link)->wait.reason != WAIT_IDLE)
				idle_list_take_out(&l->idle_http2, link); /* until it is again */
			else if (is_idle(of_link(link), now_ms))
				return link;
			else
				looked++;
		}
	}
	return NULL;
}

void h2_close_idle(struct idle_link *link)
{
	h2_connection_close(of_link(link), "idle, closed for a new client");
}
