/*
 * The server behind every subject of the bench: answers from memory, for as little processor time
 *as it can.
 *
 *	/1k, /64k (or a path that ends so): a body of that size; anything else as /1k.
 *
 * Reads and discards bodies with a Content-Length; keeps connections alive unless the request says
 *close; answers pipelined requests with one writev. Requests are trusted to be well formed: it is
 *no server for anything else. What it answered is counted in a mapped file, so that the runner can
 *read the count at any moment.
 */
#include "tests/bench/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	HEAD_BYTES = 64 * 1024,
	EVENTS = 512,
	BATCH = 64,
	SMALL = 1024,
	LARGE = 64 * 1024,
	LISTENERS = 4
};

struct answer {
	char *bytes;
	size_t length;
};

/* A request whose head arrived in pieces is kept here until the rest comes: rare, so it is
 * allocated then. */
struct connection {
	int fd;
	bool ending; /* the peer has ended: no further edge will come, read on until 0 */
	bool close_after;
	bool gone;
	size_t body_left;  /* of the request being read, still to be discarded */
	size_t part_bytes; /* of an incomplete head */
	char *part;
	struct iovec out[BATCH]; /* answers not written yet, from out_at */
	int out_at;
	int out_count;
	struct connection *next_dead;
};

struct origin {
	int epoll;
	int listeners[LISTENERS];
	int listener_count;
	struct answer answers[2][2]; /* [large][close] */
	_Atomic uint64_t *answered;
	struct connection *dead;
	char scratch[HEAD_BYTES];
};

struct request {
	size_t head_bytes;
	size_t body_bytes;
	bool large;
	bool close;
};

static void make_answer(struct answer *answer, size_t body_bytes, const char *connection)
{
	char head[256];
	int n = snprintf(head, sizeof head,
		"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
		"Content-Type: text/plain\r\n%sContent-Length: %zu\r\n\r\n",
		connection, body_bytes);

	answer->length = (size_t)n + body_bytes;
	answer->bytes = malloc(answer->length);
	if (answer->bytes == NULL)
		sockets_die("malloc");
	memcpy(answer->bytes, head, (size_t)n);
	memset(answer->bytes + n, 'x', body_bytes);
}

static void make_answers(struct origin *origin)
{
	for (int large = 0; large < 2; large++) {
		make_answer(&origin->answers[large][0], large ? LARGE : SMALL, "");
		make_answer(
			&origin->answers[large][1], large ? LARGE : SMALL, "Connection: close\r\n");
	}
}

static bool field_is(const char *line, const char *end, const char *name, size_t name_bytes)
{
	return (size_t)(end - line) > name_bytes && strncasecmp(line, name, name_bytes) == 0;
}

static const char *skip_spaces(const char *at)
{
	while (*at == ' ')
		at++;
	return at;
}

static void read_field(struct request *request, const char *line, const char *end)
{
	if (field_is(line, end, "Content-Length:", 15))
		request->body_bytes = strtoul(line + 15, NULL, 10);
	else if (field_is(line, end, "Connection:", 11))
		request->close = strncasecmp(skip_spaces(line + 11), "close", 5) == 0;
}

/* Reads one request head. Returns false when the head is not complete yet. */
static bool read_head(const char *bytes, size_t length, struct request *request)
{
	const char *end = memmem(bytes, length, "\r\n\r\n", 4);

	if (end == NULL)
		return false;
	memset(request, 0, sizeof *request);
	request->head_bytes = (size_t)(end - bytes) + 4;
	const char *line_end = memchr(bytes, '\r', (size_t)(end + 1 - bytes));
	/* "GET /64k HTTP/1.1": the path's last four bytes stand before " HTTP/1.1". */
	request->large = line_end - bytes > 13 && memcmp(line_end - 13, "/64k", 4) == 0;
	while (line_end < end) {
		const char *line = line_end + 2;
		line_end = memchr(line, '\r', (size_t)(end + 1 - line));
		if (line[0] == 'C' || line[0] == 'c')
			read_field(request, line, line_end);
	}
	return true;
}

static void watch(int epoll, struct connection *connection)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
		sockets_die("epoll_ctl");
}

static void drop(struct origin *origin, struct connection *connection)
{
	if (connection->gone)
		return;
	connection->gone = true;
	close(connection->fd);
	free(connection->part);
	connection->next_dead = origin->dead;
	origin->dead = connection;
}

static void queue_answer(
	struct origin *origin, struct connection *connection, const struct request *request)
{
	const struct answer *answer = &origin->answers[request->large][request->close];

	connection->out[connection->out_count++] =
		(struct iovec){.iov_base = answer->bytes, .iov_len = answer->length};
}

/* Writes what is queued. Returns false when the connection broke. */
static bool write_answers(struct origin *origin, struct connection *connection)
{
	while (connection->out_at < connection->out_count) {
		struct iovec *first = connection->out + connection->out_at;
		ssize_t n =
			writev(connection->fd, first, connection->out_count - connection->out_at);
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		uint64_t done = 0;
		while (n > 0 && (size_t)n >= first->iov_len) {
			n -= (ssize_t)first->iov_len;
			first++;
			done++;
		}
		if (n > 0) {
			first->iov_base = (char *)first->iov_base + n;
			first->iov_len -= (size_t)n;
		}
		connection->out_at += (int)done;
		atomic_store_explicit(origin->answered,
			atomic_load_explicit(origin->answered, memory_order_relaxed) + done,
			memory_order_relaxed);
	}
	connection->out_at = connection->out_count = 0;
	return true;
}

/*
 * Takes the requests out of `bytes`, queueing an answer for each. Returns how many bytes were used:
 * fewer than given when a head is incomplete, or when the batch is full and must be written first.
 */
static size_t take_requests(
	struct origin *origin, struct connection *connection, const char *bytes, size_t length)
{
	size_t used = 0;
	struct request request;

	for (;;) {
		size_t body = length - used < connection->body_left ? length - used
								    : connection->body_left;
		used += body;
		connection->body_left -= body;
		if (used == length || connection->out_count == BATCH || connection->close_after ||
			!read_head(bytes + used, length - used, &request))
			return used;
		used += request.head_bytes;
		connection->body_left = request.body_bytes;
		connection->close_after = request.close;
		queue_answer(origin, connection, &request);
	}
}

static void keep_part(struct connection *connection, const char *bytes, size_t length)
{
	if (length > 0 && connection->part == NULL &&
		(connection->part = malloc(HEAD_BYTES)) == NULL)
		sockets_die("malloc");
	if (length > 0)
		memmove(connection->part, bytes, length);
	connection->part_bytes = length;
}

/*
 * Answers the whole requests in `bytes` and keeps what is left over, because a head is incomplete
 * or because the socket takes no more answers. Returns false when the connection is over.
 */
static bool answer_all(
	struct origin *origin, struct connection *connection, const char *bytes, size_t length)
{
	size_t used = 0;
	size_t taken;

	do {
		taken = take_requests(origin, connection, bytes + used, length - used);
		used += taken;
		if (!write_answers(origin, connection))
			return false;
	} while (taken > 0 && used < length && connection->out_count == 0);
	keep_part(connection, bytes + used, length - used);
	return !connection->close_after || connection->out_count > 0;
}

/* Reads once and answers. `*more` tells whether to read again. Returns false when the connection is
 * over. */
static bool read_and_answer(struct origin *origin, struct connection *connection, bool *more)
{
	char *buffer = connection->part_bytes > 0 ? connection->part : origin->scratch;
	size_t have = connection->part_bytes;
	ssize_t n = have < HEAD_BYTES ? read(connection->fd, buffer + have, HEAD_BYTES - have) : 0;

	*more = connection->ending;
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK;
	if (n == 0)
		return false;
	if (have + (size_t)n == HEAD_BYTES)
		*more = true;
	return answer_all(origin, connection, buffer, have + (size_t)n);
}

/* The socket can take more again: writes on, then turns to what was read before it was full. */
static bool resume(struct origin *origin, struct connection *connection)
{
	if (!write_answers(origin, connection))
		return false;
	if (connection->out_count > 0)
		return true;
	if (connection->close_after)
		return false;
	return connection->part_bytes == 0 ||
	       answer_all(origin, connection, connection->part, connection->part_bytes);
}

/* While answers wait for the socket to take them nothing is read: that is all the backpressure it
 * needs. */
static void serve(struct origin *origin, struct connection *connection, uint32_t events)
{
	bool more = true; /* after a resume too: the edge of what came meanwhile is past */

	if (connection->gone)
		return;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		connection->ending = true;
	if (connection->out_count > 0) {
		if (!resume(origin, connection)) {
			drop(origin, connection);
			return;
		}
	} else {
		more = (events & EPOLLIN) || connection->ending;
	}
	while (more && connection->out_count == 0) {
		if (!read_and_answer(origin, connection, &more)) {
			drop(origin, connection);
			return;
		}
	}
}

static void accept_all(struct origin *origin)
{
	int fd;

	for (int i = 0; i < origin->listener_count; i++) {
		while ((fd = sockets_accept(origin->listeners[i])) >= 0) {
			struct connection *connection = calloc(1, sizeof *connection);
			if (connection == NULL)
				sockets_die("calloc");
			connection->fd = fd;
			watch(origin->epoll, connection);
		}
	}
}

static void bury_dead(struct origin *origin)
{
	while (origin->dead != NULL) {
		struct connection *connection = origin->dead;
		origin->dead = connection->next_dead;
		free(connection);
	}
}

static _Noreturn void run(struct origin *origin)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(origin->epoll, events, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == NULL)
				accept_all(origin);
			else
				serve(origin, events[i].data.ptr, events[i].events);
		}
		bury_dead(origin);
	}
}

static void map_counter(struct origin *origin, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || ftruncate(fd, sizeof *origin->answered) != 0)
		sockets_die(path);
	origin->answered =
		mmap(NULL, sizeof *origin->answered, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (origin->answered == MAP_FAILED)
		sockets_die("mmap");
	close(fd);
}

int main(int argc, char **argv)
{
	static struct origin origin;
	struct sockaddr_in address;

	if (argc < 3 || argc > 2 + LISTENERS) {
		fprintf(stderr, "usage: %s [HOST:]PORT... COUNTER-FILE (%d at most)\n", argv[0],
			LISTENERS);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	sockets_raise_file_limit();
	map_counter(&origin, argv[argc - 1]);
	make_answers(&origin);
	origin.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (origin.epoll < 0)
		sockets_die("epoll");
	for (int i = 1; i < argc - 1; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
		if (!sockets_parse(argv[i], &address)) {
			fprintf(stderr, "%s: expected [HOST:]PORT\n", argv[i]);
			return 2;
		}
		int fd = sockets_listen(&address);
		if (epoll_ctl(origin.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
			sockets_die("epoll");
		origin.listeners[origin.listener_count++] = fd;
	}
	puts("listening");
	fflush(stdout);
	run(&origin);
}
