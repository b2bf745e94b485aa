/* The two ends of a connection: ours is a stream, of each kind of transport; the peer's is played
 * by the test, which waits where the system may take a moment. */
#ifndef UNIT_NET_ENDS_H
#define UNIT_NET_ENDS_H

#include "net/stream.h"

#define KINDS 6

struct ends {
	struct stream stream; /* first: from the stream back to this */
	unsigned told;        /* notify was called so often */
	struct stream_loop *streams;
	struct loop *loop;
	const struct kind *kind;
	int fd;                     /* the peer's, of sockets; -1 */
	struct memory_peer *memory; /* or this */
	struct tls_peer *tls;       /* over one of these; NULL: none */
};

struct kind {
	const char *name;
	bool resets;      /* a reset differs from an end of data by the peer */
	bool keeps_bytes; /* a reset leaves what came before it to be read */
	bool counts;      /* bytes that wait for the peer, not the memory that they need */
	bool is_faulty; /* reads and writes may do less than they could, and wakes be for nothing */
	bool cut_fails; /* a cut by our own side is a failure, and no end of data */
	const struct kind *below; /* NULL: none */
	void (*connect)(struct ends *ends);
	size_t (*send)(
		struct ends *ends, const void *bytes, size_t len); /* what there is room for */
	/* What there is, at least a byte; -1: an end of data, -2: a reset, -3: nothing now. */
	long (*receive)(struct ends *ends, void *bytes, size_t room);
	void (*send_noise)(struct ends *ends); /* bytes that are no data; NULL: it has none */
	void (*end_output)(struct ends *ends);
	void (*reset)(struct ends *ends); /* and close */
	void (*close)(struct ends *ends);
};

extern const struct kind kinds[KINDS];

/* Connected, on the loop; the events of a new connection have come. */
void ends_open(struct ends *ends, const struct kind *kind, struct stream_loop *streams);
void ends_close(struct ends *ends);

/* Turns the loop until something more was told to the stream, or until `done`. */
void ends_await(struct ends *ends);
/* Turns it as long as there is something to tell now. */
void ends_settle(struct ends *ends);

/* The same for what the peer receives: waits until there is something. */
long ends_receive(struct ends *ends, void *bytes, size_t room);

extern const struct stream_calls ends_calls;

#endif
