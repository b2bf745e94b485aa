/* Which server an exchange is forwarded to, over which connection, and what comes of it when there
 * is none. */
#ifndef EXCHANGE_FIND_SERVER_H
#define EXCHANGE_FIND_SERVER_H

#include <stdbool.h>

struct exchange;

/* Its turn has come, and nothing delays it: finds it a server, or its session's connection. */
void exchange_forward(struct exchange *exchange);

/* The next server that was not tried yet and a connection to it, or an answer. Forwarding starts
 * when the connection is there. `fresh`: not one that has served. */
void find_server(struct exchange *exchange, bool fresh);

/* It waits for a connection or a descriptor, and exchange_look_again's time is over: another server
 * than those that it waits for may serve by now, or there is a descriptor. */
void find_server_again(struct exchange *exchange);

/* The connection that was being made could not be, with this errno: tries another server, or
 * answers with the status. */
void find_server_connect_failed(
	struct exchange *exchange, const char *why, int error, unsigned status);

/* The exchange's server has failed: a line in the log, now and then. */
void find_server_log_failure(struct exchange *exchange, const char *why);

#endif
