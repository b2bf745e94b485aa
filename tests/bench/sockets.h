/* What the bench's three programs (relay, origin, load) share of the socket calls. */
#ifndef BENCH_SOCKETS_H
#define BENCH_SOCKETS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* Reads "127.0.0.1:8080" (or only a port: loopback). Returns false when it is neither. */
bool sockets_parse(const char *text, struct sockaddr_in *address);

/* A listening, non-blocking socket with SO_REUSEPORT. Ends the program with a message on failure.
 */
int sockets_listen(const struct sockaddr_in *address);

/* A non-blocking connection. `*connecting` tells whether the handshake is still under way; -1 on
 * failure. */
int sockets_connect(const struct sockaddr_in *address, bool *connecting);

/* One accepted, non-blocking socket without Nagle's delay, or -1 when none is waiting. */
int sockets_accept(int listener);

/* Raises the soft limit of open files to the hard one. Returns the limit in force. */
uint64_t sockets_raise_file_limit(void);

/* Says what failed with errno's text, and ends the program. */
_Noreturn void sockets_die(const char *what);

#endif
