/* See handover.h. */
#include "daemon/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_LINE "sluice 1\n"

struct handover *handover_new(void)
{
	struct handover *handover = calloc(1, sizeof(*handover));

	if (handover)
		handover->channel = handover->table = -1;
	return handover;
}

void handover_free(struct handover *handover)
{
	if (!handover)
		return;
	for (size_t i = 0; i < handover->count; i++)
		free(handover->sockets[i].name);
	for (size_t i = 0; i < handover->server_count; i++) {
		free(handover->servers[i].upstream);
		free(handover->servers[i].address);
	}
	free(handover->servers);
	free(handover->sockets);
	free(handover->folder);
	explicit_bzero(handover->tickets, sizeof(handover->tickets));
	free(handover);
}

static bool add(struct handover *handover, char *name, int fd)
{
	void *sockets = name ? reallocarray(handover->sockets, handover->count + 1,
				       sizeof(*handover->sockets))
			     : NULL;

	if (!sockets) {
		free(name);
		return false;
	}
	handover->sockets = sockets;
	handover->sockets[handover->count++] = (struct handed_socket){.name = name, .fd = fd};
	return true;
}

bool handover_add_socket(struct handover *handover, const char *kind, const char *text, int fd)
{
	char *name;

	if (asprintf(&name, "%s %s", kind, text) < 0)
		return false;
	return add(handover, name, fd);
}

bool handover_add_server(struct handover *handover, unsigned mode, unsigned weight,
	const char *upstream, const char *address)
{
	struct handed_server server = {mode, weight, strdup(upstream), strdup(address)};
	void *servers = reallocarray(
		handover->servers, handover->server_count + 1, sizeof(*handover->servers));

	if (servers)
		handover->servers = servers;
	if (!servers || !server.upstream || !server.address) {
		free(server.upstream);
		free(server.address);
		return false;
	}
	handover->servers[handover->server_count++] = server;
	return true;
}

int handover_write(const struct handover *handover, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
	int error;

	if (!out) {
		error = errno;
		if (copy >= 0)
			close(copy);
		return error;
	}
	fprintf(out, FIRST_LINE "channel %d\nclock %" PRIu64 "\n", handover->channel,
		handover->clock_offset_ns);
	if (handover->folder)
		fprintf(out, "folder %s\n", handover->folder);
	else
		fprintf(out, "table %d\n", handover->table);
	for (size_t i = 0; i < handover->count; i++)
		fprintf(out, "socket %d %s\n", handover->sockets[i].fd, handover->sockets[i].name);
	if (*handover->tickets)
		fprintf(out, "tickets %s\n", handover->tickets);
	for (size_t i = 0; i < handover->server_count; i++) {
		const struct handed_server *server = &handover->servers[i];
		fprintf(out, "server %u %u %s %s\n", server->mode, server->weight, server->upstream,
			server->address);
	}
	fputs("end\n", out);
	errno = 0;
	error = fflush(out) != 0 || ferror(out) ? (errno ? errno : EIO) : 0;
	fclose(out);
	return error;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_open(int fd)
{
	return fd > STDERR_FILENO && fcntl(fd, F_GETFD) >= 0;
}

static bool is_listening(int fd)
{
	int listening = 0;
	socklen_t len = sizeof(listening);

	return is_open(fd) && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 &&
	       listening;
}

/* The number that the line has after `word` and a blank; `rest` is what follows it and a blank. */
static bool read_number(const char *line, const char *word, uint64_t *number, char **rest)
{
	size_t len = strlen(word);

	if (strncmp(line, word, len) != 0 || line[len] != ' ' || line[len + 1] < '0' ||
		line[len + 1] > '9')
		return false;
	errno = 0;
	*number = strtoull(line + len + 1, rest, 10);
	if (**rest == ' ')
		(*rest)++;
	return errno == 0;
}

static bool read_fd(const char *line, const char *word, int *fd, char **rest)
{
	uint64_t number;

	if (!read_number(line, word, &number, rest) || number > INT32_MAX)
		return false;
	*fd = (int)number;
	return true;
}

/* `2 0 legacy 10.0.0.5:8080` */
static bool read_server(struct handover *handover, char *text)
{
	uint64_t mode, weight;
	char *end;

	mode = strtoull(text, &end, 10);
	if (end == text || *end != ' ')
		return false;
	weight = strtoull(end, &text, 10);
	char *blank = *text == ' ' ? strchr(text + 1, ' ') : NULL;
	if (!blank || mode > UINT32_MAX || weight > UINT32_MAX)
		return false;
	*blank = '\0';
	return handover_add_server(handover, (unsigned)mode, (unsigned)weight, text + 1, blank + 1);
}

/* One line without its end. False: it is none that can be. */
static bool read_line(struct handover *handover, char *line)
{
	char *rest;
	int fd;

	if (read_fd(line, "channel", &fd, &rest)) {
		handover->channel = fd;
		return *rest == '\0' && is_open(fd);
	}
	if (read_number(line, "clock", &handover->clock_offset_ns, &rest))
		return *rest == '\0';
	if (read_fd(line, "table", &fd, &rest)) {
		handover->table = fd;
		return *rest == '\0' && is_open(fd);
	}
	if (strncmp(line, "folder ", 7) == 0 && !handover->folder) {
		handover->folder = strdup(line + 7);
		return handover->folder != NULL;
	}
	if (strncmp(line, "tickets ", 8) == 0)
		return snprintf(handover->tickets, TLS_TICKETS_TEXT, "%s", line + 8) <
		       TLS_TICKETS_TEXT;
	if (strncmp(line, "server ", 7) == 0)
		return read_server(handover, line + 7);
	if (read_fd(line, "socket", &fd, &rest))
		return *rest && is_listening(fd) && add(handover, strdup(rest), fd);
	return false;
}

static bool read_all(struct handover *handover, FILE *in, char *why, size_t size)
{
	char *line = NULL;
	size_t room = 0;
	bool good = getline(&line, &room, in) > 0 && strcmp(line, FIRST_LINE) == 0, ended = false;

	if (!good)
		snprintf(why, size, "its sender is another version of sluice");
	while (good && !ended && getline(&line, &room, in) > 0) {
		line[strcspn(line, "\n")] = '\0';
		ended = strcmp(line, "end") == 0;
		good = ended || read_line(handover, line);
		if (!good)
			snprintf(why, size, "\"%s\" can't be used", line);
	}
	free(line);
	if (!good)
		return false;
	good = ended && handover->channel >= 0 && (handover->table >= 0) != !!handover->folder;
	if (!good)
		snprintf(why, size, "it is incomplete");
	return good;
}

struct handover *handover_read(int fd, char *why, size_t size)
{
	struct handover *handover = handover_new();
	int copy = is_open(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	FILE *in = copy < 0 ? NULL : fdopen(copy, "r");
	bool good = false;

	snprintf(why, size, "%s", strerror(copy < 0 ? EBADF : ENOMEM));
	if (in)
		rewind(in); /* the other process has written it by the same open file */
	if (handover && in)
		good = read_all(handover, in, why, size);
	if (in)
		fclose(in);
	else if (copy >= 0)
		close(copy);
	if (good)
		return handover;
	handover_free(handover);
	return NULL;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static struct handed_socket *find(
	const struct handover *handover, const char *kind, const char *text)
{
	size_t len = strlen(kind);

	for (size_t i = 0; handover && i < handover->count; i++) {
		struct handed_socket *socket = &handover->sockets[i];
		if (!socket->is_taken && strncmp(socket->name, kind, len) == 0 &&
			socket->name[len] == ' ' && strcmp(socket->name + len + 1, text) == 0)
			return socket;
	}
	return NULL;
}

bool handover_has(const struct handover *handover, const char *kind, const char *text)
{
	return find(handover, kind, text) != NULL;
}

int handover_take(struct handover *handover, const char *kind, const char *text)
{
	struct handed_socket *socket = find(handover, kind, text);

	if (!socket)
		return -1;
	socket->is_taken = true;
	fcntl(socket->fd, F_SETFD, FD_CLOEXEC);
	return socket->fd;
}

void handover_close_rest(struct handover *handover)
{
	for (size_t i = 0; handover && i < handover->count; i++) {
		if (!handover->sockets[i].is_taken)
			close(handover->sockets[i].fd);
	}
}
