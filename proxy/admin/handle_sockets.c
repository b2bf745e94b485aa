/* WebSockets whose messages are read: lists of them, and what is done to one or to many. */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "admin/socket_calls.h"
#include "base/base64.h"
#include "conf/value.h"
#include "daemon/daemon.h"
#include "frames/messages.h"

#define LIST_DEFAULT    100
#define LIST_MAX        1000
#define WAIT_DEFAULT_MS 10000
#define WAIT_MAX_MS     60000
#define ALL             "all"

/* ---- which of them --------------------------------------------------------------------------- */

/* What the query may have besides terms of the filter. */
static const char *const list_arguments[] = {"count", "after", NULL};
static const char *const run_arguments[] = {"wait", "timeout", NULL};

struct reading {
	struct admin_request *request;
	struct socket_choice *choice;
	const char *const *others;
	bool is_bad; /* a problem was sent */
};

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

static enum MHD_Result read_argument(
	void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct reading *reading = ctx;
	char detail[256];

	(void)kind;
	if (is_one_of(name, reading->others))
		return MHD_YES;
	switch (filter_add(&reading->choice->filter, name, value ? value : "")) {
	case FILTER_OK:
		return MHD_YES;
	case FILTER_UNKNOWN:
		snprintf(detail, sizeof(detail), "Unknown search term \"%.100s\".", name);
		break;
	case FILTER_INVALID:
		snprintf(detail, sizeof(detail), "Invalid value of %s; expected %s.", name,
			filter_expects(name));
		break;
	}
	admin_respond_problem(reading->request, 400, detail);
	reading->is_bad = true;
	return MHD_NO;
}

/* The query's terms. False with the problem sent. */
static bool read_filter(
	struct admin_request *request, struct socket_choice *choice, const char *const *others)
{
	struct reading reading = {request, choice, others, false};

	MHD_get_connection_values(
		request->connection, MHD_GET_ARGUMENT_KIND, read_argument, &reading);
	return !reading.is_bad;
}

/* False with the problem sent: it is none of this process. */
static bool read_id(struct admin_request *request, struct slice text, uint64_t *id)
{
	if (socket_id_read(text, request->daemon->node.socket_ids, id) && *id != 0)
		return true;
	admin_respond_problem(request, 404, "There is no such socket.");
	return false;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool read_count(struct admin_request *request, uint64_t *count)
{
	const char *text = admin_argument(request, "count");

	*count = LIST_DEFAULT;
	if (!text || (scan_digits(slice_of(text), count) && *count > 0 && *count <= LIST_MAX))
		return true;
	admin_respond_problem(request, 400, "Invalid value of count; expected 1 to 1000.");
	return false;
}

void admin_get_sockets(struct admin_request *request)
{
	struct socket_choice choice = {0};
	const char *after = admin_argument(request, "after");
	uint64_t count;

	if (read_filter(request, &choice, list_arguments) && read_count(request, &count) &&
		(!after || read_id(request, slice_of(after), &choice.after)))
		socket_calls_list(request, &choice, count);
}

void admin_get_socket(struct admin_request *request)
{
	struct socket_choice choice = {0};

	if (read_id(request, slice_of(request->tail), &choice.id))
		socket_calls_show(request, &choice);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static bool compose(struct admin_request *request, struct socket_command *command, uint8_t opcode,
	struct slice payload)
{
	command->frame = shared_frame_new(&request->daemon->node.sends, opcode, payload);
	if (command->frame)
		return true;
	request->retry_after_s = 1;
	admin_respond_problem(request, 503,
		"The send queues hold socket_queue_total_bytes already, or there is no memory.");
	return false;
}

static bool compose_binary(
	struct admin_request *request, struct socket_command *command, const json_t *value)
{
	struct slice text = {json_string_value(value), json_string_length(value)};
	size_t bytes;
	char *decoded = malloc(BASE64_ROOM(text.len));
	bool good = decoded && base64_read(text, decoded, &bytes);

	if (good)
		good = compose(request, command, FRAME_BINARY, (struct slice){decoded, bytes});
	else
		admin_respond_problem(request, 400, "\"binary\" is not base64.");
	free(decoded);
	return good;
}

/* {"text": ...} or {"binary": ...}. JSON's strings are UTF-8. */
static bool read_message(
	struct admin_request *request, const json_t *body, struct socket_command *command)
{
	const json_t *text = json_object_get(body, "text");
	const json_t *binary = json_object_get(body, "binary");

	if (json_object_size(body) == 1 && json_is_string(text))
		return compose(request, command, FRAME_TEXT,
			(struct slice){json_string_value(text), json_string_length(text)});
	if (json_object_size(body) == 1 && json_is_string(binary))
		return compose_binary(request, command, binary);
	admin_respond_problem(request, 400, "Expected {\"text\": TEXT} or {\"binary\": BASE64}.");
	return false;
}

/* {"code": 4000, "reason": "..."}, both optional. */
static bool read_close(
	struct admin_request *request, const json_t *body, struct socket_command *command)
{
	const json_t *code = json_object_get(body, "code");
	const json_t *reason = json_object_get(body, "reason");
	json_int_t number = code ? json_integer_value(code) : CLOSE_NORMAL;
	size_t members = (code != NULL) + (reason != NULL);

	if (json_object_size(body) != members || (code && !json_is_integer(code)) ||
		(reason && !json_is_string(reason))) {
		admin_respond_problem(request, 400,
			"Expected {\"code\": 4000, \"reason\": TEXT}; both are optional.");
		return false;
	}
	if (number < 0 || number > UINT16_MAX || !close_code_is_valid((unsigned)number)) {
		admin_respond_problem(request, 400,
			"Invalid close code; expected " CLOSE_CODES_VALID
			" (RFC 6455 section 7.4).");
		return false;
	}
	if (json_string_length(reason) > sizeof(command->reason)) {
		admin_respond_problem(
			request, 400, "The reason is longer than the 123 bytes of a close frame.");
		return false;
	}
	command->code = (uint16_t)number;
	command->reason_len = (uint8_t)json_string_length(reason);
	if (reason)
		memcpy(command->reason, json_string_value(reason), command->reason_len);
	return true;
}

static bool read_command(struct admin_request *request, struct socket_command *command)
{
	bool is_empty = request->body_bytes == 0 && command->kind == SOCKET_CLOSE;
	json_t *body;
	bool good;

	if (command->kind == SOCKET_ABORT || command->kind == SOCKET_DRAIN)
		return true;
	body = is_empty ? json_object() : admin_object(request);
	if (!body)
		return false;
	good = command->kind == SOCKET_CLOSE ? read_close(request, body, command)
					     : read_message(request, body, command);
	json_decref(body);
	return good;
}

/* ---- what is done ---------------------------------------------------------------------------- */

/* wait = sent of a message, or closed, and for how long. */
static bool read_wait(
	struct admin_request *request, enum socket_command_kind kind, unsigned *wait_ms)
{
	const char *wait = admin_argument(request, "wait");
	const char *timeout = admin_argument(request, "timeout");
	const struct socket_command command = {.kind = kind};
	uint64_t ms = WAIT_DEFAULT_MS;

	*wait_ms = 0;
	if (!wait && !timeout)
		return true;
	if (!wait || strcmp(wait, socket_command_ends(&command) ? "closed" : "sent") != 0) {
		admin_respond_problem(request, 400,
			"Expected wait=sent for post and send, wait=closed for close, abort and "
			"drain; timeout is for these.");
		return false;
	}
	if (timeout && (!scan_duration_ms(slice_of(timeout), &ms) || ms == 0 || ms > WAIT_MAX_MS)) {
		admin_respond_problem(
			request, 400, "Invalid value of timeout; expected 1ms to 1m.");
		return false;
	}
	*wait_ms = (unsigned)ms;
	return true;
}

static void run(struct admin_request *request, struct slice whom, enum socket_command_kind kind)
{
	struct socket_command command = {.kind = kind};
	struct socket_choice choice = {0};
	unsigned wait_ms;

	if (!slice_equal(whom, SLICE(ALL)) && !read_id(request, whom, &choice.id))
		return;
	if (read_filter(request, &choice, run_arguments) && read_wait(request, kind, &wait_ms) &&
		read_command(request, &command))
		socket_calls_run(request, &choice, &command, wait_ms);
}

/* `ID/post`, `all/post`, ... */
void admin_post_socket(struct admin_request *request)
{
	static const char *const words[SOCKET_COMMANDS] = {[SOCKET_POST] = "post",
		[SOCKET_SEND] = "send",
		[SOCKET_CLOSE] = "close",
		[SOCKET_ABORT] = "abort",
		[SOCKET_DRAIN] = "drain"};
	const char *slash = strchr(request->tail, '/');

	for (unsigned i = 0; slash && i < SOCKET_COMMANDS; i++) {
		if (strcmp(slash + 1, words[i]) != 0)
			continue;
		run(request, (struct slice){request->tail, (size_t)(slash - request->tail)},
			(enum socket_command_kind)i);
		return;
	}
	admin_respond_problem(request, 404,
		"A socket's path is its id, or all, then /post, /send, /close, /abort or /drain.");
}
