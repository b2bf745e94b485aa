/*
 * Connections to servers that were closed while the server's system had not yet confirmed all that
 * was sent. Closing does not end that: our system goes on sending, on a way that is cut for minutes
 * after it has been mended, and what it sends is of a session that may be another node's by then.
 *
 *   closed --unconfirmed, of a session owned here--> parting --confirmed, failed--> gone
 *                               the lease ends, another owner, no progress --> discarded
 *
 * Meanwhile the session is in use.
 */
#ifndef OWNERSHIP_PARTING_H
#define OWNERSHIP_PARTING_H

#include <stdbool.h>

/* So many of a worker's: of more, what is unconfirmed is discarded at once. Clients that come and
 * leave bring them about, at a server that does not read. Those there are give way to what lacks a
 * descriptor (site/spare.h). */
#define PARTINGS_MOST 256

struct owner_use;
struct server_connection;
struct stream;
struct worker;

/* Has a server answered, and yet its system not confirmed all of the request? One that answers
 * early, before it has read the request. Its connection can't serve others: what is left of the
 * request would be sent even when the session is another node's by then. Only one with a body, or
 * a long head, has to be asked about. */
bool parting_is_due(struct server_connection *connection, const struct owner_use *use);

/* Closes a connection to a server, on which something was sent under this ownership, if any; that
 * stays the caller's. What is unconfirmed is discarded if the lease is over, there are too many, or
 * without memory. */
void parting_close(struct stream *stream, struct worker *worker, const struct owner_use *use);
/* The same of one that an exchange has, up to the closing of the connection itself. */
void parting_close_server(
	struct server_connection *connection, struct worker *worker, const struct owner_use *use);

/* Discards the oldest, which holds a descriptor. False: there is none. */
bool partings_give_up(struct worker *worker);

/* Discards what is left on this worker, which ends. */
void partings_end(struct worker *worker);

#endif
