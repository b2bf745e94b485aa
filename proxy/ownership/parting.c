#include "ownership/parting.h"

#include <stdlib.h>

#include "base/container.h"
#include "ownership/owner_use.h"
#include "loop/deadline.h"
#include "net/stream.h"
#include "upstream/server_connection.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

/* Between two looks; and how many of them in a row may find no progress: 10 s. */
#define LOOK_MS    50
#define IDLE_LOOKS 200

struct parting {
	struct parting *next, **at; /* of its worker's */
	struct worker *worker;
	struct stream stream;
	struct owner_use use;
	struct deadline deadline;
	uint64_t taken;
	unsigned idle_looks;
	struct deferred_free deferred;
};

static void free_parting(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct parting, deferred));
}

static void end(struct parting *p)
{
	if (!p->stream.open)
		return;
	stream_discard_untaken(&p->stream);
	stream_close(&p->stream);
	deadline_end(&p->deadline);
	owner_end(node_owners(p->worker->node), &p->use);
	*p->at = p->next;
	if (p->next)
		p->next->at = p->at;
	ownership_part(p->worker)->parting_count--;
	loop_free_later(&p->worker->loop, &p->deferred, free_parting);
}

static void look(struct parting *p)
{
	uint64_t taken = stream_taken(&p->stream), now_ms = worker_now_ms(p->worker);

	p->idle_looks = taken == p->taken ? p->idle_looks + 1 : 0;
	p->taken = taken;
	if (taken == p->stream.sent || p->idle_looks >= IDLE_LOOKS)
		end(p);
	else
		deadline_set(&p->deadline, now_ms + LOOK_MS, now_ms);
}

static void on_deadline(struct deadline *deadline)
{
	look(CONTAINER_OF(deadline, struct parting, deadline));
}

/* Whatever comes of the server is nobody's. One that has ended its output may still read: only an
 * error says that it takes no more. */
static void on_event(struct stream *stream)
{
	if (stream_error(stream) != 0)
		end(CONTAINER_OF(stream, struct parting, stream));
}

static void on_owner(struct owner_use *use)
{
	end(CONTAINER_OF(use, struct parting, use));
}

static bool is_due(const struct stream *stream, const struct owner_use *use)
{
	return use->session && !use->node && stream->open && stream_has_untaken(stream);
}

bool parting_is_due(struct server_connection *connection, const struct owner_use *use)
{
	const struct stream *stream = server_stream(connection);

	return stream && is_due(stream, use);
}

void parting_close_server(
	struct server_connection *connection, struct worker *worker, const struct owner_use *use)
{
	struct stream *stream = server_stream(connection);

	if (stream)
		parting_close(stream, worker, use);
}

bool partings_give_up(struct worker *worker)
{
	struct parting *p = ownership_part(worker)->partings;

	if (!p)
		return false;
	while (p->next)
		p = p->next;
	end(p);
	return true;
}

static void enlist(struct parting *p)
{
	p->at = &ownership_part(p->worker)->partings;
	p->next = *p->at;
	if (p->next)
		p->next->at = &p->next;
	*p->at = p;
	ownership_part(p->worker)->parting_count++;
}

/* False: no memory, and it is closed. */
static bool begin(
	struct parting *p, struct stream *from, struct worker *worker, const struct owner_use *use)
{
	static const struct stream_calls calls = {NULL, on_event};

	stream_end_output(from);
	struct stream_export carried = stream_export(from);
	if (!stream_import(&p->stream, &worker->streams, &carried, &calls))
		return false;
	p->worker = worker;
	p->use.changed = p->use.lapsed = p->use.moves = on_owner;
	owner_share(node_owners(worker->node), &p->use, use);
	deadline_init(&p->deadline, worker->loop.base, on_deadline);
	enlist(p);
	look(p);
	return true;
}

/* One that has failed is over, and its error was read. */
static bool may_part(
	const struct stream *stream, const struct worker *worker, const struct owner_use *use)
{
	return !stream->failed && !worker->stopping &&
	       ownership_part(worker)->parting_count < PARTINGS_MOST &&
	       owner_is_valid(node_owners(worker->node), use);
}

void parting_close(struct stream *stream, struct worker *worker, const struct owner_use *use)
{
	struct parting *p;

	if (!is_due(stream, use)) {
		stream_close(stream);
		return;
	}
	p = may_part(stream, worker, use) ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		stream_discard_untaken(stream);
		stream_close(stream);
	} else if (!begin(p, stream, worker, use)) {
		free(p);
	}
}

void partings_end(struct worker *worker)
{
	while (ownership_part(worker)->partings)
		end(ownership_part(worker)->partings);
}
