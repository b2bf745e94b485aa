#include "http2/h2_probe.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "net/stream.h"

struct h2_probe {
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;
	char status[4]; /* of the last head */
	bool has_final_head, is_closed;
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct h2_probe *probe = user;
	struct slice text = {(const char *)name, name_len};

	(void)session;
	(void)frame;
	(void)flags;
	if (slice_equal(text, SLICE(":status")) && value_len == 3)
		memcpy(probe->status, value, 3);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_probe *probe = user;

	(void)session;
	if (frame->hd.type == NGHTTP2_HEADERS && probe->status[0] > '1')
		probe->has_final_head = true;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
	struct h2_probe *probe = user;

	(void)session;
	(void)id;
	(void)error_code;
	probe->is_closed = true;
	return 0;
}

static nghttp2_nv field(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
		strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static bool begin(struct h2_probe *probe, const char *host, const char *path, bool is_https)
{
	const nghttp2_nv fields[] = {field(":method", "GET"),
		field(":scheme", is_https ? "https" : "http"), field(":authority", host),
		field(":path", path), field("user-agent", "sluice-health")};
	const nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_ENABLE_PUSH, 0};

	if (nghttp2_session_callbacks_new(&probe->callbacks) != 0)
		return false;
	nghttp2_session_callbacks_set_on_header_callback(probe->callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(probe->callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(probe->callbacks, on_close);
	return nghttp2_session_client_new(&probe->session, probe->callbacks, probe) == 0 &&
	       nghttp2_submit_settings(probe->session, NGHTTP2_FLAG_NONE, &settings, 1) == 0 &&
	       nghttp2_submit_request(probe->session, NULL, fields,
		       sizeof(fields) / sizeof(fields[0]), NULL, NULL) > 0;
}

struct h2_probe *h2_probe_new(const char *host, const char *path, bool is_https)
{
	struct h2_probe *probe = calloc(1, sizeof(*probe));

	if (probe && !begin(probe, host, path, is_https)) {
		h2_probe_free(probe);
		return NULL;
	}
	return probe;
}

void h2_probe_free(struct h2_probe *probe)
{
	if (!probe)
		return;
	nghttp2_session_del(probe->session);
	nghttp2_session_callbacks_del(probe->callbacks);
	free(probe);
}

bool h2_probe_send(struct h2_probe *probe, struct stream *stream)
{
	const uint8_t *bytes;
	ssize_t len;

	while ((len = nghttp2_session_mem_send(probe->session, &bytes)) > 0) {
		struct iovec piece = {(void *)(uintptr_t)bytes, (size_t)len};
		size_t written;
		if (stream_write(stream, &piece, 1, &written) != STREAM_OK)
			return false;
	}
	return len == 0;
}

enum h2_probe_result h2_probe_receive(struct h2_probe *probe, const char *bytes, size_t len)
{
	ssize_t read = nghttp2_session_mem_recv(probe->session, (const uint8_t *)bytes, len);

	if (probe->has_final_head)
		return H2_PROBE_ANSWERED;
	return read < 0 || probe->is_closed || !nghttp2_session_want_read(probe->session)
		       ? H2_PROBE_BROKEN
		       : H2_PROBE_WAITS;
}

const char *h2_probe_status(const struct h2_probe *probe)
{
	return probe->status;
}
