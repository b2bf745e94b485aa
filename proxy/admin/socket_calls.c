#include "admin/socket_calls.h"

#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/json_text.h"
#include "admin/background.h"
#include "admin/request.h"
#include "base/list.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "websocket/survey.h"
#include "gate/identity.h"
#include "http/forwarded.h"
#include "websocket/sockets.h"

/* ---- socket json ---------------------------------------------------------------------------- */

/* A WebSocket as the operator's API shows it. */

struct socket_view;

#define SESSION_BYTES 33

static void set_integer(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void set_session(json_t *object, const uint64_t session[2])
{
	char text[SESSION_BYTES];
	bool is_in_one = session[0] != 0 || session[1] != 0;

	snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, session[0], session[1]);
	json_object_set_new(object, "session", is_in_one ? json_string(text) : json_null());
}

/* Null but of a gateway's: its Connection-Id, and the values that its server has set. */
static void set_gateway(json_t *object, const struct socket_view *view)
{
	bool is_gateway = view->connection[0] != '\0';
	json_t *meta = is_gateway ? json_object() : json_null();

	for (unsigned i = 0; i < view->meta.count; i++) {
		const struct meta_item *item = &view->meta.items[i];
		char *name = strndup(item->text, item->name_len);
		char *value = strndup(item->text + item->name_len, item->value_len);
		json_t *text = value ? admin_json_text(value) : NULL;
		/* A member's name must be UTF-8. */
		if (!name || !text || json_object_set_new(meta, name, text) != 0)
			log_debug("a value of a socket is not shown");
		free(name);
		free(value);
	}
	json_object_set_new(
		object, "connection", is_gateway ? json_string(view->connection) : json_null());
	json_object_set_new(object, "meta", meta);
}

/* `process`: what the ids of this process begin with. NULL without memory. */
static json_t *socket_json(const struct socket_view *view, uint64_t process)
{
	const struct throttle_key key = {.lo = view->caller};
	char id[SOCKET_ID_BYTES], caller[IDENTITY_SHORT_BYTES], address[FORWARDED_ADDRESS_BYTES];
	size_t address_len = forwarded_address_text(view->address, address);

	socket_id_text(process, view->id, id);
	identity_short(&key, caller);
	json_t *object = json_pack("{s:s, s:o, s:o, s:s, s:s#, s:s#}", "id", id, "type",
		admin_json_text(view->type), "route", admin_json_text(view->route), "state",
		view->state, "caller", caller, (int)sizeof(caller), "address", address,
		(int)address_len);
	if (!object)
		return NULL;
	set_session(object, view->session);
	set_integer(object, "age_ms", view->age_ms);
	set_integer(object, "idle_ms", view->idle_ms);
	set_integer(object, "messages_received", view->received.messages);
	set_integer(object, "bytes_received", view->received.bytes);
	set_integer(object, "messages_sent", view->sent.messages);
	set_integer(object, "bytes_sent", view->sent.bytes);
	set_integer(object, "refused", view->refused);
	set_integer(object, "delayed", view->delayed);
	set_integer(object, "queued", view->queued);
	set_integer(object, "queued_bytes", view->queued_bytes);
	set_gateway(object, view);
	return object;
}

/* ---- socket calls --------------------------------------------------------------------------- */

#define VIEWS_FIRST   16
#define RETRY_AFTER_S 1

/* A request that waits for frames to be written. It lives until the last of them was told, also
 * when its request was answered long before. */
struct send_tally {
	struct send_report report;
	struct send_tally *prev, *next; /* in all->tallies */
	struct socket_calls *all;
	struct socket_call *call; /* the main thread's; NULL: answered */
	/* Relaxed adds; the last to leave `unsettled` releases them to the main thread. */
	_Atomic uint64_t results[SEND_RESULTS];
	_Atomic uint64_t unsettled; /* frames, and one as long as more may come */
	struct message settled;
};

struct socket_call {
	struct socket_survey survey;
	struct socket_call *prev, *next; /* in all->calls */
	struct socket_calls *all;
	struct admin_request *request;
	void (*respond)(struct socket_call *call);
	uint64_t found;

	/* of a list */
	struct socket_view *views;
	size_t count, room, most;
	bool has_more, has_no_memory;

	/* of a command */
	struct socket_command command;
	uint64_t results[SOCKET_COMMAND_RESULTS];
	struct send_tally *tally; /* NULL: nobody waits */
	unsigned wait_ms;
	struct event *timer;
};

struct socket_calls {
	struct daemon *daemon;
	struct pending *pending;
	struct socket_call *calls;
	struct send_tally *tallies;
	unsigned count;
};

/* ---- life ------------------------------------------------------------------------------------ */

struct socket_calls *socket_calls_new(struct daemon *daemon, struct pending *pending)
{
	struct socket_calls *all = calloc(1, sizeof(*all));

	if (all)
		*all = (struct socket_calls){.daemon = daemon, .pending = pending};
	return all;
}

static void free_tally(struct send_tally *tally)
{
	CHAIN_REMOVE(tally->all->tallies, tally, prev, next);
	free(tally);
}

static void free_call(struct socket_call *call)
{
	struct socket_calls *all = call->all;

	CHAIN_REMOVE(all->calls, call, prev, next);
	all->count--;
	if (call->timer)
		event_free(call->timer);
	shared_frame_release(call->command.frame);
	for (size_t i = 0; i < call->count; i++)
		socket_view_clear(&call->views[i]);
	free(call->views);
	free(call);
}

void socket_calls_free(struct socket_calls *all)
{
	if (!all)
		return;
	while (all->calls)
		free_call(all->calls);
	while (all->tallies)
		free_tally(all->tallies);
	free(all);
}

static void answer(struct socket_call *call)
{
	if (call->tally)
		call->tally->call = NULL;
	call->respond(call);
	pending_answer(call->all->pending, call->request);
	free_call(call);
}

/* NULL: it was refused. */
static struct socket_call *new_call(struct admin_request *request,
	const struct socket_choice *choice, void (*respond)(struct socket_call *call))
{
	struct socket_calls *all = request->sockets;
	struct socket_call *call;

	/* A survey would not come back from a worker that has ended. */
	if (atomic_load(&all->daemon->node.running) < all->daemon->node.worker_count) {
		admin_respond_problem(request, 503, "sluice is stopping.");
		return NULL;
	}
	call = all->count < SOCKET_CALLS ? calloc(1, sizeof(*call)) : NULL;
	if (!call) {
		request->retry_after_s = RETRY_AFTER_S;
		admin_respond_problem(request, 503,
			"Too many requests about sockets are in progress, or there is no memory.");
		return NULL;
	}
	*call = (struct socket_call){
		.survey = {.filter = choice->filter, .id = choice->id, .after = choice->after},
		.all = all,
		.request = request,
		.respond = respond,
	};
	CHAIN_PUSH(all->calls, call, prev, next);
	all->count++;
	request->is_pending = true;
	return call;
}

static struct socket_call *call_of(struct socket_survey *survey)
{
	return CONTAINER_OF(survey, struct socket_call, survey);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* On a worker's thread. */
static bool grow(struct socket_call *call)
{
	size_t room = call->room > 0 ? 2 * call->room : VIEWS_FIRST;
	struct socket_view *views = realloc(call->views, room * sizeof(*views));

	call->has_no_memory = !views;
	if (!views)
		return false;
	call->views = views;
	call->room = room;
	return true;
}

static bool list_one(struct socket_survey *survey, struct websocket *socket)
{
	struct socket_call *call = call_of(survey);

	if (call->count == call->most) {
		call->has_more = true;
		return false;
	}
	if (call->count == call->room && !grow(call))
		return false;
	socket_view(socket, &call->views[call->count++]);
	return true;
}

static void on_listed(struct socket_survey *survey)
{
	answer(call_of(survey));
}

static void respond_list(struct socket_call *call)
{
	uint64_t process = call->all->daemon->node.socket_ids;
	json_t *list = json_array();
	char next[SOCKET_ID_BYTES];

	for (size_t i = 0; i < call->count; i++)
		json_array_append_new(list, socket_json(&call->views[i], process));
	if (call->has_more)
		socket_id_text(process, call->views[call->count - 1].id, next);
	if (call->has_no_memory)
		admin_respond_problem(call->request, 503, "No memory.");
	else
		admin_respond_json(call->request, 200,
			json_pack("{s:O, s:s?}", "sockets", list, "next",
				call->has_more ? next : NULL));
	json_decref(list);
}

static void respond_one(struct socket_call *call)
{
	if (call->has_no_memory)
		admin_respond_problem(call->request, 503, "No memory.");
	else if (call->count == 0)
		admin_respond_problem(call->request, 404, "There is no such socket.");
	else
		admin_respond_json(call->request, 200,
			socket_json(&call->views[0], call->all->daemon->node.socket_ids));
}

static void begin_list(struct socket_call *call, size_t most)
{
	if (!call)
		return;
	call->most = most;
	call->survey.visit = list_one;
	call->survey.done = on_listed;
	survey_begin(&call->survey, &call->all->daemon->node);
}

void socket_calls_list(
	struct admin_request *request, const struct socket_choice *choice, size_t most)
{
	begin_list(new_call(request, choice, respond_list), most);
}

void socket_calls_show(struct admin_request *request, const struct socket_choice *choice)
{
	begin_list(new_call(request, choice, respond_one), 1);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* On a worker's thread, or on the main one when no more can come. */
static bool settle_one(struct send_tally *tally)
{
	return atomic_fetch_sub_explicit(&tally->unsettled, 1, memory_order_acq_rel) == 1;
}

static void tell(struct send_report *report, enum send_result result)
{
	struct send_tally *tally = CONTAINER_OF(report, struct send_tally, report);

	atomic_fetch_add_explicit(&tally->results[result], 1, memory_order_relaxed);
	if (settle_one(tally))
		message_post(&tally->all->daemon->node.loop, &tally->settled);
}

static void end_tally(struct send_tally *tally)
{
	struct socket_call *call = tally->call;

	if (call)
		answer(call);
	free_tally(tally);
}

static void on_settled(struct message *message)
{
	end_tally(CONTAINER_OF(message, struct send_tally, settled));
}

static struct send_tally *new_tally(struct socket_call *call)
{
	struct socket_calls *all = call->all;
	struct send_tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return NULL;
	tally->report.tell = tell;
	tally->settled.run = on_settled;
	tally->all = all;
	tally->call = call;
	atomic_init(&tally->unsettled, 1);
	CHAIN_PUSH(all->tallies, tally, prev, next);
	return tally;
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	answer(arg);
}

/* All were found; some may still have it to be written. */
static void wait_for_rest(struct socket_call *call)
{
	const struct timeval time = {
		call->wait_ms / 1000, (suseconds_t)(call->wait_ms % 1000) * 1000};

	if (settle_one(call->tally)) {
		end_tally(call->tally);
		return;
	}
	call->timer = event_new(call->all->daemon->node.loop.base, -1, 0, on_late, call);
	if (!call->timer || event_add(call->timer, &time) != 0)
		answer(call);
}

/* ---- commands -------------------------------------------------------------------------------- */

/* One more that the request waits for: a frame, or the end of the socket. */
static void add_to_tally(struct socket_call *call, struct websocket *socket)
{
	struct send_tally *tally = call->tally;

	if (!tally)
		return;
	if (socket_command_ends(&call->command) && !socket_report_end(socket, &tally->report))
		return;
	atomic_fetch_add_explicit(&tally->unsettled, 1, memory_order_relaxed);
}

static bool run_on_one(struct socket_survey *survey, struct websocket *socket)
{
	struct socket_call *call = call_of(survey);

	call->found++;
	add_to_tally(call, socket);
	call->results[socket_run_command(socket, &call->command)]++;
	return true;
}

static void on_run(struct socket_survey *survey)
{
	struct socket_call *call = call_of(survey);

	if (call->tally)
		wait_for_rest(call);
	else
		answer(call);
}

static json_t *message_result(const struct socket_call *call)
{
	uint64_t sent, dropped, gone;

	if (!call->tally)
		return json_pack("{s:I, s:I, s:I, s:I}", "found", (json_int_t)call->found, "queued",
			(json_int_t)call->results[SOCKET_COMMAND_DONE], "dropped",
			(json_int_t)call->results[SOCKET_COMMAND_DROPPED], "gone",
			(json_int_t)call->results[SOCKET_COMMAND_GONE]);
	sent = atomic_load_explicit(&call->tally->results[SEND_WRITTEN], memory_order_relaxed);
	dropped = atomic_load_explicit(&call->tally->results[SEND_DROPPED], memory_order_relaxed);
	gone = atomic_load_explicit(&call->tally->results[SEND_GONE], memory_order_relaxed);
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "found", (json_int_t)call->found, "sent",
		(json_int_t)sent, "queued", (json_int_t)(call->found - sent - dropped - gone),
		"dropped", (json_int_t)dropped, "gone", (json_int_t)gone);
}

/* Those that were closing already are waited for as well. */
static json_t *end_result(const struct socket_call *call)
{
	json_int_t found = (json_int_t)call->found, ended;

	if (!call->tally)
		return json_pack("{s:I, s:I, s:I}", "found", found, "ending",
			(json_int_t)call->results[SOCKET_COMMAND_DONE], "gone",
			(json_int_t)call->results[SOCKET_COMMAND_GONE]);
	ended = (json_int_t)atomic_load_explicit(
		&call->tally->results[SEND_GONE], memory_order_relaxed);
	return json_pack("{s:I, s:I, s:I}", "found", found, "ending", found - ended, "gone", ended);
}

static void respond_run(struct socket_call *call)
{
	static const char *const names[SOCKET_COMMANDS] = {
		[SOCKET_CLOSE] = "close", [SOCKET_ABORT] = "abort", [SOCKET_DRAIN] = "drain"};
	const char *name = names[call->command.kind];

	if (call->found == 0) {
		admin_respond_problem(call->request, 404, "There is no such socket.");
		return;
	}
	if (!name) {
		admin_respond_json(call->request, 200, message_result(call));
		return;
	}
	log_info("admin: sockets: %s of %llu", name, (unsigned long long)call->found);
	admin_respond_json(call->request, 200, end_result(call));
}

void socket_calls_run(struct admin_request *request, const struct socket_choice *choice,
	const struct socket_command *command, unsigned wait_ms)
{
	struct socket_call *call = new_call(request, choice, respond_run);

	if (!call) {
		shared_frame_release(command->frame);
		return;
	}
	call->command = *command;
	call->wait_ms = wait_ms;
	call->tally = wait_ms > 0 ? new_tally(call) : NULL;
	call->command.report =
		call->tally && !socket_command_ends(command) ? &call->tally->report : NULL;
	call->survey.visit = run_on_one;
	call->survey.done = on_run;
	survey_begin(&call->survey, &call->all->daemon->node);
}
