#include "admin/broadcast.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define BLOCK_BYTES 4096

/* Shared by the broadcast, while it is the newest, and by the listeners that send it. */
struct text {
	unsigned holders; /* guarded by the broadcast's lock */
	size_t bytes;
	char *at;
};

struct broadcast_listener {
	struct broadcast *broadcast;
	struct broadcast_listener *prev, *next;
	struct MHD_Connection *connection;
	struct text *sending; /* or NULL */
	size_t sent;          /* of it */
	uint64_t serial;      /* of the last that it took */
	bool is_suspended;
};

struct broadcast {
	pthread_mutex_t lock; /* guards all of it */
	struct broadcast_listener *first;
	unsigned count;
	struct text *newest; /* or NULL */
	uint64_t serial;     /* of it */
	bool is_closed;
};

/* Takes over `at`; NULL without memory, when it is freed. */
static struct text *text_new(char *at, size_t bytes)
{
	struct text *text = at ? malloc(sizeof(*text)) : NULL;

	if (text)
		*text = (struct text){.holders = 1, .bytes = bytes, .at = at};
	else
		free(at);
	return text;
}

static void text_release(struct text *text)
{
	if (!text || --text->holders > 0)
		return;
	free(text->at);
	free(text);
}

struct broadcast *broadcast_new(void)
{
	struct broadcast *broadcast = calloc(1, sizeof(*broadcast));

	if (broadcast)
		pthread_mutex_init(&broadcast->lock, NULL);
	return broadcast;
}

void broadcast_free(struct broadcast *broadcast)
{
	if (!broadcast)
		return;
	text_release(broadcast->newest);
	pthread_mutex_destroy(&broadcast->lock);
	free(broadcast);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static bool add_listener(struct broadcast *broadcast, struct broadcast_listener *listener)
{
	pthread_mutex_lock(&broadcast->lock);
	bool has_room = broadcast->count < BROADCAST_LISTENERS && !broadcast->is_closed;
	if (has_room) {
		listener->serial = broadcast->serial;
		CHAIN_PUSH(broadcast->first, listener, prev, next);
		broadcast->count++;
	}
	pthread_mutex_unlock(&broadcast->lock);
	return has_room;
}

struct broadcast_listener *broadcast_join(
	struct broadcast *broadcast, struct MHD_Connection *connection, const char *first)
{
	struct broadcast_listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return NULL;
	*listener = (struct broadcast_listener){.broadcast = broadcast,
		.connection = connection,
		.sending = text_new(strdup(first), strlen(first))};
	if (listener->sending && add_listener(broadcast, listener))
		return listener;
	text_release(listener->sending);
	free(listener);
	return NULL;
}

void broadcast_leave(struct broadcast_listener *listener)
{
	if (!listener)
		return;
	struct broadcast *broadcast = listener->broadcast;
	pthread_mutex_lock(&broadcast->lock);
	CHAIN_REMOVE(broadcast->first, listener, prev, next);
	broadcast->count--;
	text_release(listener->sending);
	pthread_mutex_unlock(&broadcast->lock);
	free(listener);
}

static void on_destroyed(void *ctx)
{
	broadcast_leave(ctx);
}

/* The newest that it has not had; false: there is none. The lock is held. */
static bool take_newest(struct broadcast_listener *listener)
{
	struct broadcast *broadcast = listener->broadcast;

	text_release(listener->sending);
	listener->sending = NULL;
	listener->sent = 0;
	if (!broadcast->newest || listener->serial == broadcast->serial)
		return false;
	listener->sending = broadcast->newest;
	listener->sending->holders++;
	listener->serial = broadcast->serial;
	return true;
}

/* libmicrohttpd wants up to `most` bytes. */
static ssize_t read_next(struct broadcast_listener *listener, char *to, size_t most)
{
	const struct text *text = listener->sending;

	if (listener->broadcast->is_closed)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if ((!text || listener->sent == text->bytes) && !take_newest(listener)) {
		MHD_suspend_connection(listener->connection);
		listener->is_suspended = true;
		return 0;
	}
	text = listener->sending;
	size_t size = text->bytes - listener->sent < most ? text->bytes - listener->sent : most;
	memcpy(to, text->at + listener->sent, size);
	listener->sent += size;
	return (ssize_t)size;
}

static ssize_t on_read(void *ctx, uint64_t position, char *to, size_t most)
{
	struct broadcast_listener *listener = ctx;

	(void)position;
	pthread_mutex_lock(&listener->broadcast->lock);
	ssize_t size = read_next(listener, to, most);
	pthread_mutex_unlock(&listener->broadcast->lock);
	return size;
}

struct MHD_Response *broadcast_response(struct broadcast_listener *listener)
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, listener, on_destroyed);

	if (!response)
		broadcast_leave(listener);
	return response;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The lock is held. */
static void wake_all(struct broadcast *broadcast)
{
	for (struct broadcast_listener *it = broadcast->first; it; it = it->next) {
		if (it->is_suspended)
			MHD_resume_connection(it->connection);
		it->is_suspended = false;
	}
}

void broadcast_publish(struct broadcast *broadcast, char *text, size_t bytes)
{
	struct text *newest = text_new(text, bytes);

	if (!newest)
		return;
	pthread_mutex_lock(&broadcast->lock);
	text_release(broadcast->newest);
	broadcast->newest = newest;
	broadcast->serial++;
	wake_all(broadcast);
	pthread_mutex_unlock(&broadcast->lock);
}

unsigned broadcast_count(struct broadcast *broadcast)
{
	pthread_mutex_lock(&broadcast->lock);
	unsigned count = broadcast->count;
	pthread_mutex_unlock(&broadcast->lock);
	return count;
}

void broadcast_close(struct broadcast *broadcast)
{
	pthread_mutex_lock(&broadcast->lock);
	broadcast->is_closed = true;
	wake_all(broadcast);
	pthread_mutex_unlock(&broadcast->lock);
}
