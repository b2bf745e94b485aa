/*
 * The client's end of one keep-alive HTTP/1.1 connection, one request at a time: what the load
 * generator drives. Answers must have a Content-Length, as those of the bench have.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_HEAD_BYTES = 4096 };

struct client {
	int fd;
	bool busy;       /* a request is under way */
	uint64_t due_ns; /* when the request should have been sent */
	char *unsent;    /* what a short write left over */
	size_t unsent_at;
	size_t unsent_bytes;
	size_t body_left; /* of the answer's body */
	int status;       /* of the answer being read; 0 before its head is complete */
	char *part;       /* an incomplete head, CLIENT_HEAD_BYTES */
	size_t part_bytes;
	struct client *next_free;
};

enum client_outcome { CLIENT_WAITS, CLIENT_ANSWERED, CLIENT_BROKEN };

/* Sends a request (copying what the socket does not take at once). Returns false when the
 * connection broke. */
bool client_send(struct client *client, const char *bytes, size_t length);

/* Sends on what a short write left over. Returns false when the connection broke. */
bool client_flush(struct client *client);

/*
 * Reads what has come. CLIENT_ANSWERED: the answer is complete, `client->status` is its status and
 * the client is no longer busy. CLIENT_BROKEN: closed by the peer, or an answer without a
 * Content-Length.
 */
enum client_outcome client_read(struct client *client);

/* Closes the socket and frees what belongs to it, ready for another connection. */
void client_close(struct client *client);

#endif
