#include "listen/handshake_phase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "http/forwarded.h"
#include "listen/accepted.h"
#include "listen/listener.h"
#include "net/proxy_header.h"
#include "net/stream.h"
#include "worker/worker.h"

#define DISCARDS_A_TURN 16
/* The interval of lines about connections that are refused. */
#define REFUSED_LINE_MS 60000

struct handshake {
	struct stream stream;
	struct listener *listener;
	struct handshake *older, *newer; /* of the listener's */
	uint64_t progress_ms;            /* when bytes came last */
	uint64_t end_ms;                 /* when it is late */
	bool awaits_header;              /* or what shows that there is none */
	bool is_answered;                /* it speaks no TLS: waits for its end */
	struct accepted accepted;        /* its stream is the one above */
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
	h->newer = NULL; /* behind its header it joins again */
	if (h->older)
		h->older->newer = h;
	else
		list->oldest = h;
	list->newest = h;
	list->count++;
}

static void leave_list(struct handshake *h)
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
}

static void leave(struct handshake *h)
{
	leave_list(h);
	loop_free_later(&h->listener->worker->loop, &h->deferred, free_handshake);
}

/* The ends of handshakes that headers have as well. */
static unsigned slot_of(const struct handshake *h, unsigned slot)
{
	if (!h->awaits_header)
		return slot;
	return slot == STATS_HANDSHAKES_LATE        ? STATS_PROXY_HEADERS_LATE
	       : slot == STATS_HANDSHAKES_DISPLACED ? STATS_PROXY_HEADERS_DISPLACED
						    : slot;
}

/* Ends it without a client. */
static void close_one(struct handshake *h, unsigned slot, const char *why)
{
	struct listener *listener = h->listener;

	worker_count(listener->worker, slot_of(h, slot));
	log_debug("listener %s: handshake ended: %s", listener->conf->name, why);
	stream_close(&h->stream);
	leave(h);
	listener_connection_closed(listener, h->accepted.entry);
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

	h->accepted.stream = stream_export(&h->stream);
	worker_count(listener->worker, STATS_HANDSHAKES_DONE);
	leave(h);
	protocol->take_client(listener->worker, listener, &h->accepted);
}

static const struct stream_calls calls;

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

/* ---- the header of a proxy --------------------------------------------------------------------
 */

static bool is_trusted(const struct handshake *h)
{
	struct forwarded_peer peer;

	forwarded_peer_init(&peer, (const struct sockaddr *)&h->accepted.peer, h->accepted.peer_len,
		&h->listener->conf->trusted_proxies);
	return peer.trusted;
}

static void log_refused(const struct handshake *h, const char *why)
{
	const struct listener *listener = h->listener;
	struct forwarded_peer peer;
	unsigned unlogged;

	if (log_pace_may_log_each(&listener->binding->bound->refused_headers, REFUSED_LINE_MS,
		    worker_now_ms(listener->worker), &unlogged)) {
		forwarded_peer_init(&peer, (const struct sockaddr *)&h->accepted.peer,
			h->accepted.peer_len, &listener->conf->trusted_proxies);
		log_warn("listener %s: connection from %.*s refused: %s; %u others since the last "
			 "line",
			listener->conf->name, SLICE_ARGS(forwarded_peer_text(&peer)), why,
			unlogged);
	}
}

static void refuse(struct handshake *h, unsigned slot, const char *why)
{
	log_refused(h, why);
	close_one(h, slot, why);
}

/* False without memory. */
static bool keep_facts(struct handshake *h, const struct proxy_header *header)
{
	bool has_facts = header->is_tls || header->authority.len > 0;
	bool is_unproven = header->subject == PROXY_OF_UNIX || header->subject == PROXY_OF_UNKNOWN;
	struct client_entry *entry;

	if (!has_facts && !is_unproven)
		return true;
	entry = h->accepted.entry = calloc(1, sizeof(*entry));
	if (!entry)
		return false;
	entry->is_https = header->is_tls;
	entry->is_unproven = is_unproven;
	return !has_facts || tls_facts_report(&entry->tls, header);
}

/* The client's address takes the place of the proxy's. */
static void keep_address(struct handshake *h, const struct proxy_header *header)
{
	switch (header->subject) {
	case PROXY_OF_CLIENT:
		h->accepted.peer = header->source;
		h->accepted.peer_len = header->source_len;
		break;
	case PROXY_OF_UNIX:
		h->accepted.peer_len = 0;
		break;
	case PROXY_OF_UNKNOWN:
	case PROXY_OF_ITSELF:
		break;
	}
}

/* Takes so many bytes, which are there. */
static bool take_bytes(struct handshake *h, char *at, size_t len)
{
	struct buffer buffer = {.at = at, .capacity = (uint32_t)len};

	while (buffer.end < len) {
		if (stream_read(&h->stream, &buffer) != STREAM_OK)
			return false;
	}
	return true;
}

/* Behind its header: a client, or a handshake of TLS, on the same stream. False: neither of this
 * phase any more; its listener may be gone with it. */
static bool continue_behind(struct listener *listener, struct handshake *h)
{
	if (!accepted_is_admitted(listener, &h->accepted))
		return false;
	if (!listener->certificates) {
		accepted_take_plain(listener, &h->accepted);
		return false;
	}
	if (!accepted_begin_tls(listener, &h->accepted))
		return false;
	if (stream_import(&h->stream, &listener->worker->streams, &h->accepted.stream, &calls))
		return true;
	accepted_fail(listener, h->accepted.entry);
	return false;
}

/* The connection continues as if it had begun here. False: it is no handshake any more. */
static bool begin_transport(struct handshake *h)
{
	struct loop *loop = &h->listener->worker->loop;

	h->awaits_header = false;
	h->accepted.stream = stream_export(&h->stream);
	leave_list(h);
	if (!continue_behind(h->listener, h)) {
		loop_free_later(loop, &h->deferred, free_handshake);
		return false;
	}
	join(h);
	h->stream.readable = true;
	return true;
}

/* A whole header of a trusted proxy, at the beginning of `bytes`. */
static bool take_header(struct handshake *h, char *bytes, const struct proxy_header *header)
{
	if (!keep_facts(h, header)) {
		close_one(h, STATS_PROXY_HEADERS_MALFORMED, "no memory");
		return false;
	}
	keep_address(h, header);
	if (!take_bytes(h, bytes, header->len)) {
		close_one(h, STATS_PROXY_HEADERS_MALFORMED, "the connection was reset");
		return false;
	}
	worker_count(h->listener->worker, STATS_PROXY_HEADERS_READ);
	return begin_transport(h);
}

/* Looks at what is there. False: nothing more is to be done now. */
static bool look_for_header(struct handshake *h)
{
	bool is_required = h->listener->conf->proxy_protocol == CONF_PROXY_PROTOCOL_REQUIRED;
	char bytes[PROXY_HEADER_BYTES];
	struct buffer buffer = {.at = bytes, .capacity = sizeof(bytes)};
	struct proxy_header header;
	bool is_begun;
	const char *why;

	switch (stream_peek(&h->stream, &buffer)) {
	case STREAM_OK:
		break;
	case STREAM_AGAIN:
		return false;
	case STREAM_END:
	case STREAM_FAILED:
		close_one(h, STATS_PROXY_HEADERS_MISSING, "it ended before its first byte");
		return false;
	}
	enum proxy_header_result result =
		proxy_header_read((struct slice){bytes, buffer.end}, &header, &is_begun, &why);
	if (is_begun && !is_trusted(h)) {
		refuse(h, STATS_PROXY_HEADERS_UNTRUSTED,
			"it begins with a PROXY header and is not among trusted_proxies");
		return false;
	}
	switch (result) {
	case PROXY_HEADER_WHOLE:
		return take_header(h, bytes, &header);
	case PROXY_HEADER_MORE:
		if (h->stream.peer_closed)
			refuse(h, STATS_PROXY_HEADERS_MALFORMED, "it ended within a PROXY header");
		return false;
	case PROXY_HEADER_NONE:
		if (!is_required)
			return begin_transport(h);
		refuse(h, STATS_PROXY_HEADERS_MISSING,
			"it begins without a PROXY header (proxy_protocol = required)");
		return false;
	case PROXY_HEADER_BAD:
		break;
	}
	char text[128];
	snprintf(text, sizeof(text), "malformed PROXY header: %s", why);
	refuse(h, STATS_PROXY_HEADERS_MALFORMED, text);
	return false;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_event(struct stream *stream)
{
	struct handshake *h = CONTAINER_OF(stream, struct handshake, stream);
	const char *why = "failed";

	if (h->is_answered) {
		discard_input(h);
		return;
	}
	h->progress_ms = worker_now_ms(h->listener->worker);
	if (h->awaits_header && !look_for_header(h))
		return;
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
		if (h->listener->conf->is_internal)
			log_refused(h, "it speaks no TLS, as [fleet] certificate requires");
		answer_plain(h);
		break;
	case STREAM_FAILED:
		if (h->listener->conf->is_internal)
			log_refused(h, why);
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

void handshake_begin(struct listener *listener, struct accepted *accepted)
{
	struct worker *worker = listener->worker;
	struct handshake *h = calloc(1, sizeof(*h));
	uint64_t now_ms = worker_now_ms(worker);

	if (!h)
		stream_export_close(&accepted->stream);
	if (!h || !stream_import(&h->stream, &worker->streams, &accepted->stream, &calls)) {
		free(h);
		accepted_fail(listener, accepted->entry);
		return;
	}
	h->listener = listener;
	h->progress_ms = now_ms;
	h->accepted = *accepted;
	h->awaits_header = !stream_has_handshake(&h->stream);
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
