#include "http2/h2_session.h"

#include <string.h>

#include "base/log.h"
#include "http2/h2_output.h"
#include "http2/h2_stream.h"

/* What a stream's client may send before its body is read. */
#define EARLY_WINDOW (16 * 1024)
/* Of all streams of a connection; each has its own, which bounds memory. */
#define CONNECTION_WINDOW (1024 * 1024)
/* Acknowledgements of PING and SETTINGS that wait. */
#define ACKS_MOST 200

/* ---- what comes ------------------------------------------------------------------------------ */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_connection *c = h2_connection_of(user);
	bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
	struct h2_stream *stream =
		is_request ? h2_stream_new(c, frame->hd.stream_id)
			   : nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
	c->head_since_ms = worker_now_ms(c->worker);
	h2_head_begin(&c->head, &c->worker->blocks, c->listener->conf->max_header_bytes,
		is_request ? H2_HEAD_REQUEST : H2_HEAD_TRAILERS);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct h2_connection *c = h2_connection_of(user);

	(void)session;
	(void)frame;
	(void)flags;
	h2_head_add(&c->head, (struct slice){(const char *)name, name_len},
		(struct slice){(const char *)value, value_len});
	return 0;
}

/* nghttp2 would leave it out: with this the request is malformed (RFC 9113 section 8.2.1). */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
	void *user)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	(void)user;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void end_headers(struct h2_connection *c, const nghttp2_frame *frame)
{
	struct h2_stream *stream =
		nghttp2_session_get_stream_user_data(c->link.session, frame->hd.stream_id);
	bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		h2_stream_begin(stream, is_end);
	else if (stream)
		h2_stream_trailers(stream);
	h2_head_end(&c->head);
}

static void settings_acknowledged(struct h2_connection *c)
{
	c->settings_known = true;
	if (c->owed_window > 0)
		nghttp2_session_consume_connection(c->link.session, (size_t)c->owed_window);
	c->owed_window = 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_connection *c = h2_connection_of(user);
	struct h2_stream *stream;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		end_headers(c, frame);
		break;
	case NGHTTP2_DATA:
		stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
		if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			h2_stream_body_ended(stream);
		break;
	case NGHTTP2_SETTINGS:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			settings_acknowledged(c);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			h2_session_finish(c);
		break;
	default:
		break;
	}
	return 0;
}

/* A malformed header block: nghttp2 resets its stream, and reports no frame. */
static int on_invalid_frame(
	nghttp2_session *session, const nghttp2_frame *frame, int code, void *user)
{
	struct h2_connection *c = h2_connection_of(user);

	(void)session;
	(void)code;
	if (frame->hd.type == NGHTTP2_HEADERS)
		h2_head_end(&c->head);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
	size_t len, void *user)
{
	struct h2_connection *c = h2_connection_of(user);
	struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);

	(void)flags;
	/* The connection's window is no stream's to hold back. Before its client knows our
	 * SETTINGS the windows of streams are larger than we want, and this one bounds them. */
	if (c->settings_known)
		nghttp2_session_consume_connection(session, len);
	else
		c->owed_window += len;
	if (stream)
		h2_stream_body(stream, bytes, len);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
	struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);

	(void)error_code;
	(void)user;
	if (stream)
		h2_stream_closed(stream);
	return 0;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

/* Is the client the cause of a reset with this code? INTERNAL_ERROR is a server's fault, or ours.
 */
static bool is_by_client(uint32_t error_code)
{
	return error_code != NGHTTP2_NO_ERROR && error_code != NGHTTP2_INTERNAL_ERROR;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_connection *c = h2_connection_of(user);
	struct h2_stream *stream;

	if (frame->hd.type == NGHTTP2_RST_STREAM && is_by_client(frame->rst_stream.error_code) &&
		!h2_flood_count(&c->flood, H2_FLOOD_RESET, worker_now_ns(c->worker)))
		c->flooded = H2_FLOOD_RESET;
	/* Behind the announcement: PING would overtake it in the session's queue. */
	if (frame->hd.type == NGHTTP2_GOAWAY && c->state == H2_DRAINING)
		nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, NULL);
	if (frame->hd.type == NGHTTP2_DATA)
		h2_flood_sent_data(&c->flood);
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
		!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (stream)
		h2_stream_response_ended(stream);
	return 0;
}

/* ---- the session ----------------------------------------------------------------------------- */

static int on_error(nghttp2_session *session, int code, const char *text, size_t len, void *user)
{
	struct h2_connection *c = h2_connection_of(user);

	(void)session;
	log_debug("client %.*s: HTTP/2 error %d: %.*s", SLICE_ARGS(forwarded_peer_text(&c->peer)),
		code, (int)len, text);
	return 0;
}

bool h2_session_make(struct h2_worker *h2)
{
	if (nghttp2_session_callbacks_new(&h2->callbacks) != 0)
		return false;
	nghttp2_session_callbacks *calls = h2->callbacks;
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(calls, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
	nghttp2_session_callbacks_set_send_data_callback(calls, h2_output_send_data);
	nghttp2_session_callbacks_set_data_source_read_length_callback(
		calls, h2_output_most_of_frame);
	nghttp2_session_callbacks_set_error_callback2(calls, on_error);
	if (nghttp2_option_new(&h2->option) != 0)
		return false;
	nghttp2_option_set_no_auto_window_update(h2->option, 1);
	nghttp2_option_set_no_closed_streams(h2->option, 1);
	nghttp2_option_set_max_outbound_ack(h2->option, ACKS_MOST);
	/* Heads of servers may be as long as the limits of HTTP/1 allow. */
	nghttp2_option_set_max_send_header_block_length(h2->option, 16 * 1024 * 1024);
	return true;
}

void h2_session_free(struct h2_worker *h2)
{
	nghttp2_session_callbacks_del(h2->callbacks);
	nghttp2_session_callbacks_del(h2->server_callbacks);
	nghttp2_option_del(h2->option);
}

bool h2_session_begin(struct h2_connection *c)
{
	const struct conf_listener *conf = c->listener->conf;
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, conf->max_streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, EARLY_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, conf->max_header_bytes},
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};

	if (nghttp2_session_server_new2(
		    &c->link.session, c->h2->callbacks, &c->link, c->h2->option) != 0) {
		c->link.session = NULL;
		return false;
	}
	c->flood = (struct h2_flood){
		.preface_left = NGHTTP2_CLIENT_MAGIC_LEN, .block_most = 2 * conf->max_header_bytes};
	c->flooded = H2_FLOOD_NONE;
	return nghttp2_submit_settings(c->link.session, NGHTTP2_FLAG_NONE, settings,
		       sizeof(settings) / sizeof(settings[0])) == 0 &&
	       nghttp2_session_set_local_window_size(
		       c->link.session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

bool h2_session_receive(struct h2_connection *c, const uint8_t *bytes, size_t len)
{
	enum h2_flood_kind kind = h2_flood_walk(&c->flood, bytes, len, worker_now_ns(c->worker));

	if (kind != H2_FLOOD_NONE) {
		c->flooded = kind;
		return false;
	}
	c->link.receiving = true;
	ssize_t read = nghttp2_session_mem_recv(c->link.session, bytes, len);
	c->link.receiving = false;
	if (read < 0)
		nghttp2_session_terminate_session(c->link.session, NGHTTP2_INTERNAL_ERROR);
	return read >= 0;
}

void h2_session_finish(struct h2_connection *c)
{
	if (c->state != H2_DRAINING)
		return;
	h2_enter(c, H2_FINISHING);
	nghttp2_submit_goaway(c->link.session, NGHTTP2_FLAG_NONE,
		nghttp2_session_get_last_proc_stream_id(c->link.session), NGHTTP2_NO_ERROR, NULL,
		0);
	h2_write_later(c);
}
