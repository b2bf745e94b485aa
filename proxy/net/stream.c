#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/transfer.h"

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

static bool run_stage(struct loop_stage *stage)
{
	struct stream_loop *loop =
		(struct stream_loop *)((char *)stage - offsetof(struct stream_loop, stage));

	return loop->first && stream_round(loop);
}

void stream_loop_init(struct stream_loop *streams, struct loop *loop)
{
	*streams =
		(struct stream_loop){.loop = loop, .stage.run = run_stage, .end = &streams->first};
	loop_add_stage(loop, LOOP_READ, &streams->stage);
}

void stream_wake(struct stream *stream)
{
	struct stream_loop *loop = stream->loop;

	if (stream->woken)
		return;
	stream->woken = true;
	stream->next_woken = NULL;
	*loop->end = stream;
	loop->end = &stream->next_woken;
}

/* The next that is still open, or NULL. */
static struct stream *take_woken(struct stream_loop *loop)
{
	struct stream *stream;

	while ((stream = loop->first)) {
		loop->first = stream->next_woken;
		if (!loop->first)
			loop->end = &loop->first;
		stream->woken = false;
		if (stream->fd >= 0)
			break;
	}
	return stream;
}

bool stream_round(struct stream_loop *loop)
{
	struct stream *round[STREAM_ROUND];
	unsigned count = 0;

	while (count < STREAM_ROUND && (round[count] = take_woken(loop)))
		count++;
	loop->fetched = 0;
	for (unsigned i = 0; i < count && loop->fetched < STREAM_ROUND_BYTES; i++) {
		if (round[i]->readable && round[i]->calls->fetch)
			round[i]->calls->fetch(round[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (round[i]->fd >= 0) /* not closed by one before it */
			round[i]->calls->notify(round[i]);
	}
	return count > 0;
}

bool stream_open(struct stream *stream, struct stream_loop *loop, int fd, bool connected,
	const struct stream_calls *calls)
{
	*stream = (struct stream){.fd = fd, .writable = connected, .calls = calls, .loop = loop};
	event_assign(&stream->event, loop->loop->base, fd,
		EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_event, stream);
	if (event_add(&stream->event, NULL) == 0)
		return true;
	close(fd);
	stream->fd = -1;
	return false;
}

void stream_close(struct stream *stream)
{
	if (stream->fd < 0)
		return;
	event_del(&stream->event);
	close(stream->fd);
	stream->fd = -1;
}

void stream_reset_at_close(struct stream *stream)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

int stream_let_go(struct stream *stream)
{
	int fd = stream->fd;

	event_del(&stream->event);
	stream->fd = -1;
	return fd;
}

enum stream_result stream_read(struct stream *stream, struct buffer *buffer)
{
	size_t room = buffer_room(buffer);
	ssize_t n;

	if (stream->read_ended)
		return STREAM_END;
	stream->unsure = false;
	do {
		n = transfer_receive(stream->fd, buffer->at + buffer->end, room);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		buffer->end += (uint32_t)n;
		stream->received += (size_t)n;
		if ((size_t)n < room && !stream->peer_closed) {
			stream->readable = false;
			stream->unsure = true;
		}
		return STREAM_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		stream->readable = false;
		return STREAM_AGAIN;
	}
	stream->read_ended = true;
	stream->readable = false;
	if (n == 0)
		return STREAM_END;
	stream->failed = true;
	return STREAM_FAILED;
}

void stream_fetch(struct stream *stream, struct buffer *buffer, struct buffer_pool *pool)
{
	if (!buffer_acquire(buffer, pool))
		return;
	switch (stream_read(stream, buffer)) {
	case STREAM_OK:
		stream->loop->fetched += buffer_used(buffer);
		return;
	case STREAM_AGAIN:
		break;
	case STREAM_END:
	case STREAM_FAILED:
		stream->readable = true;
		break;
	}
	buffer_release(buffer, pool);
}

static ssize_t send_pieces(int fd, const struct iovec *pieces, int count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = (size_t)count};

	return transfer_send_pieces(fd, &message);
}

enum stream_result stream_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	size_t wanted = pieces[0].iov_len;
	ssize_t n;

	for (int i = 1; i < count; i++)
		wanted += pieces[i].iov_len;
	do {
		n = count == 1 ? transfer_send(stream->fd, pieces[0].iov_base, wanted)
			       : send_pieces(stream->fd, pieces, count);
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

int stream_error(const struct stream *stream)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		return errno;
	return error;
}

bool stream_is_stale(const struct stream *stream)
{
	return stream->readable || stream->peer_closed || stream->read_ended || stream->failed;
}
