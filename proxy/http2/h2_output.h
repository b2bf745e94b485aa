/*
 * What a connection of HTTP/2 sends: frames are composed into one block, as much as it has room
 * for, and written from there.
 *
 *   session, sinks --compose--> block --write--> stream
 *
 * The content of a body is copied once, from the run that its sink borrows.
 */
#ifndef HTTP2_H2_OUTPUT_H
#define HTTP2_H2_OUTPUT_H

#include "http2/h2_link.h"

/* Composes as much as can be now, and writes full blocks; the rest is written at the round's end.
 * Does nothing within the session. */
void h2_output_send(struct h2_link *link);

/* Writes what is composed. The stream is woken where that fails. */
void h2_output_write(struct h2_link *link);

/* Callbacks of the session: nghttp2_data_source_read_callback of a struct h2_sink, and how its
 * content is copied and divided into frames. */
ssize_t h2_output_read_data(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
	uint32_t *flags, nghttp2_data_source *source, void *user);
int h2_output_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
	size_t len, nghttp2_data_source *source, void *user);
ssize_t h2_output_most_of_frame(nghttp2_session *session, uint8_t type, int32_t id,
	int32_t connection_window, int32_t stream_window, uint32_t frame_most, void *user);

#endif
