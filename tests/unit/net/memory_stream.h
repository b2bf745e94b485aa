/*
 * A transport for tests: a connection in memory, whose other end the test plays by calls. It wakes
 * its stream as the system's would, and holds `room` bytes each way. With faults it does all that a
 * transport may do: short reads and writes, wakes for nothing, refusals in between.
 */
#ifndef UNIT_NET_MEMORY_STREAM_H
#define UNIT_NET_MEMORY_STREAM_H

#include "../random.h"
#include "net/stream.h"

struct memory_peer;

/* Our end becomes `stream`; what is returned is the peer's. */
struct memory_peer *memory_stream_open(struct stream *stream, struct stream_loop *loop, size_t room,
	const struct stream_calls *calls);

/* The same on no loop, and with a handshake: so many bytes come first, then `protocol` (NULL: none)
 * is chosen. A byte 'X' among them fails it, with 'H' the peer speaks without it. */
struct memory_peer *memory_handshake_new(
	struct stream_export *stream, size_t room, unsigned bytes, const char *protocol);

/* The same without a handshake. */
struct memory_peer *memory_export_new(struct stream_export *stream, size_t room);

/* From now on reads and writes take a random part, or nothing for a moment. */
void memory_peer_set_faults(struct memory_peer *peer, struct random random);

/* Bytes that the transport takes for itself, as a session ticket of TLS. */
void memory_peer_send_noise(struct memory_peer *peer);
/* How many bytes there was room for. */
size_t memory_peer_send(struct memory_peer *peer, const void *bytes, size_t len);
/* How many there were, 0: none now; -1: the end of data, -2: a reset. */
long memory_peer_receive(struct memory_peer *peer, void *bytes, size_t room);
void memory_peer_end_output(struct memory_peer *peer);
/* The same, and the system has not told the loop of it yet. */
void memory_peer_end_unheard(struct memory_peer *peer);
void memory_peer_reset(struct memory_peer *peer);
/* Ends it, and gives its memory back once the stream is closed, too. */
void memory_peer_close(struct memory_peer *peer);

#endif
