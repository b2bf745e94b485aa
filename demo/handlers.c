#include "demo/handlers.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { SLOW_MS_MAX = 600000 };

static const char *method_name(struct evhttp_request *request)
{
	switch (evhttp_request_get_command(request)) {
	case EVHTTP_REQ_GET:
		return "GET";
	case EVHTTP_REQ_POST:
		return "POST";
	case EVHTTP_REQ_HEAD:
		return "HEAD";
	case EVHTTP_REQ_PUT:
		return "PUT";
	case EVHTTP_REQ_DELETE:
		return "DELETE";
	case EVHTTP_REQ_OPTIONS:
		return "OPTIONS";
	case EVHTTP_REQ_TRACE:
		return "TRACE";
	case EVHTTP_REQ_CONNECT:
		return "CONNECT";
	case EVHTTP_REQ_PATCH:
		return "PATCH";
	}
	return "?";
}

static void send_json(
	const struct demo *demo, struct evhttp_request *request, int status, json_t *json)
{
	struct evbuffer *body = evbuffer_new();
	char *text = json_dumps(json, JSON_COMPACT);

	if (body && text)
		evbuffer_add_printf(body, "%s\n", text);
	evhttp_add_header(
		evhttp_request_get_output_headers(request), "Content-Type", "application/json");
	if (!demo->quiet) {
		printf("%s %s -> %d %s\n", method_name(request), evhttp_request_get_uri(request),
			status, text ? text : "");
		fflush(stdout);
	}
	evhttp_send_reply(request, status, NULL, body);
	free(text);
	if (body)
		evbuffer_free(body);
	json_decref(json);
}

static void send_error(
	const struct demo *demo, struct evhttp_request *request, int status, const char *detail)
{
	send_json(
		demo, request, status, json_pack("{s:i, s:s}", "status", status, "detail", detail));
}

/* Is the method one of these two? Else the answer is given: 405 with Allow. */
static bool require_method(const struct demo *demo, struct evhttp_request *request,
	enum evhttp_cmd_type one, enum evhttp_cmd_type other, const char *allow)
{
	enum evhttp_cmd_type method = evhttp_request_get_command(request);

	if (method == one || method == other)
		return true;
	evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", allow);
	send_error(demo, request, 405, "this resource does not take that method");
	return false;
}

/* The body as text, NUL-terminated, the caller's to free. `*len` may count NULs within. */
static char *body_text(struct evhttp_request *request, size_t *len)
{
	struct evbuffer *input = evhttp_request_get_input_buffer(request);
	char *text;

	*len = evbuffer_get_length(input);
	text = calloc(1, *len + 1);
	if (text)
		evbuffer_copyout(input, text, *len);
	return text;
}

static int64_t to_integer(const char *text)
{
	char *end;
	long long value;

	if (!text || *text == '\0')
		return -1;
	errno = 0;
	value = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' ? value : -1;
}

/* The integer of `name` in form-encoded `form`, -1 when absent or no integer. */
static int64_t form_integer(const char *form, const char *name)
{
	struct evkeyvalq pairs = {0};
	int64_t value = -1;

	if (form && evhttp_parse_query_str(form, &pairs) == 0) {
		value = to_integer(evhttp_find_header(&pairs, name));
		evhttp_clear_headers(&pairs);
	}
	return value;
}

static const char *query(struct evhttp_request *request)
{
	return evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
}

static int64_t request_amount(struct evhttp_request *request)
{
	int64_t amount = form_integer(query(request), "amount");
	size_t len;
	char *text;

	if (amount != -1)
		return amount;
	text = body_text(request, &len);
	json_t *json = text ? json_loadb(text, len, 0, NULL) : NULL;
	json_t *member = json_object_get(json, "amount");
	amount =
		json_is_integer(member) ? json_integer_value(member) : form_integer(text, "amount");
	json_decref(json);
	free(text);
	return amount;
}

static void send_account(const struct demo *demo, struct evhttp_request *request)
{
	send_json(demo, request, 200,
		json_pack("{s:I, s:I}", "balance", (json_int_t)demo->account.balance, "version",
			(json_int_t)demo->account.version));
}

static void on_account(struct evhttp_request *request, void *argument)
{
	struct demo *demo = argument;

	if (require_method(demo, request, EVHTTP_REQ_GET, EVHTTP_REQ_HEAD, "GET, HEAD"))
		send_account(demo, request);
}

static void change(
	struct demo *demo, struct evhttp_request *request, int (*how)(struct account *, int64_t))
{
	if (!require_method(demo, request, EVHTTP_REQ_POST, EVHTTP_REQ_POST, "POST"))
		return;
	switch (how(&demo->account, request_amount(request))) {
	case 0:
		send_account(demo, request);
		break;
	case ERANGE:
		send_error(demo, request, 409, "the balance does not allow it");
		break;
	default:
		send_error(demo, request, 400, "amount must be a whole number from 1 to 10^12");
		break;
	}
}

static void on_deposit(struct evhttp_request *request, void *argument)
{
	change(argument, request, account_deposit);
}

static void on_withdraw(struct evhttp_request *request, void *argument)
{
	change(argument, request, account_withdraw);
}

/* JSON text is UTF-8; bytes that aren't are taken as ISO 8859-1, as old header fields have them. */
static json_t *json_text(const char *text, size_t len)
{
	json_t *json = json_stringn(text, len);
	char *wide;
	size_t used = 0;

	if (json || !(wide = malloc(2 * len + 1)))
		return json;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c >= 0x80)
			wide[used++] = (char)(0xc0 | c >> 6);
		wide[used++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
	}
	json = json_stringn(wide, used);
	free(wide);
	return json;
}

static void on_echo(struct evhttp_request *request, void *argument)
{
	const char *target = evhttp_request_get_uri(request);
	json_t *fields = json_array();
	struct evkeyval *field;
	size_t len;
	char *text = body_text(request, &len);

	TAILQ_FOREACH(field, evhttp_request_get_input_headers(request), next)
	{
		json_t *pair = json_array();
		json_array_append_new(pair, json_text(field->key, strlen(field->key)));
		json_array_append_new(pair, json_text(field->value, strlen(field->value)));
		json_array_append_new(fields, pair);
	}
	send_json(argument, request, 200,
		json_pack("{s:s, s:o, s:o, s:o}", "method", method_name(request), "target",
			json_text(target, strlen(target)), "fields", fields, "body",
			json_text(text ? text : "", text ? len : 0)));
	free(text);
}

/* An answer that waits for its time. Freed when it is given or the client has left. */
struct slow {
	struct demo *demo;
	struct evhttp_request *request;
	struct event *timer;
	int64_t ms;
};

static void slow_free(struct slow *slow)
{
	event_free(slow->timer);
	free(slow);
}

static void on_slow_closed(struct evhttp_connection *connection, void *argument)
{
	(void)connection;
	slow_free(argument);
}

static void on_slow_due(evutil_socket_t fd, short events, void *argument)
{
	struct slow *slow = argument;

	(void)fd;
	(void)events;
	evhttp_connection_set_closecb(evhttp_request_get_connection(slow->request), NULL, NULL);
	send_json(slow->demo, slow->request, 200,
		json_pack("{s:I}", "waited_ms", (json_int_t)slow->ms));
	slow_free(slow);
}

static void on_slow(struct evhttp_request *request, void *argument)
{
	struct demo *demo = argument;
	int64_t ms = form_integer(query(request), "ms");

	if (ms < 0 || ms > SLOW_MS_MAX) {
		send_error(demo, request, 400, "ms must be a whole number from 0 to 600000");
		return;
	}
	struct slow *slow = malloc(sizeof(*slow));
	struct event *timer = slow ? evtimer_new(demo->base, on_slow_due, slow) : NULL;
	if (!timer) {
		free(slow);
		send_error(demo, request, 503, "out of memory");
		return;
	}
	*slow = (struct slow){demo, request, timer, ms};
	struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	evhttp_connection_set_closecb(evhttp_request_get_connection(request), on_slow_closed, slow);
	evtimer_add(timer, &wait);
}

static void on_other(struct evhttp_request *request, void *argument)
{
	send_error(
		argument, request, 404, "try /account, /deposit, /withdraw, /echo or /slow?ms=N");
}

void demo_handlers_install(struct demo *demo, struct evhttp *http)
{
	evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
						 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
						 EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
	evhttp_set_cb(http, "/account", on_account, demo);
	evhttp_set_cb(http, "/deposit", on_deposit, demo);
	evhttp_set_cb(http, "/withdraw", on_withdraw, demo);
	evhttp_set_cb(http, "/echo", on_echo, demo);
	evhttp_set_cb(http, "/slow", on_slow, demo);
	evhttp_set_gencb(http, on_other, demo);
}
