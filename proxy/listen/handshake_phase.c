#include "listen/handshake_phase.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "listen/listener.h"
#include "net/stream.h"
#include "worker/worker.h"

#define DISCARDS_A_TURN 16

struct handshake {
	struct stream stream;
	struct listener *listener;
	struct handshake *older, *newer; /* of the listener's */
	uint64_t progress_ms;            /* when bytes came last */
	uint64_t end_ms;                 /* when it is late */
	bool is_answered;                /* it speaks no TLS: waits for its end */
	struct sockaddr_storage peer;
	socklen_t peer_len;
	struct deferred_free deferred;
};

static void free_handshake(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct handshake, deferred));
}

static void join(struct handshake *h)
{
	struct handshake_list *list = &h->listener->handshakes;

	h->older = list->newest;
	if (h->older)
		h->older->newer = h;
	else
		list->oldest = h;
	list->newest = h;
	list->count++;
}

static void leave(struct handshake *h)
{
	struct handshake_list *list = &h->listener->handshakes;

	if (h->older)
		h->older->newer = h->newer;
	else
		list->oldest = h->newer;
	if (h->newer)
		h->newer->older = h->older;
	else
		list->newest = h->older;
	list->count--;
	loop_free_later(&h->listener->worker->loop, &h->deferred, free_handshake);
}

/* Ends it without a client. */
static void close_one(struct handshake *h, unsigned slot, const char *why)
{
	struct listener *listener = h->listener;

	worker_count(listener->worker, slot);
	log_debug("listener %s: handshake ended: %s", listener->conf->name, why);
	stream_close(&h->stream);
	leave(h);
	listener_connection_closed(listener);
}

/* The protocol that ALPN has named, or the first. A reload may have removed it meanwhile. */
static const struct protocol *choose_protocol(const struct listener *listener, const char *name)
{
	const struct protocol *named = name ? listener_protocol(listener, name) : NULL;

	return named ? named : listener_protocol(listener, NULL);
}

/* It is a client from now on. */
static void hand_over(struct handshake *h)
{
	struct listener *listener = h->listener;
	const struct protocol *protocol = choose_protocol(listener, stream_protocol(&h->stream));
	struct stream_export client = stream_export(&h->stream);

	worker_count(listener->worker, STATS_HANDSHAKES_DONE);
	leave(h);
	protocol->take_client(
		listener->worker, listener, &client, (struct sockaddr *)&h->peer, h->peer_len);
}

static void set_end(struct handshake *h, uint64_t end_ms, uint64_t now_ms)
{
	struct deadline *deadline = &h->listener->handshakes.deadline;

	h->end_ms = end_ms;
	if (end_ms < deadline->at_ms)
		deadline_set(deadline, end_ms, now_ms);
}

/* Reads and drops the client's bytes, for one turn even if it sends faster. */
static void discard_input(struct handshake *h)
{
	char bytes[4096];
	enum stream_result result = STREAM_OK;

	for (unsigned reads = 0; reads < DISCARDS_A_TURN && result == STREAM_OK; reads++) {
		struct buffer buffer = {.at = bytes, .capacity = sizeof(bytes)};
		result = stream_read(&h->stream, &buffer);
	}
	if (result == STREAM_OK)
		stream_yield(&h->stream);
	else if (result != STREAM_AGAIN)
		close_one(h, STATS_HANDSHAKES_FAILED, "an HTTP request without TLS");
}

static void answer_plain(struct handshake *h)
{
	const char *answer = h->listener->protocols[0]->plain_answer;
	uint64_t now_ms = worker_now_ms(h->listener->worker);

	if (answer) {
		struct iovec piece = {(void *)(uintptr_t)answer, strlen(answer)};
		size_t written = 0;
		stream_write(&h->stream, &piece, 1, &written);
	}
	stream_end_output(&h->stream);
	h->is_answered = true;
	if (h->end_ms > now_ms + HANDSHAKE_ANSWER_MS)
		set_end(h, now_ms + HANDSHAKE_ANSWER_MS, now_ms);
	discard_input(h);
}

/* Has the listener continued as many in this turn as it may? */
static bool is_others_turn(struct handshake_list *list, uint64_t turn)
{
	if (list->turn != turn)
		list->continued = 0;
	list->turn = turn;
	return list->continued++ >= HANDSHAKES_A_TURN;
}

static void on_event(struct stream *stream)
{
	struct handshake *h = CONTAINER_OF(stream, struct handshake, stream);
	const char *why = "failed";

	if (h->is_answered) {
		discard_input(h);
		return;
	}
	h->progress_ms = worker_now_ms(h->listener->worker);
	if (is_others_turn(&h->listener->handshakes, h->listener->worker->loop.turn)) {
		stream_yield(stream);
		return;
	}
	switch (stream_handshake(stream, &why)) {
	case STREAM_OK:
		hand_over(h);
		break;
	case STREAM_AGAIN:
		break;
	case STREAM_END:
		answer_plain(h);
		break;
	case STREAM_FAILED:
		close_one(h, STATS_HANDSHAKES_FAILED, why);
		break;
	}
}

static const struct stream_calls calls = {NULL, on_event};

static void on_deadline(struct deadline *deadline)
{
	struct listener *listener = CONTAINER_OF(deadline, struct listener, handshakes.deadline);
	uint64_t now_ms = worker_now_ms(listener->worker);
	struct handshake *newer;

	/* The end of the last handshake frees the listener, if it is closed. */
	uint64_t next_ms = DEADLINE_NEVER;
	for (struct handshake *h = listener->handshakes.oldest; h; h = h->newer) {
		if (h->end_ms > now_ms && h->end_ms < next_ms)
			next_ms = h->end_ms;
	}
	if (next_ms != DEADLINE_NEVER)
		deadline_set(deadline, next_ms, now_ms);
	for (struct handshake *h = listener->handshakes.oldest; h; h = newer) {
		newer = h->newer;
		if (h->end_ms <= now_ms)
			close_one(h, STATS_HANDSHAKES_LATE, "it took too long");
	}
}

void handshakes_init(struct listener *listener)
{
	deadline_init(&listener->handshakes.deadline, listener->worker->loop.base, on_deadline);
}

static bool is_full(const struct listener *listener)
{
	unsigned workers = listener->worker->node->worker_count;

	return listener->handshakes.count >
	       (listener->conf->max_handshakes + workers - 1) / workers;
}

void handshake_begin(struct listener *listener, struct stream_export *client,
	const struct sockaddr *peer, socklen_t peer_len)
{
	struct worker *worker = listener->worker;
	struct handshake *h = calloc(1, sizeof(*h));
	uint64_t now_ms = worker_now_ms(worker);

	if (!h)
		stream_export_close(client);
	if (!h || !stream_import(&h->stream, &worker->streams, client, &calls)) {
		log_error("listener %s: no memory for a connection", listener->conf->name);
		free(h);
		listener_connection_closed(listener);
		return;
	}
	h->listener = listener;
	h->progress_ms = now_ms;
	memcpy(&h->peer, peer, peer_len);
	h->peer_len = peer_len;
	set_end(h, now_ms + listener->conf->handshake_timeout_ms, now_ms);
	join(h);
	if (is_full(listener))
		close_one(listener->handshakes.oldest, STATS_HANDSHAKES_DISPLACED,
			"closed for a newer connection");
	/* The client's first message comes with the connection or right behind it. */
	stream_expect_input(&h->stream);
}

bool handshake_give_way(struct listener *listener)
{
	uint64_t now_ms = worker_now_ms(listener->worker);

	for (struct handshake *h = listener->handshakes.oldest; h; h = h->newer) {
		if (now_ms < h->progress_ms + HANDSHAKE_SILENT_MS)
			continue;
		close_one(h, STATS_HANDSHAKES_DISPLACED, "closed for a new client");
		return true;
	}
	return false;
}

void handshakes_drain(struct listener *listener)
{
	uint64_t now_ms = worker_now_ms(listener->worker);

	for (struct handshake *h = listener->handshakes.oldest; h; h = h->newer) {
		if (h->end_ms > now_ms + HANDSHAKE_SILENT_MS)
			set_end(h, now_ms + HANDSHAKE_SILENT_MS, now_ms);
	}
}

void handshakes_end(struct listener *listener)
{
	struct handshake *newer;

	for (struct handshake *h = listener->handshakes.oldest; h; h = newer) {
		newer = h->newer;
		close_one(h, STATS_HANDSHAKES_DISPLACED, "shutdown");
	}
}
