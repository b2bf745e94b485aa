/*
 * The carrier of a stream's bytes: the operations that net/stream.h needs of it, and what it holds.
 * A transport notes what it knows in the stream (readable, writable, peer_closed, unsure) and wakes
 * it. tests/unit/net/test_stream.c is what each of them must pass.
 */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct buffer;
struct stream;
struct stream_calls;
struct stream_loop;
struct tls_facts;

enum stream_result { STREAM_OK, STREAM_AGAIN, STREAM_END, STREAM_FAILED };

/* A transport's own part of a stream, within the stream's memory: only the transport knows what is
 * in it. */
struct transport_end {
	alignas(void *) unsigned char bytes[136];
};

/* The same when the connection is on no loop. */
struct transport_carried {
	alignas(void *) unsigned char bytes[16];
};

#define TRANSPORT_FITS(type, whole)                                                                \
	_Static_assert(sizeof(type) <= sizeof(whole) && alignof(type) <= alignof(whole), #type)

struct transport {
	const char *name;
	bool is_encrypted; /* nobody between the peer and this process reads it */

	/* Reads once, into a buffer that has room; not called after the end was read. It clears
	 * `readable` when it knows that nothing is left and that the next bytes will wake the
	 * stream; where that is likely and not certain, it calls stream_note_short instead. Ends
	 * are noted by stream_note_end. */
	enum stream_result (*read)(struct stream *stream, struct buffer *buffer);

	/* The same as read, but all of it stays to be read, and the next bytes will wake the
	 * stream. Only before any data. NULL: the transport does not know its bytes before it has
	 * taken them. */
	enum stream_result (*peek)(struct stream *stream, struct buffer *buffer);

	/* Writes once; less than all: STREAM_AGAIN, and `writable` is cleared until the stream is
	 * woken again. */
	enum stream_result (*write)(
		struct stream *stream, const struct iovec *pieces, int count, size_t *written);

	void (*end_output)(struct stream *stream);
	void (*reset_at_close)(struct stream *stream);

	/* Continues the handshake before any data, as TLS's: OK when it is over, AGAIN until the
	 * stream is woken, FAILED with a text that stays valid as long as the stream, END
	 * where the peer speaks without it. NULL: there is no handshake. */
	enum stream_result (*handshake)(struct stream *stream, const char **why);

	/* Why the stream has failed, where the transport knows more than that it has; valid as long
	 * as the stream. NULL, also as its result: nothing more. */
	const char *(*why)(const struct stream *stream);

	/* The protocol that the handshake has chosen for the data, by its name in ALPN (RFC 7301);
	 * NULL: none was. */
	const char *(*protocol)(const struct stream *stream);

	/* Facts that TLS has shown (net/tls_facts.h). NULL: the transport is not TLS. */
	struct tls_facts *(*facts)(const struct stream *stream);

	/* Takes in what has arrived and is no data, as a session ticket of TLS, and clears
	 * `readable` if nothing else has; data and ends are left to be read. NULL: all bytes are
	 * data. */
	void (*sift)(struct stream *stream);

	/* NULL: it knows no such. */
	void (*limit_unsent)(struct stream *stream, unsigned bytes);
	void (*keep_alive)(struct stream *stream);
	void (*reset_at_death)(struct stream *stream);

	/* Our own address, as getsockname(2); its length, 0: none. NULL: it knows none. */
	socklen_t (*local)(const struct stream *stream, struct sockaddr_storage *address);

	int (*error)(const struct stream *stream);
	bool (*is_cut)(const struct stream *stream);
	bool (*has_input)(const struct stream *stream);

	/* How many of the last bytes sent the peer's system has not acknowledged, at most
	 * stream->sent, in the owner's bytes: what the transport adds to them does not count. It
	 * may be too many as long as it is not 0, but the number of those taken never falls. */
	size_t (*untaken)(const struct stream *stream);

	/* Ends what `end` holds; the stream is off its loop's lists already. */
	void (*close)(struct stream *stream);

	/* See net/stream.h. */
	struct transport_carried (*export)(struct stream *stream);
	bool (*copy)(struct stream *stream, struct transport_carried *copy);
	void (*cut)(const struct stream *stream);
	bool (*import)(struct stream *stream, struct stream_loop *loop,
		struct transport_carried *from, const struct stream_calls *calls);
	bool (*is_silent)(const struct transport_carried *from);
	void (*discard)(struct transport_carried *from);
	/* The same, and the peer sees a reset. NULL: discard. */
	void (*reject)(struct transport_carried *from);
};

/* A new stream of the transport, open and on the loop; its end is still to be filled. */
void stream_begin(struct stream *stream, const struct transport *transport,
	struct stream_loop *loop, bool connected, const struct stream_calls *calls);

/* Fewer bytes were read than there was room for: there is probably nothing left. */
void stream_note_short(struct stream *stream);

/* The end of data (error 0), or an errno value, was read: STREAM_END or STREAM_FAILED. */
enum stream_result stream_note_end(struct stream *stream, int error) __attribute__((cold));

#endif
