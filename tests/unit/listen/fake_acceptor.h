/* A listening socket that the test has in its hands; link with -Wl,--wrap of each acceptor_ call.
 */
#ifndef UNIT_LISTEN_FAKE_ACCEPTOR_H
#define UNIT_LISTEN_FAKE_ACCEPTOR_H

#include "net/acceptor.h"

#define FAKE_DESCRIPTOR 77

extern struct fake_acceptor {
	void (*ready)(struct acceptor *acceptor);
	unsigned waiting, starts, stops, closes, backlog;
	struct stream_export *next;   /* the next client; NULL: one that is not looked at */
	struct sockaddr_storage peer; /* its address; */
	socklen_t peer_len;           /* 0: none */
	int error;                    /* what accept fails with */
	enum handshakes handshakes;
	bool kept_out, keeps_nothing_out;
	bool is_deaf; /* the system does not watch it */
} fake;

#endif
