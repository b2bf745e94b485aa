/* The client's end of one HTTP/1.1 connection: sends a request, finds the end of its answer. */
#include "tests/bench/client.h"

#include "tests/bench/sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SCRATCH_BYTES = 64 * 1024 };

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK;
}

bool client_send(struct client *client, const char *bytes, size_t length)
{
	ssize_t n = write(client->fd, bytes, length);

	if (n < 0 && !would_block())
		return false;
	client->busy = true;
	client->status = 0;
	size_t sent = n < 0 ? 0 : (size_t)n;
	if (sent == length)
		return true;
	client->unsent = malloc(length - sent);
	if (client->unsent == NULL)
		sockets_die("malloc");
	memcpy(client->unsent, bytes + sent, length - sent);
	client->unsent_at = 0;
	client->unsent_bytes = length - sent;
	return true;
}

bool client_flush(struct client *client)
{
	while (client->unsent_bytes > 0) {
		ssize_t n =
			write(client->fd, client->unsent + client->unsent_at, client->unsent_bytes);
		if (n < 0)
			return would_block();
		client->unsent_at += (size_t)n;
		client->unsent_bytes -= (size_t)n;
	}
	free(client->unsent);
	client->unsent = NULL;
	return true;
}

/* Finds the value of Content-Length in a whole head. Returns false when there is none. */
static bool find_length(const char *head, const char *end, size_t *length)
{
	const char *line = head;

	while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		line++;
		if (end - line > 15 && strncasecmp(line, "content-length:", 15) == 0) {
			*length = strtoul(line + 15, NULL, 10);
			return true;
		}
	}
	return false;
}

/* Reads the head at the start of `bytes`. Returns its length, 0 when it is incomplete, -1 when it
 * can't be used. */
static ssize_t read_head(struct client *client, const char *bytes, size_t length)
{
	const char *end = memmem(bytes, length, "\r\n\r\n", 4);

	if (end == NULL)
		return 0;
	end += 4;
	if (end - bytes < 16 || memcmp(bytes, "HTTP/1.", 7) != 0 ||
		!find_length(bytes, end, &client->body_left))
		return -1;
	client->status = atoi(bytes + 9);
	return end - bytes;
}

static bool keep_part(struct client *client, const char *bytes, size_t length)
{
	if (client->part == NULL && (client->part = malloc(CLIENT_HEAD_BYTES)) == NULL)
		sockets_die("malloc");
	if (length > CLIENT_HEAD_BYTES)
		return false;
	memmove(client->part, bytes, length);
	client->part_bytes = length;
	return true;
}

/* Puts a part kept before in front of what was just read into `scratch`. Returns the length of
 * both. */
static size_t join_part(struct client *client, char *scratch, size_t length)
{
	memcpy(scratch, client->part, client->part_bytes);
	length += client->part_bytes;
	client->part_bytes = 0;
	return length;
}

static enum client_outcome take(struct client *client, const char *bytes, size_t length)
{
	if (client->status == 0) {
		ssize_t head = read_head(client, bytes, length);
		if (head < 0)
			return CLIENT_BROKEN;
		if (head == 0)
			return keep_part(client, bytes, length) ? CLIENT_WAITS : CLIENT_BROKEN;
		length -= (size_t)head;
	}
	if (length > client->body_left)
		return CLIENT_BROKEN; /* more than was asked for */
	client->body_left -= length;
	if (client->body_left > 0)
		return CLIENT_WAITS;
	client->busy = false;
	return CLIENT_ANSWERED;
}

enum client_outcome client_read(struct client *client)
{
	static char scratch[CLIENT_HEAD_BYTES + SCRATCH_BYTES];

	for (;;) {
		size_t part = client->part_bytes;
		ssize_t n = read(client->fd, scratch + part, SCRATCH_BYTES);
		if (n < 0)
			return would_block() ? CLIENT_WAITS : CLIENT_BROKEN;
		if (n == 0 || !client->busy)
			return CLIENT_BROKEN;
		size_t length = part > 0 ? join_part(client, scratch, (size_t)n) : (size_t)n;
		enum client_outcome outcome = take(client, scratch, length);
		if (outcome != CLIENT_WAITS || n < SCRATCH_BYTES)
			return outcome;
	}
}

void client_close(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	free(client->unsent);
	free(client->part);
	memset(client, 0, sizeof *client);
	client->fd = -1;
}
