/* Socket calls shared by the bench's programs. They serve loopback only, so IPv4 is enough here. */
#include "tests/bench/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

void sockets_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

bool sockets_parse(const char *text, struct sockaddr_in *address)
{
	char host[64] = "127.0.0.1";
	const char *port = text;
	const char *colon = strrchr(text, ':');
	char *end = NULL;

	if (colon != NULL) {
		size_t length = (size_t)(colon - text);
		if (length >= sizeof host)
			return false;
		memcpy(host, text, length);
		host[length] = '\0';
		port = colon + 1;
	}
	unsigned long number = strtoul(port, &end, 10);
	if (end == port || *end != '\0' || number == 0 || number > 65535)
		return false;
	memset(address, 0, sizeof *address);
	address->sin_family = AF_INET;
	address->sin_port = htons((uint16_t)number);
	return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

static void without_delay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		sockets_die("TCP_NODELAY");
}

int sockets_listen(const struct sockaddr_in *address)
{
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		sockets_die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0)
		sockets_die("setsockopt");
	if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0)
		sockets_die("bind");
	if (listen(fd, 65535) != 0)
		sockets_die("listen");
	return fd;
}

int sockets_connect(const struct sockaddr_in *address, bool *connecting)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	without_delay(fd);
	*connecting = false;
	if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
		return fd;
	if (errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	*connecting = true;
	return fd;
}

int sockets_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0)
		without_delay(fd);
	return fd;
}

uint64_t sockets_raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		sockets_die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		sockets_die("setrlimit");
	return limit.rlim_cur;
}
