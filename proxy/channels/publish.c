#include "channels/publish.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "channels/channels.h"
#include "frames/messages.h"
#include "frames/shared_frame.h"
#include "worker/worker.h"

/* A publication's place in one line. */
struct entry {
	struct entry *next;
	struct publication *publication;
};

/* What it says for filters, in memory of its own that counts as frames do. */
struct published_meta {
	struct grip_meta meta;
	size_t bytes;
	char text[];
};

struct published {
	struct channel *channel;     /* held; NULL: nobody is subscribed */
	struct shared_frame *frame;  /* held; NULL: nobody is, or there is nothing to send */
	struct grip_http http;       /* for held responses; its frames are held */
	struct published_meta *meta; /* NULL: none */
	bool refreshes;
};

struct publication {
	struct publishing *publishing;
	atomic_uint holders; /* lines that have it */
	size_t count;
	struct published *items; /* behind the entries */
	bool *workers;           /* behind the items: has a worker subscribers? */
	struct entry entries[];  /* one for each worker */
};

struct publish_line {
	struct publishing *publishing;
	struct worker *worker;
	struct message message;
	/* under the lock of publishing */
	struct entry *first, **end;
	bool is_posted;
	/* the worker's own */
	bool is_walking;       /* something is left for the next turn */
	struct entry *current; /* NULL: the next one is to be taken */
	size_t item;           /* of that */
	bool is_within;        /* an item's subscriptions, from view.cursor on */
	struct channel_view view;
	_Atomic uint64_t deliveries, controls_refused; /* it writes, others read */
};

struct publishing {
	struct node *node;
	struct channels *channels;
	pthread_mutex_t lock;
	unsigned holders;           /* workers */
	_Atomic uint64_t waiting;   /* publications */
	_Atomic uint64_t published; /* items */
	struct publish_line lines[];
};

/* ---- publications ---------------------------------------------------------------------------- */

static void free_publication(struct publication *publication)
{
	for (size_t i = 0; i < publication->count; i++) {
		channel_release(publication->publishing->channels, publication->items[i].channel);
		shared_frame_release(publication->items[i].frame);
		shared_frame_release(publication->items[i].http.response);
		shared_frame_release(publication->items[i].http.stream);
		if (publication->items[i].meta)
			node_sends_give(&publication->publishing->node->sends,
				publication->items[i].meta->bytes);
		free(publication->items[i].meta);
	}
	atomic_fetch_sub_explicit(&publication->publishing->waiting, 1, memory_order_relaxed);
	free(publication);
}

static void release(struct publication *publication)
{
	/* acq_rel: the last to leave sees what the others did with it */
	if (atomic_fetch_sub_explicit(&publication->holders, 1, memory_order_acq_rel) == 1)
		free_publication(publication);
}

static struct publication *new_publication(struct publishing *publishing, size_t count)
{
	size_t workers = publishing->node->worker_count;
	struct publication *publication =
		calloc(1, sizeof(*publication) + workers * sizeof(struct entry) +
				  count * sizeof(struct published) + workers * sizeof(bool));

	if (!publication)
		return NULL;
	publication->publishing = publishing;
	publication->count = count;
	publication->items = (struct published *)&publication->entries[workers];
	publication->workers = (bool *)&publication->items[count];
	for (size_t i = 0; i < workers; i++)
		publication->entries[i].publication = publication;
	return publication;
}

static struct shared_frame *compose(struct publishing *publishing, const struct publish_item *item)
{
	char payload[FRAME_CONTROL_BYTES];

	if (item->action == PUBLISH_CLOSE)
		return shared_frame_new(&publishing->node->sends, FRAME_CLOSE,
			close_payload(item->code, item->content, payload));
	return shared_frame_new(&publishing->node->sends, item->opcode, item->content);
}

static struct slice copy_text(char **to, struct slice text)
{
	struct slice copy = {*to, text.len};

	if (text.len > 0)
		memcpy(*to, text.at, text.len);
	*to += text.len;
	return copy;
}

/* False: no room for it. */
static bool copy_meta(
	struct node_sends *sends, const struct grip_meta *meta, struct published_meta **to)
{
	size_t bytes =
		sizeof(**to) + meta->sender.len + meta->skip_users.len + meta->require_sub.len;
	char *text;

	if (grip_meta_is_empty(meta))
		return true;
	if (!node_sends_take(sends, bytes))
		return false;
	*to = malloc(bytes);
	if (!*to) {
		node_sends_give(sends, bytes);
		return false;
	}
	text = (*to)->text;
	(*to)->bytes = bytes;
	(*to)->meta.sender = copy_text(&text, meta->sender);
	(*to)->meta.skip_users = copy_text(&text, meta->skip_users);
	(*to)->meta.require_sub = copy_text(&text, meta->require_sub);
	return true;
}

/* The frame's head is of no use to those who get it. False: no room for it. */
static bool fill_http(
	struct publishing *publishing, struct slice bytes, struct shared_frame **frame)
{
	if (!bytes.at)
		return true;
	*frame = shared_frame_new(&publishing->node->sends, FRAME_BINARY, bytes);
	return *frame;
}

static bool is_for_nobody(const struct publish_item *item)
{
	return item->action == PUBLISH_NOTHING && !item->response.at && !item->stream.at &&
	       !item->closes_stream;
}

/* For an item whose channel has subscribers. */
static bool fill_item(
	struct publishing *publishing, const struct publish_item *item, struct published *to)
{
	bool is_for_sockets = item->action == PUBLISH_SEND || item->action == PUBLISH_CLOSE;

	to->refreshes = item->action == PUBLISH_REFRESH;
	to->http.closes = item->closes_stream;
	if (is_for_sockets && !(to->frame = compose(publishing, item)))
		return false;
	return fill_http(publishing, item->response, &to->http.response) &&
	       fill_http(publishing, item->stream, &to->http.stream) &&
	       copy_meta(&publishing->node->sends, &item->meta, &to->meta);
}

/* False: a frame could not be made. */
static bool fill(
	struct publication *publication, const struct publish_item *items, uint64_t *subscriptions)
{
	struct publishing *publishing = publication->publishing;

	for (size_t i = 0; i < publication->count; i++) {
		struct published *to = &publication->items[i];
		uint64_t count;
		if (is_for_nobody(&items[i]))
			continue;
		to->channel = channel_hold(publishing->channels, items[i].channel, &count,
			publication->workers, publishing->node->worker_count);
		if (!to->channel)
			continue;
		if (!fill_item(publishing, &items[i], to))
			return false;
		*subscriptions += count;
	}
	return true;
}

/* The lock is held. */
static void post(struct publish_line *line)
{
	if (line->is_posted)
		return;
	line->is_posted = true;
	message_post(&line->worker->loop, &line->message);
}

/* The lock is held. */
static void append(struct publish_line *line, struct entry *entry)
{
	*line->end = entry;
	line->end = &entry->next;
	post(line);
}

/* Into the lines of its workers; one hold is the caller's. */
static void distribute(struct publication *publication)
{
	struct publishing *publishing = publication->publishing;

	pthread_mutex_lock(&publishing->lock);
	for (unsigned i = 0; i < publishing->node->worker_count; i++) {
		if (!publication->workers[i])
			continue;
		atomic_fetch_add_explicit(&publication->holders, 1, memory_order_relaxed);
		append(&publishing->lines[i], &publication->entries[i]);
	}
	pthread_mutex_unlock(&publishing->lock);
}

enum publish_result publish(struct publishing *publishing, const struct publish_item *items,
	size_t count, uint64_t *subscriptions)
{
	*subscriptions = 0;
	/* relaxed: a bound on a count, which orders nothing */
	if (atomic_fetch_add_explicit(&publishing->waiting, 1, memory_order_relaxed) >=
		PUBLICATIONS_WAITING) {
		atomic_fetch_sub_explicit(&publishing->waiting, 1, memory_order_relaxed);
		return PUBLISH_FULL;
	}
	struct publication *publication = new_publication(publishing, count);
	if (!publication) {
		atomic_fetch_sub_explicit(&publishing->waiting, 1, memory_order_relaxed);
		return PUBLISH_NO_MEMORY;
	}
	atomic_init(&publication->holders, 1);
	bool is_filled = fill(publication, items, subscriptions);
	if (is_filled) {
		atomic_fetch_add_explicit(&publishing->published, count, memory_order_relaxed);
		distribute(publication);
	}
	release(publication);
	return is_filled ? PUBLISH_DONE : PUBLISH_FULL;
}

/* ---- a worker's line ------------------------------------------------------------------------- */

/* The next publication; false: there is none. */
static bool take_entry(struct publish_line *line)
{
	struct publishing *publishing = line->publishing;

	pthread_mutex_lock(&publishing->lock);
	line->current = line->first;
	if (line->first)
		line->first = line->first->next;
	if (!line->first)
		line->end = &line->first;
	pthread_mutex_unlock(&publishing->lock);
	line->item = 0;
	return line->current != NULL;
}

/* relaxed: a number for people; nobody else writes it */
static void count_up(_Atomic uint64_t *count)
{
	atomic_store_explicit(
		count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

void publish_line_refuse(struct publish_line *line)
{
	count_up(&line->controls_refused);
}

static void deliver(struct publish_line *line, const struct published *item,
	const struct subscription *subscription)
{
	const struct delivery delivery = {
		.frame = item->frame,
		.http = item->http,
		.meta = item->meta ? &item->meta->meta : NULL,
		.refreshes = item->refreshes,
	};

	if (subscription->subscriber->calls->deliver(subscription, &delivery))
		count_up(&line->deliveries);
}

/* Begins with an item's subscriptions, or continues to the one that is next. */
static void step(struct publish_line *line)
{
	struct publication *publication = line->current->publication;
	const struct published *item = &publication->items[line->item];
	struct subscription *subscription = line->view.cursor;

	if (!line->is_within && item->channel) {
		line->view.cursor = channel_first(&line->view, item->channel);
		line->is_within = true;
	} else if (line->is_within && subscription) {
		line->view.cursor = subscription->next;
		deliver(line, item, subscription);
	}
	if (line->is_within && line->view.cursor)
		return;
	line->is_within = false;
	if (++line->item < publication->count)
		return;
	line->current = NULL;
	release(publication);
}

/* Something was appended, or is left of the turn before: what fits in a turn. */
static void on_message(struct message *message)
{
	struct publish_line *line = CONTAINER_OF(message, struct publish_line, message);

	pthread_mutex_lock(&line->publishing->lock);
	line->is_posted = false;
	pthread_mutex_unlock(&line->publishing->lock);
	line->is_walking = true;
	for (unsigned i = 0; i < PUBLISH_STEPS; i++) {
		if (!line->current && !take_entry(line)) {
			line->is_walking = false;
			return;
		}
		step(line);
	}
}

void publish_line_end_turn(struct publish_line *line)
{
	if (!line->is_walking)
		return;
	pthread_mutex_lock(&line->publishing->lock);
	post(line);
	pthread_mutex_unlock(&line->publishing->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct publishing *publishing_new(struct node *node)
{
	struct publishing *publishing =
		calloc(1, sizeof(*publishing) + node->worker_count * sizeof(struct publish_line));

	if (!publishing)
		return NULL;
	publishing->node = node;
	publishing->channels = channels_new();
	if (!publishing->channels) {
		free(publishing);
		return NULL;
	}
	pthread_mutex_init(&publishing->lock, NULL);
	for (unsigned i = 0; i < node->worker_count; i++) {
		struct publish_line *line = &publishing->lines[i];
		line->publishing = publishing;
		line->message.run = on_message;
		line->end = &line->first;
		line->view = (struct channel_view){.channels = publishing->channels, .worker = i};
	}
	return publishing;
}

static void free_publishing(struct publishing *publishing)
{
	for (unsigned i = 0; i < publishing->node->worker_count; i++) {
		struct publish_line *line = &publishing->lines[i];
		do {
			if (line->current)
				release(line->current->publication);
		} while (take_entry(line));
	}
	pthread_mutex_destroy(&publishing->lock);
	channels_free(publishing->channels);
	free(publishing);
}

struct publish_line *publishing_enter(struct publishing *publishing, struct worker *worker)
{
	struct publish_line *line = &publishing->lines[worker->index];

	publishing->holders++;
	line->worker = worker;
	return line;
}

bool publishing_leave(struct publishing *publishing)
{
	bool is_last = --publishing->holders == 0;

	if (is_last)
		free_publishing(publishing);
	return is_last;
}

struct channel_view *publish_line_view(struct publish_line *line)
{
	return &line->view;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t read_count(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed); /* a number for people */
}

uint64_t publishing_count(const struct publishing *publishing, enum publish_count count)
{
	uint64_t sum = 0;

	switch (count) {
	case PUBLISH_ITEMS:
		return read_count(&publishing->published);
	case PUBLISH_CHANNELS:
		return channels_count(publishing->channels);
	case PUBLISH_SUBSCRIPTIONS:
		return channels_subscriptions(publishing->channels);
	case PUBLISH_DELIVERIES:
		for (unsigned i = 0; i < publishing->node->worker_count; i++)
			sum += read_count(&publishing->lines[i].deliveries);
		break;
	case PUBLISH_CONTROLS_REFUSED:
		for (unsigned i = 0; i < publishing->node->worker_count; i++)
			sum += read_count(&publishing->lines[i].controls_refused);
		break;
	}
	return sum;
}
