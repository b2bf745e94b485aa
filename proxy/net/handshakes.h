/*
 * Handshakes of TCP that the kernel has begun for a listening socket and not finished: it has
 * answered a client's SYN, and the client's ACK has not arrived. accept(2) does not show them, and
 * the client, whose side is finished earlier, may have sent a request.
 */
#ifndef NET_HANDSHAKES_H
#define NET_HANDSHAKES_H

enum handshakes {
	HANDSHAKES_NONE,
	HANDSHAKES_UNDER_WAY,
	HANDSHAKES_UNKNOWN, /* the system does not show them; errno says why */
};

/* Asks the kernel (sock_diag(7)) for handshakes with the port of the socket, of whichever of the
 * sockets that share the port they are. It walks the system's table of connections: some
 * milliseconds where there are a million. A socket that is not of TCP has none.
 *
 * Clients that the kernel serves by SYN cookies are not seen. It sends these when the table of
 * handshakes is full, so there are others that are. */
enum handshakes handshakes_look(int fd);

#endif
