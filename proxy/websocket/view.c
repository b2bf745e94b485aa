#include "websocket/view.h"

#include <stdio.h>
#include <string.h>

#include "websocket/send.h"

const char *socket_type(const struct websocket *socket)
{
	const char *type = socket_conf(socket)->type;

	return type ? type : socket->passage->account.route->name;
}

uint64_t socket_age_ms(const struct websocket *socket)
{
	return socket_now_ms(socket) - socket->opened_ms;
}

uint64_t socket_idle_ms(const struct websocket *socket)
{
	return socket_now_ms(socket) - socket->active_ms;
}

uint64_t socket_caller(const struct websocket *socket)
{
	return socket->passage->request->caller.lo;
}

void socket_session(const struct websocket *socket, uint64_t key[static 2])
{
	const struct passage *passage = socket->passage;
	bool is_in_one = passage->in_queue;

	key[0] = is_in_one ? passage->request->session.hi : 0;
	key[1] = is_in_one ? passage->request->session.lo : 0;
}

const uint8_t *socket_address(const struct websocket *socket)
{
	return socket->passage->request->facts.address;
}

static const char *state_of(const struct websocket *socket)
{
	if (!socket->closing.begun)
		return "open";
	return socket->closing.finishes ? "draining" : "closing";
}

static void copy_meta(const struct meta *from, struct meta *to)
{
	for (unsigned i = 0; i < from->count; i++) {
		const struct meta_item *item = &from->items[i];
		meta_set(to, (struct slice){item->text, item->name_len},
			(struct slice){item->text + item->name_len, item->value_len});
	}
}

void socket_view_clear(struct socket_view *view)
{
	meta_clear(&view->meta);
}

void socket_view(const struct websocket *socket, struct socket_view *view)
{
	struct socket_server_facts facts;

	*view = (struct socket_view){
		.id = socket->id,
		.caller = socket_caller(socket),
		.state = state_of(socket),
		.age_ms = socket_age_ms(socket),
		.idle_ms = socket_idle_ms(socket),
		.received = socket->received,
		.sent = socket->sent,
		.queued = socket_queued_messages(socket),
		.queued_bytes = socket_queued_bytes(socket),
		.refused = socket->verdicts.refused,
		.delayed = socket->verdicts.delayed,
	};
	snprintf(view->type, sizeof(view->type), "%s", socket_type(socket));
	snprintf(view->route, sizeof(view->route), "%s", socket->passage->account.route->name);
	socket_session(socket, view->session);
	memcpy(view->address, socket_address(socket), sizeof(view->address));
	socket->server->describe(socket, &facts);
	snprintf(view->connection, sizeof(view->connection), "%.*s", (int)facts.connection_id.len,
		facts.connection_id.len > 0 ? facts.connection_id.at : "");
	if (facts.meta)
		copy_meta(facts.meta, &view->meta);
}
