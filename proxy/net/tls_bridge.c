#include "net/tls_bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/container.h"
#include "net/dial.h"

#define WAY_BYTES 16384
#define TURNS     16 /* of a way, before others have theirs */

/* One direction. */
struct way {
	struct stream *from, *to;
	struct buffer buffer; /* of `bytes`, of no pool */
	char bytes[WAY_BYTES];
};

struct tls_bridge {
	struct stream near, far;
	struct way out, in;
	bool is_up;
	char why[160];
	struct deferred_free deferred;
};

static void way_init(struct way *way, struct stream *from, struct stream *to)
{
	way->from = from;
	way->to = to;
	way->buffer = (struct buffer){.at = way->bytes, .capacity = sizeof(way->bytes)};
}

/* False: `from` has ended, and all of it was written, or `to` has failed. */
static bool run(struct way *way)
{
	struct buffer *buffer = &way->buffer;
	size_t written = 0;

	for (unsigned i = 0; i < TURNS; i++) {
		if (buffer_used(buffer) == 0) {
			buffer->start = buffer->end = 0;
			if (!way->from->readable && !way->from->read_ended)
				return true;
			enum stream_result result = stream_read(way->from, buffer);
			if (result != STREAM_OK)
				return result == STREAM_AGAIN;
		}
		if (!way->to->writable && !way->to->failed)
			return true;
		struct iovec piece = {buffer_head(buffer), buffer_used(buffer)};
		enum stream_result result = stream_write(way->to, &piece, 1, &written);
		buffer->start += (uint32_t)written;
		if (result != STREAM_OK)
			return result == STREAM_AGAIN;
	}
	stream_yield(way->from);
	return true;
}

static void stop(struct tls_bridge *bridge, const char *why)
{
	if (why && !bridge->why[0])
		snprintf(bridge->why, sizeof(bridge->why), "%s", why);
	stream_close(&bridge->near);
	stream_close(&bridge->far);
}

static void advance(struct tls_bridge *bridge)
{
	const char *why = NULL;
	int error = bridge->is_up ? 0 : dial_progress(&bridge->far, &why);

	if (error == EINPROGRESS)
		return;
	if (error != 0) {
		stop(bridge, why);
		return;
	}
	bridge->is_up = true;
	bool goes_on = run(&bridge->out);
	if (!run(&bridge->in) || !goes_on)
		stop(bridge, stream_why(&bridge->far));
}

static void on_near(struct stream *stream)
{
	struct tls_bridge *bridge = CONTAINER_OF(stream, struct tls_bridge, near);

	if (bridge->is_up)
		advance(bridge);
}

static void on_far(struct stream *stream)
{
	advance(CONTAINER_OF(stream, struct tls_bridge, far));
}

static const struct stream_calls near_calls = {NULL, on_near}, far_calls = {NULL, on_far};

static void free_bridge(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct tls_bridge, deferred));
}

/* `pair` and `server` are closed if it fails. */
static bool open_both(struct tls_bridge *bridge, struct stream_loop *loop,
	struct tls_client *client, int pair, int server)
{
	if (!socket_stream_open(&bridge->near, loop, pair, true, &near_calls)) {
		close(server);
		return false;
	}
	if (tls_connect_socket(&bridge->far, loop, client, server, &far_calls))
		return true;
	stream_close(&bridge->near);
	return false;
}

struct tls_bridge *tls_bridge_open(struct stream_loop *loop, struct tls_client *client, int fd)
{
	struct tls_bridge *bridge = calloc(1, sizeof(*bridge));
	int pair[2] = {-1, -1}, server = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (!bridge || server < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
		if (server >= 0)
			close(server);
		free(bridge);
		return NULL;
	}
	way_init(&bridge->out, &bridge->near, &bridge->far);
	way_init(&bridge->in, &bridge->far, &bridge->near);
	if (open_both(bridge, loop, client, pair[1], server) && dup3(pair[0], fd, O_CLOEXEC) >= 0) {
		close(pair[0]);
		return bridge;
	}
	close(pair[0]);
	stop(bridge, NULL);
	loop_free_later(loop->loop, &bridge->deferred, free_bridge);
	return NULL;
}

bool tls_bridge_is_up(const struct tls_bridge *bridge)
{
	return bridge->is_up;
}

const char *tls_bridge_why(const struct tls_bridge *bridge)
{
	return bridge->why[0] ? bridge->why : NULL;
}

void tls_bridge_close(struct tls_bridge *bridge)
{
	if (!bridge)
		return;
	struct loop *loop = bridge->near.loop->loop;
	bridge->near.readable |= bridge->near.open;
	if (bridge->is_up && bridge->far.open)
		run(&bridge->out);
	stop(bridge, NULL);
	loop_free_later(loop, &bridge->deferred, free_bridge);
}
