#include "net/acceptor.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <poll.h>
#include <unistd.h>

#include "net/socket_stream.h"

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	acceptor->ready(acceptor);
}

void acceptor_open(struct acceptor *acceptor, struct loop *loop, int fd,
	void (*ready)(struct acceptor *acceptor))
{
	*acceptor = (struct acceptor){.fd = fd, .ready = ready};
	event_assign(&acceptor->event, loop->base, fd, EV_READ | EV_PERSIST, on_event, acceptor);
}

void acceptor_close(struct acceptor *acceptor)
{
	if (acceptor->fd < 0)
		return;
	acceptor_stop(acceptor);
	close(acceptor->fd);
	acceptor->fd = -1;
}

bool acceptor_start(struct acceptor *acceptor)
{
	if (!acceptor->accepting && acceptor->fd >= 0)
		acceptor->accepting = event_add(&acceptor->event, NULL) == 0;
	return acceptor->accepting || acceptor->fd < 0;
}

void acceptor_stop(struct acceptor *acceptor)
{
	if (acceptor->accepting)
		event_del(&acceptor->event);
	acceptor->accepting = false;
}

int acceptor_take(struct acceptor *acceptor, struct stream_export *client,
	struct sockaddr_storage *peer, socklen_t *len)
{
	*len = sizeof(*peer);
	int fd = accept4(acceptor->fd, (struct sockaddr *)peer, len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return errno;
	*client = socket_export(fd);
	return 0;
}

bool acceptor_has_client(const struct acceptor *acceptor)
{
	struct pollfd poll_fd = {.fd = acceptor->fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

int acceptor_set_backlog(const struct acceptor *acceptor, int backlog)
{
	return listen(acceptor->fd, backlog) == 0 ? 0 : errno;
}

bool acceptor_keep_out(const struct acceptor *acceptor)
{
	/* A SYN is dropped, an ACK is not: tcp[13] & (SYN | ACK) == SYN */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	const int nowhere = INT_MAX; /* an interface that no system has */

	if (setsockopt(acceptor->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0)
		return true;
	/* Without the right to filter. Handshakes that have begun are found by their own entries.
	 */
	if (setsockopt(acceptor->fd, SOL_SOCKET, SO_BINDTOIFINDEX, &nowhere, sizeof(nowhere)) == 0)
		return true;
	int error = errno;
	listen(acceptor->fd, 0);
	errno = error;
	return false;
}

enum handshakes acceptor_handshakes(const struct acceptor *acceptor)
{
	return handshakes_look(acceptor->fd);
}
