/* A client's connection of HTTP/2 over a stream in memory: the test has its other end, with a
 * session of nghttp2 or raw frames. */
#ifndef TESTS_HTTP2_H2_WIRE_H
#define TESTS_HTTP2_H2_WIRE_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/exchange/fakes/flight.h"
#include "http1/downstream.h"
#include "listen/accepted.h"
#include "http2/h2_connection.h"

#define H2_WIRE_STREAMS 64

struct h2_wire_answer {
	char head[1024], body[4096]; /* `name: value` lines; what came */
	size_t body_len;
	bool ended;
	uint32_t reset; /* + 1; 0: it was not */
};

struct h2_wire {
	struct stage *stage;
	struct memory_peer *peer;
	struct h2_connection *connection;
	nghttp2_session *session; /* NULL: raw */
	struct h2_wire_answer answers[H2_WIRE_STREAMS];
	unsigned goaways;
	uint32_t goaway_code;
	int32_t goaway_last;
	const char *up; /* the rest of the body of the request under way */
	bool up_ends;
};

static void h2_wire_none(struct stream *stream)
{
	(void)stream;
}

static inline struct h2_wire_answer *h2_wire_answer(struct h2_wire *w, int32_t id)
{
	assert_true(id / 2 < H2_WIRE_STREAMS);
	return &w->answers[id / 2];
}

static inline int h2_wire_on_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
	void *user)
{
	struct h2_wire_answer *answer = h2_wire_answer(user, frame->hd.stream_id);
	size_t used = strlen(answer->head);

	(void)session;
	(void)flags;
	snprintf(answer->head + used, sizeof(answer->head) - used, "%.*s: %.*s\n", (int)name_len,
		(const char *)name, (int)value_len, (const char *)value);
	return 0;
}

static inline int h2_wire_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
	const uint8_t *bytes, size_t len, void *user)
{
	struct h2_wire_answer *answer = h2_wire_answer(user, id);

	(void)session;
	(void)flags;
	if (answer->body_len + len < sizeof(answer->body))
		memcpy(answer->body + answer->body_len, bytes, len);
	answer->body_len += len;
	return 0;
}

static inline int h2_wire_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_wire *w = user;

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		w->goaways++;
		w->goaway_code = frame->goaway.error_code;
		w->goaway_last = frame->goaway.last_stream_id;
	} else if (frame->hd.type == NGHTTP2_RST_STREAM) {
		h2_wire_answer(w, frame->hd.stream_id)->reset = frame->rst_stream.error_code + 1;
	} else if (frame->hd.type <= NGHTTP2_HEADERS &&
		   (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
		h2_wire_answer(w, frame->hd.stream_id)->ended = true;
	}
	return 0;
}

/* Both ends act until nothing more is on its way. */
static inline void h2_wire_run(struct h2_wire *w)
{
	uint8_t bytes[16384];
	const uint8_t *out;
	bool moved = true;

	while (moved) {
		moved = false;
		stage_turn(w->stage);
		long got = memory_peer_receive(w->peer, bytes, sizeof(bytes));
		if (got > 0 && w->session) {
			assert_int_equal(
				nghttp2_session_mem_recv(w->session, bytes, (size_t)got), got);
			moved = true;
		}
		ssize_t len = w->session ? nghttp2_session_mem_send(w->session, &out) : 0;
		if (len > 0) {
			assert_int_equal(memory_peer_send(w->peer, out, (size_t)len), len);
			moved = true;
		}
	}
}

static const struct protocol h2_wire_http1 = {.name = "http/1.1",
	.bit = CONF_PROTOCOL_HTTP1,
	.take_client = downstream_accept,
	.take_begun = downstream_accept_begun};
static const struct protocol *const h2_wire_protocols[] = {&h2_wire_http1, NULL};

static inline void h2_wire_open(struct h2_wire *w, const struct stage_conf *conf, bool is_plain)
{
	static const struct stream_calls none = {NULL, h2_wire_none};
	const struct sockaddr_in peer = {
		.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("192.0.2.1")};
	struct stream stream;

	memset(w, 0, sizeof(*w));
	w->stage = stage_begin(conf);
	w->peer = memory_stream_open(&stream, &w->stage->worker->streams, STAGE_ROOM, &none);
	stage_turn(w->stage);
	struct accepted accepted = {.stream = stream_export(&stream), .peer_len = sizeof(peer)};
	memcpy(&accepted.peer, &peer, sizeof(peer));
	w->stage->listener.protocols = h2_wire_protocols;
	w->stage->listener.connections++;
	w->stage->bound.connections++;
	w->stage->daemon.listening.descriptors.connections++;
	(is_plain ? h2_connection_accept_plain : h2_connection_accept)(
		w->stage->worker, &w->stage->listener, &accepted);
	w->connection = h2_part(w->stage->worker)->connections;
	assert_non_null(w->connection);
}

static inline void h2_wire_greet(struct h2_wire *w)
{
	nghttp2_session_callbacks *calls;

	nghttp2_session_callbacks_new(&calls);
	nghttp2_session_callbacks_set_on_header_callback(calls, h2_wire_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, h2_wire_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, h2_wire_on_frame);
	assert_int_equal(nghttp2_session_client_new(&w->session, calls, w), 0);
	nghttp2_session_callbacks_del(calls);
	nghttp2_submit_settings(w->session, NGHTTP2_FLAG_NONE, NULL, 0);
	h2_wire_run(w);
}

/* Nothing may be left of it. */
static inline void h2_wire_end(struct h2_wire *w)
{
	while (h2_part(w->stage->worker)->connections)
		h2_connection_close(h2_part(w->stage->worker)->connections, "the end");
	stage_turn(w->stage);
	assert_int_equal(w->stage->daemon.node.clients, 0);
	assert_int_equal(w->stage->listener.connections, 0);
	assert_int_equal(h2_part(w->stage->worker)->lingering, 0);
	memory_peer_close(w->peer);
	nghttp2_session_del(w->session);
	stage_end(w->stage);
}

static inline ssize_t h2_wire_read_up(nghttp2_session *session, int32_t id, uint8_t *bytes,
	size_t len, uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_wire *w = user;
	size_t left = strlen(w->up);

	(void)session;
	(void)id;
	(void)source;
	if (left == 0 && !w->up_ends)
		return NGHTTP2_ERR_DEFERRED;
	if (len > left)
		len = left;
	memcpy(bytes, w->up, len);
	w->up += len;
	if (w->up_ends && *w->up == '\0')
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

#define H2_WIRE_FIELD(name, value)                                                                 \
	{                                                                                          \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name),         \
			strlen(value), 0                                                           \
	}

/* The id of its stream. `body` is NULL: none. */
static inline int32_t h2_wire_ask(struct h2_wire *w, const char *path, const char *body, bool ends)
{
	const nghttp2_nv fields[] = {H2_WIRE_FIELD(":method", body ? "POST" : "GET"),
		H2_WIRE_FIELD(":scheme", "http"), H2_WIRE_FIELD(":authority", "h"),
		H2_WIRE_FIELD(":path", path)};
	const nghttp2_data_provider provider = {{.ptr = NULL}, h2_wire_read_up};

	w->up = body;
	w->up_ends = ends;
	int32_t id =
		nghttp2_submit_request(w->session, NULL, fields, 4, body ? &provider : NULL, NULL);
	assert_true(id > 0);
	h2_wire_run(w);
	return id;
}

/* What the n-th connection to a server answers. */
static inline void h2_wire_serve(struct h2_wire *w, unsigned server, const char *bytes)
{
	stage_server_sends(w->stage, server, bytes);
	h2_wire_run(w);
}

#endif
