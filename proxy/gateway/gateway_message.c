/*
 * The requests of a gateway: messages of its client, and events of its own.
 *
 *   message --> exchange --gate, queue--> gateway_serve: with those right behind it --> POST
 *                   `-- refused: dropped, or the socket is closed (gateway_refuse)
 */
#include <stdlib.h>
#include <string.h>

#include "exchange/find_server.h"
#include "exchange/reply.h"
#include "exchange/turn.h"
#include "exchange/turn_ask.h"
#include "exchange/turn_limits.h"
#include "exchange/turn_place.h"
#include "http/problem.h"
#include "websocket/close.h"
#include "gateway/gateway.h"
#include "websocket/message.h"
#include "gateway/gateway_replay.h"
#include "websocket/state.h"

/* ---- a new one ------------------------------------------------------------------------------- */

/* After a reload the rules are those of the route of that name. */
static void follow_site(const struct gateway *gateway, struct exchange *x)
{
	const struct conf *conf = x->use->site->conf;

	x->route = gateway->route;
	if (x->use != gateway->use) {
		x->route = NULL;
		for (size_t i = 0; i < conf->route_count && !x->route; i++) {
			const struct conf_route *route = &conf->routes[i];
			if (strcmp(route->name, gateway->route->name) == 0 &&
				route->websocket.mode == CONF_WEBSOCKET_GATEWAY)
				x->route = route;
		}
	}
	if (!x->route) {
		site_use_release(x->use);
		x->use = site_use_hold(gateway->use);
		x->route = gateway->route;
	}
	x->upstream = x->use->site->upstreams[x->route->upstream->index];
}

static void append(struct gateway *gateway, struct exchange *x)
{
	if (gateway->last)
		gateway->last->next = x;
	else
		gateway->client.first = x;
	gateway->last = x;
	gateway->waiting++;
	gateway->waiting_bytes += x->tunnel.message_bytes;
}

/* The gateway learns of it, too, and ends it. */
static void on_owner_changed(struct owner_use *use)
{
	(void)use;
}

/* With this event as its body; NULL: with none. Not listed yet; NULL without memory. */
static struct exchange *make(struct gateway *gateway, const struct gateway_event *event)
{
	struct exchange *x = exchange_new_message(gateway->worker, &gateway->client);

	if (!x)
		return NULL;
	follow_site(gateway, x);
	x->request_progress = REQUEST_READ;
	x->request.method = HTTP_METHOD_POST; /* a write, for the order */
	memcpy(x->facts.address, gateway->address, sizeof(x->facts.address));
	x->facts.method = SLICE("MESSAGE");
	x->facts.path = (struct slice){gateway->path.at, gateway->path.len};
	x->request_id = (struct slice){gateway->request_id, gateway->request_id_len};
	x->tunnel.gateway = gateway;
	x->owner.use.changed = on_owner_changed;
	x->owner.use.moves = NULL;
	x->owner.use.lapsed = NULL;
	if (gateway->owner.session)
		owner_share(node_owners(gateway->worker->node), &x->owner.use, &gateway->owner);
	if (!event)
		return x;
	x->framing.length = gateway_event_bytes(event);
	x->memory.body = malloc(x->framing.length);
	if (x->memory.body)
		gateway_event_write(event, x->memory.body);
	return x;
}

void gateway_begin_message(struct gateway *gateway)
{
	struct websocket *socket = gateway->socket;
	struct buffer *text = &socket->message;
	struct gateway_event event = {
		.kind = socket->opcode == FRAME_TEXT ? GATEWAY_EVENT_TEXT : GATEWAY_EVENT_BINARY,
		.has_content = true,
		.content = text->at ? (struct slice){buffer_head(text), buffer_used(text)}
				    : SLICE_NONE,
	};

	socket->received.messages++;
	socket->received.bytes += event.content.len;
	if (socket->grip.is_detached) {
		buffer_release(text, &socket->worker->blocks);
		return;
	}
	gateway_drop_keep_alive(gateway);
	struct exchange *x = make(gateway, &event);
	if (x) {
		x->tunnel.message_bytes = (uint32_t)event.content.len;
		gateway->arriving_bytes = x->framing.length;
		append(gateway, x);
	}
	buffer_release(text, &socket->worker->blocks);
	if (!x || !x->memory.body)
		socket_abort(socket, "no memory");
	else
		turn_begin_message(x, socket->passage->request);
}

/* An event of our own leaves when no message is under way. NULL: none, to keep the socket alive. */
static void begin_event(struct gateway *gateway, const struct gateway_event *event)
{
	struct exchange *x = make(gateway, event);

	if (!x)
		return; /* the server is not told */
	x->kind = event ? EXCHANGE_DISCONNECT : EXCHANGE_KEEP_ALIVE;
	gateway->arriving_bytes = x->framing.length;
	append(gateway, x);
	if (event && !x->memory.body)
		gateway_end_message(x, "no memory");
	else
		turn_begin_event(x, gateway->event_session);
}

void gateway_send_close(struct gateway *gateway, struct slice payload)
{
	const struct gateway_event event = {GATEWAY_EVENT_CLOSE, payload.len > 0, payload};

	gateway->close_is_queued = gateway->server_is_done = true;
	begin_event(gateway, &event);
}

void gateway_send_disconnect(struct gateway *gateway)
{
	const struct gateway_event event = {GATEWAY_EVENT_DISCONNECT, false, SLICE_NONE};

	begin_event(gateway, &event);
}

void gateway_send_keep_alive(struct gateway *gateway)
{
	begin_event(gateway, NULL);
}

static bool is_keep_alive(const struct exchange *x)
{
	return x->kind == EXCHANGE_KEEP_ALIVE;
}

void gateway_drop_keep_alive(struct gateway *gateway)
{
	struct exchange *first = gateway->client.first;

	if (first && is_keep_alive(first) && exchange_waits_for_turn(first))
		gateway_end_message(first, NULL);
}

/* ---- its turn -------------------------------------------------------------------------------- */

/* Can it leave with the one whose turn it is, as soon as its verdict is fresh? */
static bool is_rider(const struct exchange *lead, const struct exchange *x)
{
	return x->state == EXCHANGE_HELD && exchange_is_queued(x) && x->turn.question == 0 &&
	       (x->gate->verdict.outcome == GATE_ADMIT || x->gate->judged_late) &&
	       !(x->gate->asked_behind && x->gate->receipt.in_bytes != 0) &&
	       !exchange_is_event(x) && x->use == lead->use && x->route == lead->route;
}

/* May it leave with that now? Nothing of another connection is passed by that. */
static bool may_ride(const struct exchange *lead, struct exchange *x)
{
	return is_rider(lead, x) && !turn_is_old(x) &&
	       queue_is_next(x->worker->node->queue, &x->turn.ticket) && turn_judge_early(x);
}

/* One that is judged at once by its authority may be refused, and those behind it with it. */
static void ask_riders(struct exchange *lead)
{
	struct exchange *x = lead->next;
	unsigned events = 1, most = lead->route->websocket.gateway.batch;

	for (; x && events < most && is_rider(lead, x); x = x->next, events++) {
		if (!turn_is_old(x))
			continue;
		turn_renew(x);
		if (x->state == EXCHANGE_ENDED)
			break;
	}
}

static bool riders_are_asked(const struct exchange *lead)
{
	for (const struct exchange *x = lead->next; x; x = x->next)
		if (turn_is_renewed(x))
			return true;
	return false;
}

void gateway_renew_riders(struct gateway *gateway)
{
	struct exchange *lead = gateway->client.first;

	if (lead->turn.renewals > 0 && lead->turn.question != 0) {
		ask_riders(lead);
	} else if (turn_awaits_riders(lead) && !riders_are_asked(lead)) {
		deadline_clear(&lead->turn.deadline);
		exchange_forward(lead);
	}
}

static void take_along(struct gateway *gateway, struct exchange *lead, struct exchange *last)
{
	struct exchange *x = lead->next;

	lead->next = x->next;
	if (gateway->last == x)
		gateway->last = lead;
	x->next = NULL;
	if (last)
		last->next = x;
	else
		lead->tunnel.riders = x;
	x->times.started_ns = worker_now_ns(x->worker);
	exchange_leave_queue(x);
	if (x->turn.has_deadline)
		deadline_clear(&x->turn.deadline);
}

/* Returns the bytes of all. */
static uint64_t gather_riders(struct gateway *gateway, struct exchange *lead)
{
	uint64_t bytes = lead->framing.length;
	struct exchange *last = NULL;

	for (unsigned events = 1; events < lead->route->websocket.gateway.batch; events++) {
		struct exchange *x = lead->next;
		if (!x || bytes + x->framing.length > GATEWAY_BATCH_BYTES || !may_ride(lead, x))
			break;
		take_along(gateway, lead, last);
		bytes += x->framing.length;
		last = x;
	}
	return bytes;
}

/* Their events behind its own. */
static bool join(struct exchange *lead, uint64_t bytes)
{
	char *body = malloc(bytes);
	size_t done = lead->framing.length;

	if (!body)
		return false;
	memcpy(body, lead->memory.body, done);
	for (const struct exchange *x = lead->tunnel.riders; x; x = x->next) {
		memcpy(body + done, x->memory.body, x->framing.length);
		done += x->framing.length;
	}
	free(lead->memory.body);
	lead->memory.body = body;
	lead->framing.length = bytes;
	return true;
}

/* What the server has not accepted goes before its own events. A request without events has no
 * body. */
static bool put_rest(struct gateway *gateway, struct exchange *x)
{
	if (x->kind == EXCHANGE_DISCONNECT && !gateway->close_is_queued)
		replay_clear(&gateway->replay); /* DISCONNECT */
	return replay_put(&gateway->replay, &x->memory.body, &x->framing.length);
}

bool gateway_serve(struct client *client, struct exchange *x)
{
	struct gateway *gateway = gateway_of(client);
	unsigned status = 0;

	if (x->tunnel.is_composed)
		return true; /* it could not be sent before */
	if (x->state == EXCHANGE_ASKING && riders_are_asked(x)) {
		turn_await_riders(x);
		return false;
	}
	if (!exchange_is_event(x)) {
		uint64_t bytes = gather_riders(gateway, x);
		if (x->tunnel.riders && !join(x, bytes))
			status = 503;
	}
	if (status == 0 && !put_rest(gateway, x))
		status = 503;
	gateway->retries = 0;
	if (status == 0)
		status = gateway_make_request(gateway, x);
	x->tunnel.is_composed = true;
	if (status != 0)
		exchange_reply(x, status, "no memory", HTTP_PROBLEM_NO_RETRY);
	return status == 0;
}

bool gateway_retry(struct client *client, struct exchange *x)
{
	struct gateway *gateway = gateway_of(client);
	uint64_t random = websockets_random_below(websockets_of(gateway->worker), UINT64_MAX);
	uint64_t after_ms =
		retry_after_ms(++gateway->retries, x->route->websocket.gateway.tries, random);

	if (after_ms == 0 || gateway->worker->stopping || gateway_is_over(gateway))
		return false;
	exchange_try_later(x, after_ms);
	return true;
}

/* Their events are the last of its body. They take places again, ahead of what other connections of
 * their session have sent since they left them. */
void gateway_part(struct client *client, struct exchange *lead, struct exchange *rider)
{
	struct gateway *gateway = gateway_of(client);
	struct exchange **at = &lead->tunnel.riders, *last = lead;

	while (*at != rider)
		at = &(*at)->next;
	*at = NULL;
	for (struct exchange *next = rider; next; last = next, next = next->next) {
		lead->framing.length -= next->framing.length;
		turn_enter_behind(next, last);
	}
	last->next = lead->next;
	lead->next = rider;
	if (gateway->last == lead)
		gateway->last = last;
}

/* ---- its end --------------------------------------------------------------------------------- */

/* What they are charged in bytes is what the client has sent. */
static void end_one(struct exchange *x, const char *why)
{
	x->outcome = why ? why : x->outcome;
	x->up.content_bytes = x->attempt.reach == REACH_LEFT ? x->tunnel.message_bytes : 0;
	x->down.content_bytes = 0;
	exchange_end(x);
}

void gateway_end_message(struct exchange *lead, const char *why)
{
	struct exchange *x = lead->tunnel.riders, *next;

	lead->tunnel.riders = NULL;
	for (; x; x = next) {
		next = x->next;
		x->next = NULL;
		x->attempt.reach = lead->attempt.reach;
		x->answer.status = lead->answer.status;
		x->answer.upstream_status = lead->answer.upstream_status;
		x->answer.has_cost = lead->answer.has_cost; /* 0: the first is charged it */
		end_one(x, why);
	}
	end_one(lead, why);
}

static unsigned count_riders(const struct exchange *lead)
{
	unsigned count = 0;

	for (const struct exchange *x = lead->tunnel.riders; x; x = x->next)
		count++;
	return count;
}

void gateway_fail(struct gateway *gateway, bool was_event, const char *why)
{
	if (!was_event || socket_has_messages(gateway->socket))
		socket_message_lost(gateway->socket, why);
	socket_server_gone(gateway->socket, why);
}

void gateway_lack_memory(struct gateway *gateway, bool was_event, const char *why)
{
	struct websocket *socket = gateway->socket;

	if (!was_event || !socket->closing.begun || socket_has_messages(socket))
		socket_close_failed(socket, CLOSE_TRY_AGAIN, slice_of(why), why);
	socket_server_gone(socket, why);
}

/* One that waits for its turn, perhaps for a second try, is turned away by a limit or the queue: no
 * server is gone by that. */
void gateway_refuse(struct client *client, struct exchange *x, unsigned status, const char *why,
	uint64_t retry_after_ms)
{
	struct gateway *gateway = gateway_of(client);
	struct websocket *socket = gateway->socket;
	bool is_event = exchange_is_event(x);
	bool was_tried = x->tunnel.is_composed && !exchange_waits_for_turn(x);
	bool is_needless = is_keep_alive(x) && !was_tried;
	bool is_turned_away = !was_tried && !is_event;
	bool is_answered = status == 503 &&
			   x->attempt.reach == REACH_LEFT; /* there was no room for the answer */
	bool is_dropped = is_turned_away && socket && socket_drops_message(socket, x, status);
	unsigned count = 1 + count_riders(x);

	exchange_enter(x, EXCHANGE_REPLYING);
	/* The socket closes for this one: what came behind it is not passed on either. */
	while (is_turned_away && !is_dropped && x->next)
		gateway_end_message(x->next, why);
	gateway_end_message(x, why);
	if (!socket || socket_has_ended(socket) || is_needless)
		return;
	if (gateway_is_over(gateway))
		socket_session_over(socket);
	else if (is_answered)
		gateway_lack_memory(gateway, is_event, why);
	else if (!is_turned_away)
		gateway_fail(gateway, is_event, why);
	else
		socket_messages_refused(socket, count, is_dropped, status, why, retry_after_ms);
}
