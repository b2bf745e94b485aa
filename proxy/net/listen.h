/*
 * Listening sockets: opened the same way for clients and for operators.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct listen_options {
	int backlog;
	bool reuse_port; /* others of this process share the address; each has its own backlog */
	bool v6only;     /* an IPv6 address takes no IPv4 */
	mode_t mode;     /* of a unix socket's file; 0: with the umask */
};

/* A non-blocking listening socket, or -1 with errno as socket(2), setsockopt(2), bind(2), chmod(2)
 * and listen(2) set it. If no process answers on a unix socket, its file is left over from a crash
 * and is replaced. */
int listen_open(
	const struct sockaddr *address, socklen_t len, const struct listen_options *options);

/* Does another process listen there? SO_REUSEPORT, which our own sockets may share an address by,
 * would not show it. False for unix sockets. */
bool listen_is_taken(
	const struct sockaddr *address, socklen_t len, const struct listen_options *options);

#endif
