/*
 * Nothing waits without end. Each open exchange and connection has a deadline that runs, or waits
 * behind something on its connection that has one:
 *
 *   exchange    its own          its server's          its client's      those before it
 *   HEAD                                               HEAD
 *   HELD                                               BODY              yes
 *   ASKING      yes
 *   DELAYED     yes
 *   QUEUED      yes
 *   CONNECTING                   CONNECT
 *   FORWARDING                   SEND, RESPONSE        BODY
 *   RELAYING                     MORE                  TAKE
 *   DRAINING                     DRAIN
 *   REPLYING                                           BODY, TAKE        yes
 *
 * What a TUNNEL has become at once, a passage, has a deadline of its own (WAIT_TUNNEL).
 *
 * A WebSocket's message has its own in ASKING, DELAYED and QUEUED; in FORWARDING it is written on
 * its handshake's connection, and waits behind that one's (TUNNEL).
 *
 * An exchange with a connection to a server is the first on its client's, or its client has left.
 * Exactly one of its own, its server's and its client's HEAD or BODY; a client that has not taken
 * what was sent to it (TAKE) is waited for first. Only progress moves them: worker/wait.h.
 *
 * With SLUICE_CHECK_WAITS in the environment each worker holds all it has against this table at the
 * end of each turn, and a fault aborts the process. The tests set it; else it costs one look a
 * turn.
 */
#ifndef DAEMON_WAIT_CHECK_H
#define DAEMON_WAIT_CHECK_H

#include <stdbool.h>

struct downstream;
struct exchange;
struct h2_connection;
struct passage;
struct server_connection;
struct worker;

/* Is it asked for by the environment? */
bool wait_check_wanted(void);

/* The faults between turns; NULL: nothing. */
const char *wait_check_exchange(const struct exchange *exchange);
/* A WebSocket's message, which is on no connection's list. */
const char *wait_check_message(const struct exchange *message, const struct passage *passage);
const char *wait_check_passage(const struct passage *passage);
/* A gateway's request, which is on its gateway's list. */
const char *wait_check_request(const struct exchange *request);
const char *wait_check_client(const struct downstream *downstream);
/* A connection of HTTP/2, without its streams. */
const char *wait_check_http2(const struct h2_connection *connection);
const char *wait_check_idle_server(const struct server_connection *connection);

/* Checks what a worker has: of many connections the newest. Aborts at a fault, which stderr names.
 */
void wait_check(const struct worker *worker);

#endif
