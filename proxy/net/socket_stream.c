#include "net/socket_stream.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "net/transfer.h"

struct socket_end {
	struct event event;
	int fd;
	bool is_bound; /* see stream_reset_at_death */
	bool is_copy;  /* see stream_copy */
};
TRANSPORT_FITS(struct socket_end, struct transport_end);

struct socket_carried {
	int fd;
	bool is_bound, is_copy;
};
TRANSPORT_FITS(struct socket_carried, struct transport_carried);

static inline struct socket_end *end_of(struct stream *stream)
{
	return (struct socket_end *)(void *)stream->end.bytes;
}

static inline int fd_of(const struct stream *stream)
{
	return ((const struct socket_end *)(const void *)stream->end.bytes)->fd;
}

static inline struct socket_carried *carried_of(struct transport_carried *carried)
{
	return (struct socket_carried *)(void *)carried->bytes;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct stream *stream = arg;

	(void)fd;
	if (what & EV_READ)
		stream->readable = true;
	if (what & EV_WRITE)
		stream->writable = true;
	if (what & EV_CLOSED)
		stream->readable = stream->peer_closed = true;
	stream_wake(stream);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static enum stream_result socket_read(struct stream *stream, struct buffer *buffer)
{
	size_t room = buffer_room(buffer);
	ssize_t n;

	stream->unsure = 0;
	do {
		n = transfer_receive(fd_of(stream), buffer->at + buffer->end, room);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		buffer->end += (uint32_t)n;
		stream->received += (size_t)n;
		if ((size_t)n < room && !stream->peer_closed)
			stream_note_short(stream);
		return STREAM_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		stream->readable = false;
		return STREAM_AGAIN;
	}
	return stream_note_end(stream, n < 0 ? errno : 0);
}

static enum stream_result socket_peek(struct stream *stream, struct buffer *buffer)
{
	ssize_t n;

	do {
		n = recv(fd_of(stream), buffer->at + buffer->end, buffer_room(buffer), MSG_PEEK);
	} while (n < 0 && errno == EINTR);
	stream->readable = false;
	if (n > 0) {
		buffer->end += (uint32_t)n;
		return STREAM_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return STREAM_AGAIN;
	return stream_note_end(stream, n < 0 ? errno : 0);
}

static ssize_t send_pieces(int fd, const struct iovec *pieces, int count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = (size_t)count};

	return transfer_send_pieces(fd, &message);
}

static enum stream_result socket_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	size_t wanted = pieces[0].iov_len;
	ssize_t n;

	for (int i = 1; i < count; i++)
		wanted += pieces[i].iov_len;
	do {
		n = count == 1 ? transfer_send(fd_of(stream), pieces[0].iov_base, wanted)
			       : send_pieces(fd_of(stream), pieces, count);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		*written = 0;
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN) {
			stream->writable = false;
			return STREAM_AGAIN;
		}
		stream->failed = true;
		return STREAM_FAILED;
	}
	*written = (size_t)n;
	stream->sent += (size_t)n;
	if ((size_t)n == wanted)
		return STREAM_OK;
	stream->writable = false;
	return STREAM_AGAIN;
}

static void socket_end_output(struct stream *stream)
{
	shutdown(fd_of(stream), SHUT_WR);
}

/* Does its last close reset it? Also that by the system, when the process has died. */
static void set_reset(int fd, bool resets)
{
	struct linger linger = {.l_onoff = resets, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void socket_reset_at_close(struct stream *stream)
{
	set_reset(fd_of(stream), true);
	end_of(stream)->is_bound = false;
}

static void socket_reset_at_death(struct stream *stream)
{
	if (end_of(stream)->is_bound)
		return;
	set_reset(fd_of(stream), true);
	end_of(stream)->is_bound = true;
}

/* A unix socket has no such option: it refuses. */
static void socket_limit_unsent(struct stream *stream, unsigned bytes)
{
	setsockopt(fd_of(stream), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

/* On a unix socket they do nothing: its peer is a process of this machine. */
static void socket_keep_alive(struct stream *stream)
{
	static const struct {
		int level, option, value;
	} options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
		{IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd_of(stream), options[i].level, options[i].option, &options[i].value,
			sizeof(options[i].value));
}

/* ---- state ----------------------------------------------------------------------------------- */

static socklen_t socket_local(const struct stream *stream, struct sockaddr_storage *address)
{
	socklen_t len = sizeof(*address);

	return getsockname(fd_of(stream), (struct sockaddr *)address, &len) == 0 ? len : 0;
}

static int socket_error(const struct stream *stream)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd_of(stream), SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		return errno;
	return error;
}

static bool has(const struct stream *stream, short events)
{
	struct pollfd poll_fd = {.fd = fd_of(stream), .events = events};

	return poll(&poll_fd, 1, 0) == 1 &&
	       (poll_fd.revents & (events != 0 ? events : POLLERR | POLLHUP)) != 0;
}

static bool socket_is_cut(const struct stream *stream)
{
	return has(stream, 0);
}

static bool socket_has_input(const struct stream *stream)
{
	return has(stream, POLLIN);
}

static size_t socket_untaken(const struct stream *stream)
{
	int held = 0;

	if (ioctl(fd_of(stream), SIOCOUTQ, &held) != 0 || held < 0)
		return 0;
	/* A unix socket counts what it needs for them, too. */
	return (uint64_t)held < stream->sent ? (size_t)held : stream->sent;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A copy ends now, not when the thread that it was copied from has closed its own. */
static void close_socket(const struct socket_carried *carried)
{
	if (carried->is_copy)
		shutdown(carried->fd, SHUT_RDWR);
	if (carried->is_bound)
		set_reset(carried->fd, false);
	close(carried->fd);
}

static struct socket_carried carried_from(const struct socket_end *end)
{
	return (struct socket_carried){end->fd, end->is_bound, end->is_copy};
}

static void socket_close(struct stream *stream)
{
	const struct socket_carried carried = carried_from(end_of(stream));

	event_del(&end_of(stream)->event);
	close_socket(&carried);
	end_of(stream)->fd = -1;
}

static struct transport_carried socket_carry(struct stream *stream)
{
	struct transport_carried carried;

	*carried_of(&carried) = carried_from(end_of(stream));
	event_del(&end_of(stream)->event);
	end_of(stream)->fd = -1;
	return carried;
}

/* Both are one socket: that the copy is bound, or the connection, must not end with the stream. */
static bool socket_copy(struct stream *stream, struct transport_carried *into)
{
	struct socket_carried *copy = carried_of(into);

	copy->fd = fcntl(fd_of(stream), F_DUPFD_CLOEXEC, 0);
	if (copy->fd < 0)
		return false;
	copy->is_copy = true;
	copy->is_bound = end_of(stream)->is_bound;
	end_of(stream)->is_bound = end_of(stream)->is_copy = false;
	return true;
}

static void socket_cut(const struct stream *stream)
{
	shutdown(fd_of(stream), SHUT_RDWR);
}

static bool socket_import(struct stream *stream, struct stream_loop *loop,
	struct transport_carried *from, const struct stream_calls *calls)
{
	const struct socket_carried *carried = carried_of(from);

	if (!socket_stream_open(stream, loop, carried->fd, true, calls))
		return false;
	end_of(stream)->is_bound = carried->is_bound;
	end_of(stream)->is_copy = carried->is_copy;
	return true;
}

static bool socket_is_silent(const struct transport_carried *from)
{
	const struct socket_carried *carried = (const struct socket_carried *)(const void *)from;
	char byte;
	ssize_t n;

	do {
		n = recv(carried->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

static void socket_discard(struct transport_carried *from)
{
	struct socket_carried *carried = carried_of(from);

	close_socket(carried);
	carried->fd = -1;
}

static void socket_reject(struct transport_carried *from)
{
	struct socket_carried *carried = carried_of(from);

	carried->is_bound = false;
	set_reset(carried->fd, true);
	socket_discard(from);
}

static const struct transport sockets = {
	.name = "socket",
	.read = socket_read,
	.peek = socket_peek,
	.write = socket_write,
	.end_output = socket_end_output,
	.reset_at_close = socket_reset_at_close,
	.limit_unsent = socket_limit_unsent,
	.keep_alive = socket_keep_alive,
	.reset_at_death = socket_reset_at_death,
	.local = socket_local,
	.error = socket_error,
	.is_cut = socket_is_cut,
	.has_input = socket_has_input,
	.untaken = socket_untaken,
	.close = socket_close,
	.export = socket_carry,
	.copy = socket_copy,
	.cut = socket_cut,
	.import = socket_import,
	.is_silent = socket_is_silent,
	.discard = socket_discard,
	.reject = socket_reject,
};

bool socket_stream_open(struct stream *stream, struct stream_loop *loop, int fd, bool connected,
	const struct stream_calls *calls)
{
	stream_begin(stream, &sockets, loop, connected, calls);
	end_of(stream)->fd = fd;
	event_assign(&end_of(stream)->event, loop->loop->base, fd,
		EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_event, stream);
	if (event_add(&end_of(stream)->event, NULL) == 0)
		return true;
	close(fd);
	end_of(stream)->fd = -1;
	stream->open = false;
	return false;
}

int socket_stream_fd(const struct stream *stream)
{
	return fd_of(stream);
}

struct stream_export socket_export(int fd)
{
	struct stream_export made = {.transport = &sockets};

	*carried_of(&made.carried) = (struct socket_carried){.fd = fd};
	return made;
}

int socket_stream_connect(struct stream *stream, struct stream_loop *loop,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls)
{
	int one = 1;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	stream->open = false;
	if (fd < 0)
		return errno;
	if (address->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	bool connected = connect(fd, address, len) == 0;
	if (!connected && errno != EINPROGRESS) {
		int error = errno;
		close(fd);
		return error;
	}
	return socket_stream_open(stream, loop, fd, connected, calls) ? 0 : ENOMEM;
}
