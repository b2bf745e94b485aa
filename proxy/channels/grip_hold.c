#include "channels/grip_hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/container.h"
#include "base/list.h"
#include "base/random.h"
#include "conf/conf.h"
#include "conf/value.h"
#include "exchange/collect.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "exchange/reply.h"
#include "http/problem.h"
#include "http/text_head.h"
#include "site/site.h"
#include "channels/channels.h"
#include "channels/grip_control.h"
#include "frames/shared_frame.h"
#include "channels/channels_part.h"
#include "channels/publish.h"
#include "worker/worker_clock.h"

/* Pushpin's. */
#define TIMEOUT_DEFAULT_S 55
#define TIMEOUT_MAX_S     86400

/* Content-Length and the empty line. */
#define END_BYTES 48

struct grip_hold {
	struct subscriber subscriber;
	struct grip_hold *prev, *next; /* of the worker */
	struct exchange *exchange;
	struct shared_frame *frame; /* the response that was published; held */
	struct deadline deadline;   /* response: Grip-Timeout; stream: the keep-alive */
	bool is_stream, is_interval, is_over;
	bool lacks_content;    /* HEAD or 304: a length would be that of what is not sent */
	uint32_t keep_alive_s; /* 0: none */
	uint32_t timeout_s;
	size_t keep_alive_bytes, channels_bytes, head_bytes;
	char *keep_alive; /* all three in `text` */
	char *channels;   /* as the fields have them, with a comma behind each */
	char *head;       /* without its end; END_BYTES of room behind it */
	char text[];
};

static bool is(struct slice name, struct slice other)
{
	return slice_equal_nocase(name, other);
}

static bool is_grips(struct slice name)
{
	return name.len > 5 && is((struct slice){name.at, 5}, SLICE("grip-"));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Takes `NAME=VALUE` off the parameters of a field. False: there is none. */
static bool next_parameter(struct slice *rest, struct slice *name, struct slice *value)
{
	const char *end = memchr(rest->at, ';', rest->len);
	struct slice one = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	const char *equals = memchr(one.at, '=', one.len);

	if (rest->len == 0)
		return false;
	rest->at += one.len + (end != NULL);
	rest->len -= one.len + (end != NULL);
	*name = slice_trim((struct slice){one.at, equals ? (size_t)(equals - one.at) : one.len});
	*value = equals ? slice_trim((struct slice){
				  equals + 1, (size_t)(one.at + one.len - equals - 1)})
			: SLICE_NONE;
	if (value->len >= 2 && value->at[0] == '"' && value->at[value->len - 1] == '"')
		*value = (struct slice){value->at + 1, value->len - 2};
	return true;
}

/* What stands before the parameters. */
static struct slice split(struct slice *rest)
{
	const char *end = memchr(rest->at, ';', rest->len);
	struct slice first = {rest->at, end ? (size_t)(end - rest->at) : rest->len};

	rest->at += first.len + (end != NULL);
	rest->len -= first.len + (end != NULL);
	return slice_trim(first);
}

static bool read_seconds(struct slice text, uint32_t *seconds)
{
	uint64_t number;

	if (!scan_digits(text, &number) || number < 1 || number > TIMEOUT_MAX_S)
		return false;
	*seconds = (uint32_t)number;
	return true;
}

/* `\n` and its kin. */
static size_t unescape(struct slice text, char *to)
{
	size_t bytes = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		if (c == '\\' && i + 1 < text.len) {
			c = text.at[++i];
			c = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
		}
		to[bytes++] = c;
	}
	return bytes;
}

/* CONTENT; format=cstring; timeout=20; mode=interval */
static const char *read_keep_alive(struct grip_hold *hold, struct slice value)
{
	struct slice content = split(&value), name, text, format = SLICE("raw");

	hold->keep_alive_s = GRIP_KEEP_ALIVE_DEFAULT_S;
	while (next_parameter(&value, &name, &text)) {
		if (is(name, SLICE("format")))
			format = text;
		else if (is(name, SLICE("mode")))
			hold->is_interval = is(text, SLICE("interval"));
		else if (is(name, SLICE("timeout")) && !read_seconds(text, &hold->keep_alive_s))
			return "invalid Grip-Keep-Alive";
	}
	if (is(format, SLICE("base64"))) {
		if (!base64_read(content, hold->keep_alive, &hold->keep_alive_bytes))
			return "invalid Grip-Keep-Alive";
	} else if (is(format, SLICE("cstring"))) {
		hold->keep_alive_bytes = unescape(content, hold->keep_alive);
	} else {
		memcpy(hold->keep_alive, content.at, content.len);
		hold->keep_alive_bytes = content.len;
	}
	return NULL;
}

/* NULL, or why it can't be held. */
static const char *read_field(
	struct grip_hold *hold, struct slice name, struct slice value, unsigned *status)
{
	uint64_t number;

	if (is(name, SLICE("grip-hold"))) {
		hold->is_stream = is(value, SLICE("stream"));
		return hold->is_stream || is(value, SLICE("response")) ? NULL : "unknown Grip-Hold";
	}
	if (is(name, SLICE("grip-channel"))) {
		memcpy(hold->channels + hold->channels_bytes, value.at, value.len);
		hold->channels_bytes += value.len;
		hold->channels[hold->channels_bytes++] = ',';
		return NULL;
	}
	if (is(name, SLICE("grip-timeout")))
		return read_seconds(value, &hold->timeout_s) ? NULL : "invalid Grip-Timeout";
	if (is(name, SLICE("grip-keep-alive")))
		return read_keep_alive(hold, value);
	if (is(name, SLICE("grip-status"))) {
		if (!scan_digits(value, &number) || number < 200 || number > 599)
			return "invalid Grip-Status";
		*status = (unsigned)number;
		return NULL;
	}
	/* What would be ignored could lose messages: Grip-Link, Grip-Set-Meta, ... */
	return "unsupported GRIP field";
}

static bool does_not_pass(const void *ctx, const struct http_field *field, struct slice name)
{
	(void)ctx;
	(void)field;
	return is_grips(name);
}

static void put_head(
	struct grip_hold *hold, const struct http_head *head, size_t room, unsigned status)
{
	struct field_sink sink = text_head_over(http_out_over(hold->head, room));
	static const struct fields_omitted omitted = {.others = does_not_pass};

	text_head_status(&sink, status, SLICE_NONE);
	field_pass_each(&sink, head, &omitted);
	hold->head_bytes = (size_t)(sink.out.at - hold->head);
}

/* Reads the head, which is the server's and soon gone. */
static const char *fill(struct grip_hold *hold, const struct http_head *head, size_t room)
{
	unsigned status = head->status;
	const char *why = NULL;

	for (unsigned i = 0; i < head->field_count && !why; i++) {
		struct slice name = http_field_name(head, &head->fields[i]);
		if (is_grips(name))
			why = read_field(
				hold, name, http_field_value(head, &head->fields[i]), &status);
	}
	hold->lacks_content = hold->exchange->request.method == HTTP_METHOD_HEAD || status == 304;
	put_head(hold, head, room, status);
	return why;
}

bool grip_holds(struct exchange *x)
{
	struct worker *worker = x->worker;
	/* Each part of the head is in one of the three at most; of the head's each line. */
	size_t room = x->response->len + x->response->field_count + 128;
	struct grip_hold *hold;
	const char *why = "no memory";

	if (!http_head_find_name(x->response, SLICE("grip-hold")).at)
		return false;
	hold = calloc(1, sizeof(*hold) + 3 * room + END_BYTES);
	if (hold) {
		hold->exchange = x;
		hold->timeout_s = TIMEOUT_DEFAULT_S;
		hold->keep_alive = hold->text;
		hold->channels = hold->text + room;
		hold->head = hold->text + 2 * room;
		deadline_init(&hold->deadline, worker->loop.base, NULL);
		x->tunnel.hold = hold;
		CHAIN_PUSH(channels_of(worker)->holds, hold, prev, next);
		why = fill(hold, x->response, room);
		if (!why && !exchange_has_request(x))
			why = "Grip-Hold before the request's end";
	}
	if (why)
		exchange_reply(x, hold ? 502 : 503, why, hold ? HTTP_PROBLEM_NO_RETRY : 1000);
	else
		collect_hold(x);
	return true;
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct channel_view *view_of(const struct grip_hold *hold)
{
	return channels_of(hold->exchange->worker)->view;
}

static void end_head(struct grip_hold *hold, bool has_length, uint64_t length)
{
	struct field_sink sink =
		text_head_over(http_out_over(hold->head + hold->head_bytes, END_BYTES));

	if (has_length)
		field_put_number(&sink, SLICE("Content-Length"), length);
	text_head_end(&sink);
	hold->head_bytes = (size_t)(sink.out.at - hold->head);
}

/* No publication reaches it any more. */
static void leave_channels(struct grip_hold *hold)
{
	hold->is_over = true;
	deadline_clear(&hold->deadline);
	channel_unsubscribe_all(view_of(hold), &hold->subscriber);
}

/* The server's own answer, or the end of the stream. */
static void finish(struct grip_hold *hold)
{
	struct exchange *x = hold->exchange;

	if (hold->is_over)
		return;
	leave_channels(hold);
	if (hold->is_stream) {
		held_finish(x);
		return;
	}
	end_head(hold, !hold->lacks_content, spool_bytes(x->down.spool));
	held_send(x, (struct slice){hold->head, hold->head_bytes}, true);
}

static struct slice payload_of(const struct shared_frame *frame)
{
	return (struct slice){
		frame->at + frame->bytes - frame->payload_bytes, frame->payload_bytes};
}

/* Head and content of the publication, in place of the server's. */
static void answer(struct grip_hold *hold, struct shared_frame *frame)
{
	struct exchange *x = hold->exchange;
	struct slice payload = payload_of(frame);
	const char *end = memmem(payload.at, payload.len, "\r\n\r\n", 4);
	size_t head_bytes = (size_t)(end + 4 - payload.at);
	struct slice content = {payload.at + head_bytes, payload.len - head_bytes};

	leave_channels(hold);
	hold->frame = shared_frame_hold(frame);
	exchange_forget_answer(x);
	x->down.spool = spool_new(
		&x->worker->node->store, (struct spool_limits){content.len + 1, 0, SPOOL_GATEWAY});
	if (!x->down.spool ||
		(content.len > 0 && spool_put(x->down.spool, content) < content.len)) {
		exchange_reply(x, 503, "no memory", 1000);
		return;
	}
	held_send(x, (struct slice){payload.at, head_bytes}, true);
}

static uint64_t after_s(const struct grip_hold *hold, uint32_t seconds)
{
	return worker_now_ms(hold->exchange->worker) + UINT64_C(1000) * seconds;
}

static void set_deadline(struct grip_hold *hold, uint64_t at_ms)
{
	deadline_clear(&hold->deadline);
	deadline_set(&hold->deadline, at_ms, worker_now_ms(hold->exchange->worker));
}

/* False: the publication has nothing for a response held in this way. May end it. */
static bool deliver(const struct subscription *subscription, const struct delivery *delivery)
{
	struct grip_hold *hold =
		CONTAINER_OF(subscription->subscriber, struct grip_hold, subscriber);
	const struct grip_http *http = &delivery->http;
	struct exchange *x = hold->exchange;

	if (!hold->is_stream) {
		if (http->response)
			answer(hold, http->response);
		return http->response;
	}
	if (!http->stream && !http->closes)
		return false;
	if (hold->keep_alive_s > 0 && !hold->is_interval && !x->worker->draining)
		set_deadline(hold, after_s(hold, hold->keep_alive_s));
	if (http->stream)
		held_append(x, payload_of(http->stream));
	if (http->closes && x->tunnel.hold) /* it was not cut */
		finish(hold);
	return true;
}

static void on_deadline(struct deadline *deadline)
{
	struct grip_hold *hold = CONTAINER_OF(deadline, struct grip_hold, deadline);
	struct exchange *x = hold->exchange;

	if (!hold->is_stream || x->worker->draining) {
		finish(hold);
		return;
	}
	set_deadline(hold, after_s(hold, hold->keep_alive_s));
	/* A client that has not taken the last one needs no other. */
	if (spool_bytes(x->down.spool) == 0)
		held_append(x, (struct slice){hold->keep_alive, hold->keep_alive_bytes});
}

/* ---- its life -------------------------------------------------------------------------------- */

static const struct subscriber_calls held_calls = {.deliver = deliver};

static const char *subscribe(struct grip_hold *hold)
{
	const struct exchange *x = hold->exchange;
	struct slice rest = {hold->channels, hold->channels_bytes}, element, name, value;
	const struct channel_bounds bounds = {
		.channels = site_part(x->worker)->use->site->conf->totals.channels,
		.subscriptions = x->route->websocket.channels,
	};

	hold->subscriber.calls = &held_calls;
	while (slice_next_element(&rest, &element)) {
		struct slice channel = split(&element);
		while (next_parameter(&element, &name, &value))
			if (!is(name, SLICE("prev-id")))
				return "unsupported parameter of Grip-Channel";
		if (!grip_channel_is_valid(channel))
			return "invalid Grip-Channel";
		if (channel_subscribe(view_of(hold), &hold->subscriber, channel, &bounds) !=
			CHANNEL_SUBSCRIBED)
			return "too many channels";
	}
	return hold->subscriber.first ? NULL : "Grip-Hold without Grip-Channel";
}

static void drain_soon(struct grip_hold *hold)
{
	struct worker *worker = hold->exchange->worker;
	uint64_t half_ms = site_part(worker)->use->site->conf->shutdown_timeout_ms / 2;
	uint64_t at_ms =
		worker->drain_began_ms + random_below(&channels_of(worker)->random, half_ms + 1);

	if (!hold->is_over && at_ms < hold->deadline.at_ms)
		set_deadline(hold, at_ms);
}

void grip_held(struct exchange *x)
{
	struct grip_hold *hold = x->tunnel.hold;
	const char *why;

	if (!held_begin(x))
		return;
	why = subscribe(hold);
	if (why) {
		bool is_full = strcmp(why, "too many channels") == 0;
		leave_channels(hold);
		exchange_reply(x, is_full ? 503 : 502, why, is_full ? 1000 : HTTP_PROBLEM_NO_RETRY);
		return;
	}
	hold->deadline.passed = on_deadline;
	if (!hold->is_stream) {
		set_deadline(hold, after_s(hold, hold->timeout_s));
	} else {
		if (hold->keep_alive_s > 0)
			set_deadline(hold, after_s(hold, hold->keep_alive_s));
		end_head(hold, false, 0);
		held_send(x, (struct slice){hold->head, hold->head_bytes}, false);
		if (x->tunnel.hold && !x->down.spool)
			leave_channels(hold); /* an answer without content, as one to HEAD */
	}
	if (x->tunnel.hold && x->worker->draining)
		drain_soon(hold);
}

void grip_holds_drain(struct worker *worker)
{
	for (struct grip_hold *hold = channels_of(worker)->holds; hold; hold = hold->next)
		if (hold->deadline.passed)
			drain_soon(hold);
}

void grip_let_go(struct exchange *x)
{
	struct grip_hold *hold = x->tunnel.hold;

	channel_unsubscribe_all(view_of(hold), &hold->subscriber);
	deadline_end(&hold->deadline);
	shared_frame_release(hold->frame);
	CHAIN_REMOVE(channels_of(x->worker)->holds, hold, prev, next);
	x->tunnel.hold = NULL;
	free(hold);
}
