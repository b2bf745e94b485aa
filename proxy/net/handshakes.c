#include "net/handshakes.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

/* The most that one recv(2) of an answer returns; the kernel makes pieces that fit. */
union answer {
	struct nlmsghdr header;
	char bytes[16384];
};

static enum handshakes unknown(int error)
{
	errno = error;
	return HANDSHAKES_UNKNOWN;
}

static int ask(int netlink, sa_family_t family, in_port_t port)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct question question = {
		.header =
			{
				.nlmsg_len = sizeof(question),
				.nlmsg_type = SOCK_DIAG_BY_FAMILY,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			},
		.request =
			{
				.sdiag_family = (uint8_t)family,
				.sdiag_protocol = IPPROTO_TCP,
				.idiag_states = 1U << TCP_SYN_RECV,
				.id.idiag_sport = port,
			},
	};

	ssize_t sent = sendto(netlink, &question, sizeof(question), 0, (struct sockaddr *)&kernel,
		sizeof(kernel));
	return sent == sizeof(question) ? 0 : errno;
}

/* An errno value of a message that ends an answer, or 0. */
static int error_of(const struct nlmsghdr *last)
{
	int code = 0; /* NLMSG_DONE and NLMSG_ERROR both begin with it */

	if (last->nlmsg_len >= NLMSG_LENGTH(sizeof(code)))
		memcpy(&code, NLMSG_DATA(last), sizeof(code));
	return -code;
}

/* One connection is enough: the rest of the answer is not read. */
static enum handshakes read_answer(int netlink)
{
	union answer answer;

	for (;;) {
		ssize_t got = recv(netlink, &answer, sizeof(answer), 0);
		if (got < 0)
			return unknown(errno);
		size_t left = (size_t)got;
		for (struct nlmsghdr *at = &answer.header; NLMSG_OK(at, left);
			at = NLMSG_NEXT(at, left)) {
			if (at->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				return HANDSHAKES_UNDER_WAY;
			if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) {
				int error = error_of(at);
				return error == 0 ? HANDSHAKES_NONE : unknown(error);
			}
		}
		if (got == 0)
			return unknown(EPROTO);
	}
}

static enum handshakes look(sa_family_t family, in_port_t port)
{
	/* The socket need not block: the kernel has the next piece of an answer ready. */
	int netlink =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	if (netlink < 0)
		return unknown(errno);
	int error = ask(netlink, family, port);
	enum handshakes found = error == 0 ? read_answer(netlink) : unknown(error);
	error = errno;
	close(netlink);
	errno = error;
	return found;
}

enum handshakes handshakes_look(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
		return unknown(errno);
	if (address.ss_family == AF_INET)
		return look(AF_INET, ((struct sockaddr_in *)&address)->sin_port);
	if (address.ss_family != AF_INET6)
		return HANDSHAKES_NONE;
	/* The kernel lists those of an IPv4 client with a socket for both under IPv6. */
	return look(AF_INET6, ((struct sockaddr_in6 *)&address)->sin6_port);
}
