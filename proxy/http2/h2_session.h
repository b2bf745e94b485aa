/*
 * The session of nghttp2 for a client's connection: its options and its callbacks, by which frames
 * become events of streams and streams become frames.
 *
 *   bytes --h2_session_receive--> frames --> h2_head, h2_source, h2_stream_*
 *   bytes <--h2_output_compose--- frames <-- what was submitted; h2_sink
 *
 * Within a callback no operation of the session's that reads or composes is called; an exchange
 * that begins in one submits, and what it sends is composed later.
 */
#ifndef HTTP2_H2_SESSION_H
#define HTTP2_H2_SESSION_H

#include "http2/h2_inside.h"

/* The callbacks and options of a worker's sessions. False: no memory. */
bool h2_session_make(struct h2_worker *h2);
void h2_session_free(struct h2_worker *h2);

/* Begins the session, with our SETTINGS. False: no memory. */
bool h2_session_begin(struct h2_connection *connection);

/* Reads what has come. False: the connection is beyond use; a GOAWAY is composed where it can. */
bool h2_session_receive(struct h2_connection *connection, const uint8_t *bytes, size_t len);

/* The announcement of a drain has reached the client: from now on no stream begins. */
void h2_session_finish(struct h2_connection *connection);

#endif
