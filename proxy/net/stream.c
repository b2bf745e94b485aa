#include "net/stream.h"

#include "base/container.h"

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Leaves the list of yielded streams, or of doubtful ones. */
static void leave_list(struct stream *stream)
{
	if (!stream->listed_at)
		return;
	*stream->listed_at = stream->next_listed;
	if (stream->next_listed)
		stream->next_listed->listed_at = stream->listed_at;
	else if (stream->yielded)
		stream->loop->yielded_end = stream->listed_at;
	stream->listed_at = NULL;
	stream->yielded = false;
}

/* Once a turn, before all others. */
static void wake_yielded(struct stream_loop *streams)
{
	struct stream *stream;

	streams->turn = streams->loop->turn;
	while ((stream = streams->yielded)) {
		leave_list(stream);
		stream_expect_input(stream);
	}
}

/* ---- short reads ----------------------------------------------------------------------------- */

static void look_soon(struct stream_loop *loop)
{
	uint64_t now_ms = loop_now_ms(loop->loop);

	deadline_set(&loop->look, now_ms + loop->look_ms, now_ms);
}

void stream_note_short(struct stream *stream)
{
	struct stream_loop *loop = stream->loop;

	stream->readable = false;
	stream->unsure = STREAM_UNSURE;
	if (stream->listed_at)
		return; /* if it yielded, it is read soon */
	if (!loop->doubtful)
		look_soon(loop);
	stream->next_listed = loop->doubtful;
	if (loop->doubtful)
		loop->doubtful->listed_at = &stream->next_listed;
	stream->listed_at = &loop->doubtful;
	loop->doubtful = stream;
}

/* One that was read since the last look is busy: it stays for the next. */
static void look(struct deadline *deadline)
{
	struct stream_loop *loop = CONTAINER_OF(deadline, struct stream_loop, look);
	struct stream *next;

	for (struct stream *stream = loop->doubtful; stream; stream = next) {
		next = stream->next_listed;
		if (stream->unsure == STREAM_UNSURE) {
			stream->unsure = STREAM_UNSURE_SINCE_LOOK;
			continue;
		}
		leave_list(stream);
		if (stream->unsure && stream_has_input(stream))
			stream_expect_input(stream);
		stream->unsure = 0;
	}
	if (loop->doubtful)
		look_soon(loop);
}

/* ---- its loop -------------------------------------------------------------------------------- */

static bool run_stage(struct loop_stage *stage)
{
	struct stream_loop *loop = CONTAINER_OF(stage, struct stream_loop, stage);

	if (loop->turn != loop->loop->turn)
		wake_yielded(loop);
	return stream_round(loop);
}

void stream_loop_init(struct stream_loop *streams, struct loop *loop)
{
	*streams = (struct stream_loop){
		.loop = loop,
		.stage.run = run_stage,
		.end = &streams->first,
		.yielded_end = &streams->yielded,
		.turn = loop->turn,
		.look_ms = STREAM_LOOK_MS,
	};
	deadline_init(&streams->look, loop->base, look);
	loop_add_stage(loop, LOOP_READ, &streams->stage);
}

void stream_loop_end(struct stream_loop *streams)
{
	deadline_end(&streams->look);
}

void stream_wake(struct stream *stream)
{
	struct stream_loop *loop = stream->loop;

	if (stream->woken)
		return;
	stream->woken = true;
	stream->next_woken = NULL;
	*loop->end = stream;
	loop->end = &stream->next_woken;
}

void stream_yield(struct stream *stream)
{
	struct stream_loop *loop = stream->loop;

	if (stream->yielded)
		return;
	leave_list(stream);
	stream->yielded = true;
	stream->next_listed = NULL;
	stream->listed_at = loop->yielded_end;
	*loop->yielded_end = stream;
	loop->yielded_end = &stream->next_listed;
	loop_hurry(loop->loop);
}

/* The next that is still open, or NULL. */
static struct stream *take_woken(struct stream_loop *loop)
{
	struct stream *stream;

	while ((stream = loop->first)) {
		loop->first = stream->next_woken;
		if (!loop->first)
			loop->end = &loop->first;
		stream->woken = false;
		if (stream->open)
			break;
	}
	return stream;
}

/* The one that was woken: with few connections that is the usual round. */
static inline bool serve_only(struct stream_loop *loop)
{
	struct stream *only = take_woken(loop);

	loop->fetched = 0;
	if (!only)
		return false;
	if (only->readable && only->calls->fetch)
		only->calls->fetch(only);
	if (only->open)
		only->calls->notify(only);
	return true;
}

static __attribute__((noinline)) bool serve_round(struct stream_loop *loop)
{
	struct stream *round[STREAM_ROUND];
	unsigned count = 0;

	while (count < STREAM_ROUND && (round[count] = take_woken(loop)))
		count++;
	loop->fetched = 0;
	for (unsigned i = 0; i < count && loop->fetched < STREAM_ROUND_BYTES; i++) {
		if (round[i]->readable && round[i]->calls->fetch)
			round[i]->calls->fetch(round[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (round[i]->open) /* not closed by one before it */
			round[i]->calls->notify(round[i]);
	}
	return count > 0;
}

bool stream_round(struct stream_loop *loop)
{
	if (!loop->first)
		return false;
	return loop->first->next_woken ? serve_round(loop) : serve_only(loop);
}

/* ---- one of them ----------------------------------------------------------------------------- */

void stream_begin(struct stream *stream, const struct transport *transport,
	struct stream_loop *loop, bool connected, const struct stream_calls *calls)
{
	*stream = (struct stream){.calls = calls,
		.transport = transport,
		.open = true,
		.writable = connected,
		.loop = loop};
}

enum stream_result stream_note_end(struct stream *stream, int error)
{
	stream->read_ended = true;
	stream->readable = false;
	stream->failed |= error != 0;
	return error != 0 ? STREAM_FAILED : STREAM_END;
}

void stream_close(struct stream *stream)
{
	if (!stream->open)
		return;
	leave_list(stream);
	stream->open = false;
	stream->transport->close(stream);
}

void stream_fetch(struct stream *stream, struct buffer *buffer, struct buffer_pool *pool)
{
	if (!buffer_acquire(buffer, pool))
		return;
	switch (stream_read(stream, buffer)) {
	case STREAM_OK:
		stream->loop->fetched += buffer_used(buffer);
		return;
	case STREAM_AGAIN:
		break;
	case STREAM_END:
	case STREAM_FAILED:
		stream->readable = true;
		break;
	}
	buffer_release(buffer, pool);
}

static void sift(struct stream *stream)
{
	if (stream->transport->sift && !stream->read_ended)
		stream->transport->sift(stream);
}

bool stream_has_input(struct stream *stream)
{
	if (!stream->transport->has_input(stream))
		return false;
	if (!stream->transport->sift)
		return true;
	sift(stream);
	return stream->readable || stream->read_ended;
}

bool stream_is_stale(struct stream *stream)
{
	if (stream->readable)
		sift(stream);
	return stream->readable || stream->peer_closed || stream->read_ended || stream->failed;
}

/* ---- from one loop to another ---------------------------------------------------------------- */

/* Its memory may be another stream's at once. */
static void leave_woken(struct stream *stream)
{
	struct stream_loop *loop = stream->loop;
	struct stream **at = &loop->first;

	while (*at != stream)
		at = &(*at)->next_woken;
	*at = stream->next_woken;
	if (!*at)
		loop->end = at;
	stream->woken = false;
}

struct stream_export stream_export(struct stream *stream)
{
	leave_list(stream);
	if (stream->woken)
		leave_woken(stream);
	stream->open = false;
	return (struct stream_export){
		stream->transport, stream->transport->export(stream), stream->sent};
}

bool stream_copy(struct stream *stream, struct stream_export *copy)
{
	copy->transport = stream->transport;
	copy->sent = stream->sent;
	return stream->transport->copy(stream, &copy->carried);
}

bool stream_import(struct stream *stream, struct stream_loop *loop, struct stream_export *from,
	const struct stream_calls *calls)
{
	if (!from->transport->import(stream, loop, &from->carried, calls))
		return false;
	stream->sent = from->sent;
	return true;
}

bool stream_export_is_silent(const struct stream_export *from)
{
	return from->transport->is_silent(&from->carried);
}

void stream_export_close(struct stream_export *from)
{
	from->transport->discard(&from->carried);
}

void stream_export_reset(struct stream_export *from)
{
	if (from->transport->reject)
		from->transport->reject(&from->carried);
	else
		from->transport->discard(&from->carried);
}
