/*
 * The answers of a server: fields for the gateway, events for the client.
 *
 *   head --gateway_collects--> status, type, Set-Meta-*, Keep-Alive-Interval, grip
 *   body --all of it, judged--> TEXT, BINARY, PING, PONG --> frames
 *                               CLOSE --> the socket closes   `c:...` --> grip.h
 *
 * The events of a long answer are passed on in several turns: meanwhile the message that they
 * answer is under way, and the client is not read.
 *
 *   gateway_pass_answer --SOCKET_TURN_WORK, next turn--> gateway_pass_on ... --> the message ends
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "record/account.h"
#include "websocket/close.h"
#include "gateway/gateway.h"
#include "websocket/grip.h"
#include "websocket/send.h"
#include "websocket/state.h"
#include "websocket/read_server.h"

/* ---- its head -------------------------------------------------------------------------------- */

static const struct slice media_type = SLICE("application/websocket-events");
static const struct slice set_meta = SLICE("set-meta-");

static bool has_media_type(const struct http_head *head)
{
	struct slice value = http_head_find_name(head, SLICE("content-type"));
	const char *semicolon = value.len > 0 ? memchr(value.at, ';', value.len) : NULL;

	if (semicolon)
		value.len = (size_t)(semicolon - value.at);
	return slice_equal_nocase(slice_trim(value), media_type);
}

/* Seconds; anything that is no number of them, and 0, is for none. */
static void take_keep_alive(struct gateway *gateway, struct slice value)
{
	uint64_t seconds = 0;

	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9' || value.len > 6) {
			seconds = 0;
			break;
		}
		seconds = seconds * 10 + (uint64_t)(value.at[i] - '0');
	}
	gateway->keep_alive_ms = seconds * 1000;
}

/* `grip`, `grip; message-prefix=""`, `grip; message-prefix=m:` */
static void take_extension(struct gateway_grip *grip, struct slice element)
{
	static const struct slice parameter = SLICE("message-prefix=");
	const char *semicolon = memchr(element.at, ';', element.len);
	struct slice name = element, rest = SLICE_NONE;

	if (semicolon) {
		name.len = (size_t)(semicolon - element.at);
		rest = slice_trim((struct slice){semicolon + 1, element.len - name.len - 1});
	}
	if (!slice_equal_nocase(slice_trim(name), SLICE("grip")))
		return;
	*grip = (struct gateway_grip){.on = true, .prefix_len = 2, .prefix = "m:"};
	if (rest.len < parameter.len ||
		!slice_equal_nocase((struct slice){rest.at, parameter.len}, parameter))
		return;
	rest.at += parameter.len;
	rest.len -= parameter.len;
	if (rest.len >= 2 && rest.at[0] == '"' && rest.at[rest.len - 1] == '"')
		rest = (struct slice){rest.at + 1, rest.len - 2};
	if (rest.len > GATEWAY_PREFIX_BYTES)
		return;
	grip->prefix_len = (uint8_t)rest.len;
	memcpy(grip->prefix, rest.at, rest.len);
}

/* False: no memory. */
static bool take_fields(struct gateway *gateway, const struct http_head *head, bool opens)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		struct slice name = http_field_name(head, field), element;
		struct slice value = http_field_value(head, field);
		if (slice_equal_nocase(name, SLICE("keep-alive-interval")))
			take_keep_alive(gateway, value);
		if (slice_equal_nocase(name, SLICE("content-bytes-accepted")))
			replay_accept(&gateway->replay, value);
		if (opens && slice_equal_nocase(name, SLICE("sec-websocket-extensions")))
			while (slice_next_element(&value, &element))
				take_extension(&gateway->grip, element);
		if (name.len <= set_meta.len ||
			!slice_equal_nocase((struct slice){name.at, set_meta.len}, set_meta))
			continue;
		name.at += set_meta.len;
		name.len -= set_meta.len;
		if (meta_set(&gateway->meta, name, value) != META_SET)
			return false;
	}
	return true;
}

/* OPEN: anything but events is the client's. Such an answer is not, and gateway_opened says what is
 * wrong with its fields. */
static bool collects_opening(struct gateway *gateway, struct exchange *x)
{
	const struct http_head *head = x->response;

	if (head->status != 200 || !has_media_type(head))
		return false;
	gateway->answer.at = malloc(head->len);
	if (gateway->answer.at)
		memcpy(gateway->answer.at, head->base, head->len);
	gateway->answer.len = head->len;
	gateway->answer_fault = NULL;
	if (!gateway->answer.at)
		gateway->answer_fault = "no memory";
	else if (!take_fields(gateway, head, true))
		gateway->answer_fault = "too many meta values";
	return true;
}

bool gateway_collects(struct exchange *x)
{
	struct gateway *gateway = x->tunnel.gateway;
	const struct http_head *head = x->response;
	bool is_empty = head->status == 204 ||
			(x->response_framing.has_length && x->response_framing.length == 0);

	gateway->replay.accepted = REPLAY_ACCEPTS_ALL;
	if (x->kind == EXCHANGE_GATEWAY_HANDSHAKE)
		return collects_opening(gateway, x);
	gateway->answer_fault = NULL;
	if (head->status / 100 != 2)
		gateway->answer_fault = "answer with an unsuccessful status";
	else if (!is_empty && !has_media_type(head))
		gateway->answer_fault = "answer without events";
	else if (!take_fields(gateway, head, false))
		gateway->answer_fault = "too many meta values";
	return true;
}

/* ---- its content ----------------------------------------------------------------------------- */

char *gateway_content(const struct exchange *x, struct slice *content)
{
	struct spool *spool = x->down.spool;
	size_t bytes = (size_t)spool_bytes(spool), done = 0;
	char *copy = malloc(bytes + 1);
	struct slice run;

	while (copy && (run = spool_front(spool)).len > 0) {
		memcpy(copy + done, run.at, run.len);
		done += run.len;
		spool_drop(spool, run.len);
	}
	*content = (struct slice){copy, done};
	return copy;
}

bool gateway_is_well_formed(struct slice content, bool opens)
{
	struct gateway_event event;
	unsigned count = 0;

	for (;; count++) {
		switch (gateway_event_read(&content, &event)) {
		case GATEWAY_EVENT_NONE:
			return count > 0 || !opens;
		case GATEWAY_EVENT_MALFORMED:
			return false;
		case GATEWAY_EVENT_READ:
			break;
		}
		if ((event.kind == GATEWAY_EVENT_OPEN) != (opens && count == 0) ||
			count >= GATEWAY_ANSWER_EVENTS)
			return false;
		if ((event.kind == GATEWAY_EVENT_PING || event.kind == GATEWAY_EVENT_PONG) &&
			event.content.len > FRAME_CONTROL_BYTES)
			return false;
	}
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool begins_with(struct slice text, struct slice prefix)
{
	return text.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(text.at, prefix.at, prefix.len) == 0);
}

/* What of a message's content is the client's; false: none of it. */
static bool take_prefix(struct gateway *gateway, struct slice *content)
{
	const struct gateway_grip *grip = &gateway->grip;
	const struct slice prefix = {grip->prefix, grip->prefix_len};
	static const struct slice control = SLICE("c:");

	if (!grip->on)
		return true;
	if (begins_with(*content, control)) {
		if (gateway->socket)
			socket_take_control(
				gateway->socket, (struct slice){content->at + control.len,
							 content->len - control.len});
		return false;
	}
	if (!begins_with(*content, prefix))
		return false;
	if (prefix.len > 0)
		*content = (struct slice){content->at + prefix.len, content->len - prefix.len};
	return true;
}

/* Behind what waits for the client. Composed at once, where nothing does: the usual case. */
void gateway_deliver(
	struct gateway *gateway, enum send_lane lane, uint8_t opcode, struct slice payload)
{
	struct websocket *socket = gateway->socket;

	if (socket_has_sends(socket) || gateway->passing.client_is_behind) {
		socket_send_copy(socket, lane, opcode, payload);
		return;
	}
	if (!(opcode & 8)) {
		socket->sent.messages++;
		socket->sent.bytes += payload.len;
	}
	if (!socket_write_client(socket, opcode, payload))
		socket_abort(socket, "no memory");
}

static void pass_message(struct gateway *gateway, uint8_t opcode, struct slice content)
{
	struct websocket *socket = gateway->socket;

	if (!take_prefix(gateway, &content) || socket->closing.client.told)
		return;
	/* The client would have to close with 1007 (RFC 6455 section 8.1), as if it were our fault.
	 */
	if (opcode == FRAME_TEXT && !utf8_is_valid(content)) {
		gateway_fail(gateway, false, "text that is not UTF-8");
		return;
	}
	passage_count(socket->passage, STATS_SERVER_MESSAGES, 1);
	passage_count(socket->passage, STATS_SERVER_MESSAGE_BYTES, content.len);
	socket->active_ms = socket_now_ms(socket);
	gateway_deliver(gateway, SEND_NORMAL, opcode, content);
}

static void pass_control(struct gateway *gateway, uint8_t opcode, struct slice content)
{
	if (!gateway->socket->closing.client.told)
		gateway_deliver(gateway, SEND_NORMAL, opcode, content);
}

/* A code that may not be sent is as none; so is 0, which servers write for none. */
static void pass_close(struct websocket *socket, struct slice content)
{
	char payload[FRAME_CONTROL_BYTES];
	unsigned code = CLOSE_NO_CODE;
	struct slice reason = SLICE_NONE;

	if (content.len >= 2)
		code = (unsigned)((uint8_t)content.at[0] << 8 | (uint8_t)content.at[1]);
	if (!close_code_is_valid(code))
		code = CLOSE_NO_CODE;
	else
		reason = (struct slice){content.at + 2, content.len - 2};
	if (!utf8_is_valid(reason))
		reason = SLICE_NONE;
	socket->closing.server.told = true;
	socket->closing.server.due = false;
	gateway_of(socket->gateway)->server_is_done = true;
	socket_server_closes(socket, close_payload(code, reason, payload));
}

static void pass_event(struct gateway *gateway, const struct gateway_event *event)
{
	struct websocket *socket = gateway->socket;

	switch (event->kind) {
	case GATEWAY_EVENT_TEXT:
		pass_message(gateway, FRAME_TEXT, event->content);
		break;
	case GATEWAY_EVENT_BINARY:
		pass_message(gateway, FRAME_BINARY, event->content);
		break;
	case GATEWAY_EVENT_PING:
		pass_control(gateway, FRAME_PING, event->content);
		break;
	case GATEWAY_EVENT_PONG:
		pass_control(gateway, FRAME_PONG, event->content);
		break;
	case GATEWAY_EVENT_CLOSE:
		pass_close(socket, event->content);
		break;
	case GATEWAY_EVENT_DISCONNECT:
		gateway->server_is_done = true;
		socket_server_gone(socket, "server disconnected");
		break;
	case GATEWAY_EVENT_OPEN:
	case GATEWAY_EVENT_UNKNOWN:
		break;
	}
}

/* ---- in turns -------------------------------------------------------------------------------- */

/* The server has had its chance to answer a CLOSE; else the client gets what it has sent. */
static void close_is_answered(struct gateway *gateway)
{
	struct websocket *socket = gateway->socket;

	if (socket && !socket_has_ended(socket) && !socket->closing.server.done)
		socket_server_closes(
			socket, (struct slice){gateway->close.text, gateway->close.len});
}

/* Is there anything left that anybody wants? Each event may end the socket. */
static bool goes_on(const struct gateway *gateway)
{
	const struct websocket *socket = gateway->socket;

	return gateway->passing.rest.len > 0 && socket && !socket_has_ended(socket) &&
	       !socket->closing.server.done;
}

static void pass_some(struct gateway *gateway)
{
	struct gateway_event event;

	while (goes_on(gateway) &&
		socket_may_work(gateway->socket, &gateway->socket->server_work) &&
		gateway_event_read(&gateway->passing.rest, &event) == GATEWAY_EVENT_READ) {
		gateway->socket->server_work += (unsigned)(event.content.len / SOCKET_WORK_BYTES);
		gateway->socket->again = true;
		pass_event(gateway, &event);
	}
}

/* All is passed on, or nobody is there any more. */
static void finish(struct gateway *gateway)
{
	struct exchange *x = gateway->passing.message;
	bool is_close = x && gateway->close_is_queued && x->kind == EXCHANGE_DISCONNECT;

	free(gateway->passing.bytes);
	gateway->passing =
		(struct gateway_passing){.client_is_behind = gateway->passing.client_is_behind};
	if (x)
		gateway_end_message(x, NULL);
	if (gateway->socket)
		gateway->socket->again = true;
	if (is_close)
		close_is_answered(gateway);
}

void gateway_pass_on(struct gateway *gateway)
{
	struct gateway_passing *passing = &gateway->passing;

	if (!passing->bytes || passing->is_busy)
		return;
	passing->is_busy = true;
	pass_some(gateway);
	passing->is_busy = false;
	if (goes_on(gateway))
		stream_yield(gateway->socket->passage->up.source);
	else
		finish(gateway);
}

void gateway_pass_answer(
	struct gateway *gateway, struct exchange *x, char *bytes, struct slice content)
{
	const struct websocket *socket = gateway->socket;

	assert(!gateway->passing.bytes);
	gateway->passing = (struct gateway_passing){.bytes = bytes, .rest = content, .message = x};
	if (socket)
		gateway->passing.client_is_behind =
			flow_bytes(socket->passage->down.flow) >= SOCKET_AHEAD_BYTES;
	gateway_pass_on(gateway);
}

/* ---- the answer to a request ----------------------------------------------------------------- */

/* Of the events of its request, what the server has not accepted. There are no more behind CLOSE.
 */
static const char *keep_rest(struct gateway *gateway, const struct exchange *x)
{
	struct slice events = {x->memory.body, x->memory.body ? (size_t)x->framing.length : 0};
	const char *fault;

	if (!gateway->socket)
		return NULL;
	fault = replay_keep(&gateway->replay, events, x->route->websocket.gateway.waiting_bytes);
	if (!fault && x->kind == EXCHANGE_DISCONNECT && gateway->replay.events) {
		replay_clear(&gateway->replay);
		socket_message_lost(gateway->socket, "message that was not accepted");
	}
	return fault;
}

void gateway_take_answer(struct exchange *x)
{
	struct gateway *gateway = x->tunnel.gateway;
	bool is_event = exchange_is_event(x);
	bool is_close = gateway->close_is_queued && x->kind == EXCHANGE_DISCONNECT;
	struct slice content = SLICE_NONE;
	char *bytes = gateway_content(x, &content);
	const char *fault = gateway->answer_fault;

	if (bytes && !fault && !gateway_is_well_formed(content, false))
		fault = "malformed answer";
	if (bytes && !fault)
		fault = keep_rest(gateway, x);
	if (bytes && !fault) {
		gateway_pass_answer(gateway, x, bytes, content);
		return;
	}
	bool has_memory = bytes != NULL;
	free(bytes);
	gateway_end_message(x, has_memory ? fault : "no memory");
	if (gateway->socket && !has_memory)
		gateway_lack_memory(gateway, is_event, "no memory");
	else if (gateway->socket)
		gateway_fail(gateway, is_event, fault);
	if (is_close)
		close_is_answered(gateway);
}
