/*
 * recv, send and sendmsg that are no cancellation points: in a program of several threads the C
 * library makes each of these enter and leave a state in which its thread may be cancelled, and
 * none of ours ever is. Results and errno are theirs. Sanitizers watch the library's own functions,
 * so with them it is these.
 */
#ifndef NET_TRANSFER_H
#define NET_TRANSFER_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(SYS_recvfrom) && defined(SYS_sendto) && defined(SYS_sendmsg) &&                        \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRANSFER_DIRECT 1
#else
#define TRANSFER_DIRECT 0
#endif

static inline ssize_t transfer_receive(int fd, void *at, size_t room)
{
#if TRANSFER_DIRECT
	return syscall(SYS_recvfrom, fd, at, room, 0, NULL, NULL);
#else
	return recv(fd, at, room, 0);
#endif
}

/* No SIGPIPE. */
static inline ssize_t transfer_send(int fd, const void *at, size_t bytes)
{
#if TRANSFER_DIRECT
	return syscall(SYS_sendto, fd, at, bytes, MSG_NOSIGNAL, NULL, 0);
#else
	return send(fd, at, bytes, MSG_NOSIGNAL);
#endif
}

/* No SIGPIPE. */
static inline ssize_t transfer_send_pieces(int fd, const struct msghdr *message)
{
#if TRANSFER_DIRECT
	return syscall(SYS_sendmsg, fd, message, MSG_NOSIGNAL);
#else
	return sendmsg(fd, message, MSG_NOSIGNAL);
#endif
}

#endif
