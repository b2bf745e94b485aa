/*
 * The end of a connection of HTTP/2: all is written, a GOAWAY last, and the write end is shut. What
 * its client still sends is read and thrown away, as a close behind unread bytes would take what
 * was written back by a reset.
 *
 *   until the client closes, or is silent for a while, or linger_size bytes have come, or it gives
 *   way to newer ones beyond max_lingering and to clients that wait for a place
 *
 * Those of a worker are in a list, the oldest first.
 */
#ifndef HTTP2_H2_LINGER_H
#define HTTP2_H2_LINGER_H

struct h2_connection;

void h2_linger_begin(struct h2_connection *connection);

/* Something may have come. */
void h2_linger_run(struct h2_connection *connection);

/* It closes, in whichever state it is. */
void h2_linger_leave(struct h2_connection *connection);

#endif
