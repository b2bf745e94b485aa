#include "websocket/survey.h"

#include <stdio.h>
#include <string.h>

#include "websocket/state.h"
#include "websocket/send.h"
#include "websocket/close.h"

static void on_done(struct message *message)
{
	struct socket_survey *survey = CONTAINER_OF(message, struct socket_survey, message);

	survey->done(survey);
}

static void on_arrival(struct message *message);

/* To the worker `survey->worker`, or home. */
static void travel(struct socket_survey *survey)
{
	struct node *node = survey->node;
	bool is_over = survey->is_over || survey->worker >= node->worker_count;

	survey->message.run = is_over ? on_done : on_arrival;
	message_post(
		is_over ? &node->loop : &node->workers[survey->worker]->loop, &survey->message);
}

static bool on_visit(struct socket_walk *walk, struct websocket *socket)
{
	struct socket_survey *survey = CONTAINER_OF(walk, struct socket_survey, walk);

	/* Ids of a worker rise, and the youngest are visited first. */
	if (survey->after != 0 && socket_id_worker(survey->after) == survey->worker &&
		socket->id >= survey->after)
		return true;
	if (!filter_fits(&survey->filter, socket))
		return true;
	survey->is_over = !survey->visit(survey, socket);
	return !survey->is_over;
}

static void on_walked(struct socket_walk *walk)
{
	struct socket_survey *survey = CONTAINER_OF(walk, struct socket_survey, walk);

	survey->worker++;
	travel(survey);
}

static void look_up(struct socket_survey *survey, struct websockets *all)
{
	struct websocket *socket = websockets_find(all, survey->id);

	if (socket && filter_fits(&survey->filter, socket))
		survey->visit(survey, socket);
	survey->is_over = true;
	travel(survey);
}

static void on_arrival(struct message *message)
{
	struct socket_survey *survey = CONTAINER_OF(message, struct socket_survey, message);
	struct worker *worker = survey->node->workers[survey->worker];

	if (survey->id != 0) {
		look_up(survey, websockets_of(worker));
		return;
	}
	survey->walk = (struct socket_walk){.visit = on_visit, .done = on_walked};
	walk_begin(&survey->walk, worker);
}

void survey_begin(struct socket_survey *survey, struct node *node)
{
	uint64_t from = survey->id != 0 ? survey->id : survey->after;

	survey->node = node;
	survey->is_over = false;
	survey->worker = from != 0 ? socket_id_worker(from) : 0;
	travel(survey);
}

/* ---- view ----------------------------------------------------------------------------------- */

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

/* ---- command -------------------------------------------------------------------------------- */

static enum socket_command_result enqueue(
	struct websocket *socket, enum send_lane lane, const struct socket_command *command)
{
	bool takes = socket_takes_sends(socket);

	if (socket_send(socket, lane, command->frame, command->report))
		return SOCKET_COMMAND_DONE;
	return takes ? SOCKET_COMMAND_DROPPED : SOCKET_COMMAND_GONE;
}

/* Cut by a reset, where the transport has one: what the client has not read yet is thrown away. */
static void abort_now(struct websocket *socket)
{
	stream_reset_at_close(socket->passage->down.sink);
	socket_abort(socket, "aborted");
}

static void end_soon(struct websocket *socket, const struct socket_command *command)
{
	struct slice reason = {command->reason, command->reason_len};

	if (command->kind == SOCKET_CLOSE)
		socket_close(socket, command->code, reason, command->code, "closed");
	else
		socket_finish(socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	stream_wake(socket->passage->down.sink);
}

enum socket_command_result socket_run_command(
	struct websocket *socket, const struct socket_command *command)
{
	bool is_closing = socket->closing.begun;

	switch (command->kind) {
	case SOCKET_POST:
		return enqueue(socket, SEND_NORMAL, command);
	case SOCKET_SEND:
		return enqueue(socket, SEND_HIGH, command);
	case SOCKET_ABORT:
		abort_now(socket);
		return SOCKET_COMMAND_DONE;
	case SOCKET_CLOSE:
	case SOCKET_DRAIN:
		end_soon(socket, command);
		break;
	case SOCKET_COMMANDS:
		break;
	}
	return is_closing ? SOCKET_COMMAND_GONE : SOCKET_COMMAND_DONE;
}
