#include "websocket/grip.h"

#include <stdlib.h>

#include "base/log.h"
#include "conf/conf.h"
#include "site/site.h"
#include "channels/channels.h"
#include "channels/channels_part.h"
#include "websocket/close.h"
#include "channels/grip_control.h"
#include "channels/publish.h"
#include "websocket/send.h"

struct grip_keep_alive {
	struct shared_frame *frame; /* held */
	uint64_t timeout_ms, since_ms;
	uint64_t sent; /* messages to the client, by since_ms */
	bool is_interval;
};

/* ---- keep-alive ------------------------------------------------------------------------------ */

static void end_keep_alive(struct websocket *socket)
{
	if (socket->grip.keep_alive)
		shared_frame_release(socket->grip.keep_alive->frame);
	free(socket->grip.keep_alive);
	socket->grip.keep_alive = NULL;
}

static const char *begin_keep_alive(struct websocket *socket, const struct grip_control *control)
{
	struct slice content = {control->text, control->bytes};

	end_keep_alive(socket);
	if (!control->has_content)
		return NULL;
	struct grip_keep_alive *keep_alive = malloc(sizeof(*keep_alive));
	if (!keep_alive)
		return "no memory";
	*keep_alive = (struct grip_keep_alive){
		.frame = shared_frame_new(&socket->worker->node->sends, control->opcode, content),
		.timeout_ms = UINT64_C(1000) * control->timeout_s,
		.since_ms = socket_now_ms(socket),
		.sent = socket->sent.messages,
		.is_interval = control->is_interval,
	};
	if (!keep_alive->frame) {
		free(keep_alive);
		return "no room for the keep-alive message";
	}
	socket->grip.keep_alive = keep_alive;
	return NULL;
}

uint64_t socket_keep_alive_ms(const struct websocket *socket)
{
	struct grip_keep_alive *keep_alive = socket->grip.keep_alive;

	if (!keep_alive)
		return UINT64_MAX;
	if (!keep_alive->is_interval && keep_alive->sent != socket->sent.messages) {
		keep_alive->sent = socket->sent.messages;
		keep_alive->since_ms = socket_now_ms(socket);
	}
	return keep_alive->since_ms + keep_alive->timeout_ms;
}

void socket_send_keep_alive(struct websocket *socket)
{
	struct grip_keep_alive *keep_alive = socket->grip.keep_alive;

	keep_alive->since_ms = socket_now_ms(socket);
	/* A client that has not taken the last one needs no other. */
	if (!socket_has_sends(socket))
		socket_send(socket, SEND_NORMAL, keep_alive->frame, NULL);
}

/* ---- control messages ------------------------------------------------------------------------ */

static struct channel_view *view_of(const struct websocket *socket)
{
	return publish_line_view(channels_of(socket->worker)->line);
}

static const char *subscribe(struct websocket *socket, struct slice name, unsigned filters)
{
	const struct channel_bounds bounds = {
		.channels = site_part(socket->worker)->use->site->conf->totals.channels,
		.subscriptions = socket_conf(socket)->channels,
	};

	switch (channel_subscribe(view_of(socket), &socket->grip.subscriber, name, &bounds)) {
	case CHANNEL_SUBSCRIBED:
		channel_set_filters(view_of(socket), &socket->grip.subscriber, name, filters);
		return NULL;
	case CHANNEL_TOO_MANY:
		return "more channels than `channels` allows";
	case CHANNEL_TOO_MANY_OF_SUBSCRIBER:
		return "more channels of a socket than `socket_channels` allows";
	case CHANNEL_NO_MEMORY:
		break;
	}
	return "no memory";
}

static const char *set_meta(struct websocket *socket, const struct grip_control *control)
{
	const struct slice name = {control->name, control->name_bytes};

	switch (meta_set(&socket->grip.meta, name, (struct slice){control->text, control->bytes})) {
	case META_SET:
		return NULL;
	case META_FULL:
		return "more values of a socket than 32, or than 4 kB";
	case META_NO_MEMORY:
		break;
	}
	return "no memory";
}

static const char *act_on(struct websocket *socket, const struct grip_control *control)
{
	struct slice text = {control->text, control->bytes};

	switch (control->type) {
	case GRIP_SUBSCRIBE:
		return subscribe(socket, text, control->filters);
	case GRIP_UNSUBSCRIBE:
		channel_unsubscribe(view_of(socket), &socket->grip.subscriber, text);
		return NULL;
	case GRIP_DETACH:
		socket->grip.is_detached = true;
		socket->server->detach(socket);
		return NULL;
	case GRIP_KEEP_ALIVE:
		return begin_keep_alive(socket, control);
	case GRIP_SET_META:
		return set_meta(socket, control);
	}
	return NULL;
}

void socket_take_control(struct websocket *socket, struct slice json)
{
	struct grip_control control;
	const char *wrong = grip_control_parse(json, &control);

	if (!wrong)
		wrong = act_on(socket, &control);
	if (!wrong)
		return;
	publish_line_refuse(channels_of(socket->worker)->line);
	log_debug("route %s: control message of the backend: %s",
		socket->passage->account.route->name, wrong);
}

/* ---- what is published ----------------------------------------------------------------------- */

static void close_as(struct websocket *socket, const struct shared_frame *frame)
{
	const char *payload = frame->at + frame->bytes - frame->payload_bytes;
	unsigned code = (unsigned)((uint8_t)payload[0] << 8 | (uint8_t)payload[1]);

	socket_close_behind(socket, code, (struct slice){payload + 2, frame->payload_bytes - 2},
		CLOSE_GOING_AWAY, "closed by a publisher");
	stream_wake(socket->passage->down.sink);
}

static struct websocket *socket_of_subscriber(struct subscriber *subscriber)
{
	return CONTAINER_OF(subscriber, struct websocket, grip.subscriber);
}

/* Do the filters of this subscription let a publication with this meta through? */
static bool filters_allow(const struct subscription *subscription, const struct grip_meta *meta)
{
	const struct websocket *socket = socket_of_subscriber(subscription->subscriber);
	struct slice user = meta_find(&socket->grip.meta, SLICE("user"));

	if (grip_filter_skips(subscription->filters, meta, user))
		return false;
	return !(subscription->filters & GRIP_REQUIRE_SUB) || meta->require_sub.len == 0 ||
	       socket_is_subscribed(socket, meta->require_sub);
}

/* Has its server get a request without events: now, or when the one under way is answered. */
static void refresh(struct websocket *socket)
{
	if (!socket->closing.begun && !socket->grip.is_detached)
		socket->server->refresh(socket);
}

/* Queues a published frame; a close frame closes the socket, behind what waits in its queue. The
 * socket does not end during the call. */
static bool deliver_frame(struct websocket *socket, struct shared_frame *frame)
{
	if (frame->opcode != FRAME_CLOSE)
		return socket_send(socket, SEND_NORMAL, frame, NULL);
	if (socket->closing.begun)
		return false;
	close_as(socket, frame);
	return true;
}

static bool deliver(const struct subscription *subscription, const struct delivery *delivery)
{
	struct websocket *socket = socket_of_subscriber(subscription->subscriber);

	if (socket_has_ended(socket) || (delivery->meta && subscription->filters != 0 &&
						!filters_allow(subscription, delivery->meta)))
		return false;
	if (delivery->refreshes)
		refresh(socket);
	return !delivery->refreshes && delivery->frame && deliver_frame(socket, delivery->frame);
}

const struct subscriber_calls socket_subscriber_calls = {.deliver = deliver};

bool socket_is_subscribed(const struct websocket *socket, struct slice channel)
{
	return channel_has_subscriber(view_of(socket), &socket->grip.subscriber, channel);
}

void socket_end_grip(struct websocket *socket)
{
	if (socket->grip.subscriber.first)
		channel_unsubscribe_all(view_of(socket), &socket->grip.subscriber);
	end_keep_alive(socket);
	meta_clear(&socket->grip.meta);
}
