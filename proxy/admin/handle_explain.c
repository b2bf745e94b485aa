/*
 * The verdict about a request, without sending it or charging a limit.
 *
 *   ?host=api.test&path=/a?b=c&method=GET&scheme=https&address=192.0.2.1&field.X-Api-Key=abc
 *
 * With listener=NAME, the verdict of its limits of connections is in the answer as well.
 *
 * The request is written as a client would send it and read by the parser that reads clients'.
 * Limits of a fleet are asked at its store, and the answer is made then.
 */
#include "config.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "gate/gate.h"
#include "gate/gate_connection.h"
#include "gate/matches.h"
#include "gate/readings.h"
#include "http/forwarded.h"
#include "http/parser.h"
#include "http/path.h"
#include "http/path_readings.h"
#include "http/target.h"

#ifdef HAVE_REDIS
#include "admin/fleet_calls.h"
#include "fleet/fleet.h"
#include "fleet/reserve.h"
#include "fleet/split.h"
#include "fleet/verdict.h"
#include "gate/authority.h"
#endif

#define HEAD_BYTES   16384
#define HEAD_FIELDS  100
#define FIELD_PREFIX "field."

struct question {
	char text[HEAD_BYTES]; /* the head */
	FILE *out;
	struct http_head head;
	struct http_target target;
	struct http_authority authority;
	char host_text[HTTP_HOST_BYTES];
	char path_text[3 * HEAD_BYTES], key_path_text[3 * HEAD_BYTES];
	struct slice path; /* that routes match; keys have input.path */
	const char *method;
	bool has_control; /* a part of it */
	bool path_odd;    /* servers may read the path differently */
	struct identity_input input;
};

/* An end of a line would begin another field. */
static bool has_control(const char *text)
{
	for (; text && *text; text++) {
		unsigned char c = (unsigned char)*text;
		if ((c < ' ' && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

static enum MHD_Result put_field(
	void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct question *question = ctx;

	(void)kind;
	question->has_control |= has_control(name) || has_control(value);
	if (value && strncmp(name, FIELD_PREFIX, strlen(FIELD_PREFIX)) == 0)
		fprintf(question->out, "%s: %s\r\n", name + strlen(FIELD_PREFIX), value);
	return MHD_YES;
}

/* False when it does not fit. */
static bool write_head(struct question *question, const struct admin_request *request)
{
	const char *path = admin_argument(request, "path");
	const char *host = admin_argument(request, "host");

	question->out = fmemopen(question->text, sizeof(question->text), "w");
	if (!question->out)
		return false;
	fprintf(question->out, "%s %s HTTP/1.1\r\nHost: %s\r\n", question->method,
		path ? path : "/", host ? host : "localhost");
	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, put_field, question);
	fputs("\r\n", question->out);
	bool good = !ferror(question->out) && ftell(question->out) < HEAD_BYTES - 1;
	return fclose(question->out) == 0 && good;
}

/* NULL, or what is wrong with the request. */
static const char *read_head(struct question *question)
{
	static const struct http_parser_limits limits = {HEAD_BYTES, HEAD_BYTES, HEAD_FIELDS};
	struct http_parser parser = {0};

	http_parser_begin_request(&parser, &question->head, &limits);
	enum http_parse result = http_parser_head(&parser, question->text, strlen(question->text));
	http_parser_end(&parser);
	if (result != HTTP_PARSE_DONE || question->head.len != strlen(question->text))
		return "The method, path, host or a field is not valid HTTP.";
	if (!http_target_parse(
		    http_head_target(&question->head), question->head.method, &question->target) ||
		!http_authority_parse(
			http_head_find(&question->head, HTTP_FIELD_HOST), &question->authority))
		return "The path or host is not valid.";
	if (question->target.form == HTTP_TARGET_ABSOLUTE)
		question->authority = question->target.authority; /* RFC 9112 section 3.2.2 */
	if (question->target.form == HTTP_TARGET_ASTERISK) {
		question->path = question->input.path = question->target.path;
		return NULL;
	}
	if (http_path_normalise(question->target.path, question->path_text,
		    sizeof(question->path_text), &question->path,
		    &question->path_odd) != HTTP_PATH_OK)
		return "The path is not valid.";
	question->input.path = question->path;
	if (question->path_odd) {
		struct slice reading = http_path_reading(question->target.path,
			http_path_features(question->target.path), question->key_path_text,
			sizeof(question->key_path_text));
		if (reading.at)
			question->input.path = reading;
		question->input.odd_path = question->target.path;
	}
	return NULL;
}

static const struct conf_listener *find_listener(const struct conf *conf, const char *name);

static const char *read_question(struct question *question, const struct admin_request *request)
{
	const char *method = admin_argument(request, "method");
	const char *address = admin_argument(request, "address");
	const char *path = admin_argument(request, "path");
	const char *scheme = admin_argument(request, "scheme");

	question->method = method ? method : "GET";
	http_head_init(&question->head);
	if (!forwarded_address_parse(
		    slice_of(address ? address : "127.0.0.1"), question->input.address))
		return "The address is invalid; expected IPv4 or IPv6.";
	if (!write_head(question, request))
		return "The request is too long.";
	if (question->has_control)
		return "The method, path, host or a field has a control character in it.";
	const char *listener = admin_argument(request, "listener");
	if (listener && !find_listener(request->daemon->site->conf, listener))
		return "There is no such listener.";
	if (path && *path != '/' && !strstr(path, "://") && strcmp(path, "*") != 0)
		return "The path does not begin with a slash; expected it as in /account.";
	const char *wrong = read_head(question);
	if (wrong)
		return wrong;
	question->input.head = &question->head;
	question->input.host = http_authority_host(&question->authority, question->host_text);
	question->input.query = question->target.query;
	question->input.method = slice_of(question->method);
	question->input.scheme = slice_of(scheme                      ? scheme
					  : question->target.is_https ? "https"
								      : "http");
	return NULL;
}

static struct route_match match_route(
	const struct admin_request *request, struct question *question, bool *ambiguous)
{
	const struct site *site = request->daemon->site;
	const char *name = admin_argument(request, "route");
	struct route_scratch *scratch = question->input.scratch;
	struct route_match match = {.outcome = ROUTE_NONE};

	for (size_t i = 0; name && i < site->conf->route_count; i++) {
		if (strcmp(site->conf->routes[i].name, name) == 0)
			match = (struct route_match){
				.outcome = ROUTE_FOUND, .route = &site->conf->routes[i]};
	}
	if (scratch)
		route_scratch_ask(scratch, gate_matches(site->gate), &question->input);
	if (!name && scratch)
		match = route_match(site->routes, scratch, question->input.host, question->path,
			question->head.method);
	*ambiguous = !name && scratch && match.outcome == ROUTE_FOUND && question->path_odd &&
		     readings_differ(site->routes, scratch, question->input.host,
			     question->target.path, question->head.method, &match,
			     question->path_text, sizeof(question->path_text));
	return match;
}

/* NULL with the answer sent when no route serves it. */
static const struct conf_route *find_route(struct admin_request *request, struct question *question)
{
	bool ambiguous;
	struct route_match match = match_route(request, question, &ambiguous);
	int status = match.outcome == ROUTE_METHOD      ? 405
		     : match.outcome == ROUTE_UNDECIDED ? 400
							: 404;

	if (match.outcome == ROUTE_FOUND && !ambiguous)
		return match.route;
	admin_respond_json(request, 200,
		json_pack("{s:s, s:i}", "outcome", ambiguous ? "ambiguous path" : "no route",
			"status", ambiguous ? 400 : status));
	return NULL;
}

static json_t *text_of(const struct throttle_key *hash)
{
	char text[IDENTITY_SHORT_BYTES];

	identity_short(hash, text);
	return json_stringn(text, sizeof(text));
}

static json_t *limit_of(const struct gate_limit *limit)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:o, s:b}", "limit", limit->limit->name,
		"quota", (json_int_t)limit->quota, "remaining", (json_int_t)limit->remaining,
		"reset_ms", (json_int_t)limit->reset_ms, "violated", limit->violated, "banned",
		limit->banned, "banned_ms",
		limit->banned ? json_integer((json_int_t)limit->reset_ms) : json_null(), "shadow",
		limit->limit->shadow);
}

/* Each match of the configuration: does it hold? */
static json_t *matches_of(const struct conf *conf, uint64_t holds)
{
	json_t *matches = json_object();

	for (size_t i = 0; i < conf->matches.count; i++)
		json_object_set_new(
			matches, conf->matches.items[i].name, json_boolean(holds >> i & 1));
	return matches;
}

/* NULL: it has no such name. */
static const struct conf_listener *find_listener(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->listener_count; i++) {
		if (strcmp(conf->listeners[i].name, name) == 0)
			return &conf->listeners[i];
	}
	return NULL;
}

/* The verdict of the listener's limits about a connection from the request's address. NULL: no
 * listener was named. */
static json_t *connection_of(const struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	const char *name = admin_argument(request, "listener");
	const char *address = admin_argument(request, "address");
	const struct conf_listener *listener =
		name ? find_listener(daemon->site->conf, name) : NULL;
	struct gate_verdict verdict;
	uint8_t bytes[16];

	if (!listener || !forwarded_address_parse(slice_of(address ? address : "127.0.0.1"), bytes))
		return NULL;
	gate_explain_connection(
		daemon->site->gate, &listener->limits, bytes, daemon_throttle_ns(daemon), &verdict);
	json_t *limits = json_array();
	for (unsigned i = 0; i < verdict.limit_count; i++)
		json_array_append_new(limits, limit_of(&verdict.limits[i]));
	return json_pack("{s:s, s:o}", "outcome",
		verdict.outcome == GATE_ADMIT ? "admit" : "refuse", "limits", limits);
}

/* `holds`: the matches that do, as bits. */
static void respond_verdict(struct admin_request *request, const struct conf_route *route,
	uint64_t holds, const struct gate_verdict *verdict)
{
	static const struct {
		const char *word;
		int status; /* 0: the upstream's */
	} outcomes[] = {[GATE_ADMIT] = {"admit", 0},
		[GATE_DELAY] = {"delay", 0},
		[GATE_REFUSE] = {"refuse", 429},
		[GATE_DENY] = {"deny", 403},
		[GATE_AMBIGUOUS] = {"ambiguous key", 400},
		[GATE_UNDECIDED] = {"undecided match", 400},
		[GATE_NO_KEY] = {"no key", 401},
		[GATE_UNKNOWN] = {"unknown key", 403},
		[GATE_UNAVAILABLE] = {"unavailable", 503}};
	int status = outcomes[verdict->outcome].status;
	json_t *limits = json_array();

	for (unsigned i = 0; i < verdict->limit_count; i++)
		json_array_append_new(limits, limit_of(&verdict->limits[i]));
	json_t *answer = json_pack("{s:s, s:o, s:s, s:s, s:s?, s:s, s:o, s:o, s:b, s:b, s:o, s:o}",
		"outcome", outcomes[verdict->outcome].word, "status",
		status ? json_integer(status) : json_null(), "route", route->name, "upstream",
		route->upstream->name, "plan", verdict->plan ? verdict->plan->name : NULL, "lane",
		verdict->lane == CONF_LANE_HIGH ? "high" : "normal", "caller",
		text_of(&verdict->caller), "session", text_of(&verdict->session), "exempt",
		verdict->exempt, "override", verdict->overridden, "matches",
		matches_of(request->daemon->site->conf, holds), "limits", limits);
	if (answer && verdict->violated)
		json_object_set_new(answer, "retry_after_ms",
			verdict->retry_after_ms == UINT64_MAX
				? json_null()
				: json_integer((json_int_t)verdict->retry_after_ms));
	json_t *connection = answer ? connection_of(request) : NULL;
	if (connection)
		json_object_set_new(answer, "connection", connection);
	admin_respond_json(request, 200, answer);
}

/* ---- limits of the fleet --------------------------------------------------------------------- */

#ifdef HAVE_REDIS

/* A request that waits for the store. */
struct fleet_request {
	const struct conf_route *route;
	uint64_t holds; /* matches */
	struct gate_identity identity;
	struct gate_verdict verdict;
};

/* By the node's table, of which others may have reserved a part. */
static void judge_here(const struct daemon *daemon, const struct throttle_charge *charge,
	const struct conf_limit *limit, uint64_t now_ns, struct throttle_outcome *outcome)
{
	struct throttle_verdict found;

	throttle_peek(daemon->node.throttles, charge, 1, now_ns, &found);
	*outcome = found.outcome[0];
	if (!limit->of_fleet || limit->fleet_way != CONF_FLEET_SPLIT)
		return;
	struct share share =
		shares_read(fleet_shares(daemon->node.fleet), charge->limit, limit->amount, now_ns);
	if (share.kind == SHARE_UNITS && share.units < limit->amount)
		reserve_lessen(outcome, limit->amount - share.units);
	if (!outcome->violated && outcome->remaining < charge->cost) {
		outcome->violated = true;
		outcome->retry_after_ns = outcome->more_ns;
	}
}

/* What this node has not published yet is not in the store's sum. */
static void lessen_by_own(const struct daemon *daemon, const struct throttle_charge *charge,
	const struct conf_limit *limit, struct throttle_outcome *outcome)
{
	struct throttle_charge look = *charge;
	struct throttle_outcome own;

	look.cost = 0; /* as the store's: without the request */
	judge_here(daemon, &look, limit, daemon_throttle_ns(daemon), &own);
	if (own.remaining >= outcome->remaining)
		return;
	outcome->remaining = own.remaining;
	if (!outcome->violated && own.remaining < charge->cost) {
		outcome->violated = true;
		outcome->retry_after_ns = own.more_ns;
	}
}

/* As gate_explain has it: what is left is after an admitted request, and without a refused one. */
static void judge_all(const struct daemon *daemon, const struct inquiry *inquiry,
	const struct gate_identity *identity, struct throttle_verdict *judged)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	uint64_t delay_max_ns[GATE_LIMITS_MAX] = {0}, now_ns = daemon_throttle_ns(daemon);
	unsigned next = 0, at_store = 0; /* bits */

	judged->count = gate_charges(identity, charges);
	for (unsigned i = 0; i < judged->count; i++) {
		const struct conf_limit *limit = gate_limit_at(identity, i);
		delay_max_ns[i] = limit->delay_max_ms * CLOCK_NS_PER_MS;
		if (next < inquiry->count && inquiry->limits[next].limit == limit) {
			judged->outcome[i] = inquiry->limits[next++].outcome;
			at_store |= 1u << i;
			if (limit->fleet_way == CONF_FLEET_RELAXED)
				lessen_by_own(daemon, &charges[i], limit, &judged->outcome[i]);
		} else {
			judge_here(daemon, &charges[i], limit, now_ns, &judged->outcome[i]);
		}
	}
	verdict_sum_up(judged, delay_max_ns);
	for (unsigned i = 0; i < judged->count; i++) {
		struct throttle_outcome *outcome = &judged->outcome[i];
		uint64_t cost = charges[i].cost;
		charges[i].cost = 0;
		if (judged->admitted && (at_store >> i & 1))
			outcome->remaining -= cost < outcome->remaining ? cost : outcome->remaining;
		else if (!judged->admitted && !(at_store >> i & 1) && !outcome->violated)
			judge_here(
				daemon, &charges[i], gate_limit_at(identity, i), now_ns, outcome);
	}
}

static void on_answer(struct fleet_call *call)
{
	const struct daemon *daemon = call->request->daemon;
	struct fleet_request *asked = call->more;
	struct authority_judgement judgement = {0};
	struct gate_receipt receipt = {0};

	judge_all(daemon, &call->inquiry, &asked->identity, &judgement.limits);
	gate_conclude(&asked->identity, &judgement, NULL, daemon_throttle_ns(daemon), 0,
		&asked->verdict, &receipt);
	respond_verdict(call->request, asked->route, asked->holds, &asked->verdict);
}

static void explain_fleet(struct admin_request *request, const struct conf_route *route,
	uint64_t holds, const struct gate_identity *identity)
{
	struct daemon *daemon = request->daemon;
	struct fleet_request *asked = calloc(1, sizeof(*asked));
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct gate_receipt receipt;

	if (!asked) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	*asked = (struct fleet_request){.route = route, .holds = holds, .identity = *identity};
	bool is_judged = gate_begin(daemon->site->gate, route, identity, &asked->verdict, &receipt);
	if (!is_judged)
		respond_verdict(request, route, holds, &asked->verdict);
	struct fleet_call *call = is_judged ? fleet_calls_add(request, on_answer) : NULL;
	if (!call) {
		free(asked);
		return;
	}
	call->more = asked;
	unsigned count = gate_charges(identity, charges);
	for (unsigned i = 0; i < count; i++) {
		const struct conf_limit *limit = gate_limit_at(identity, i);
		if (limit->of_fleet && inquiry_is_of_store(daemon->node.fleet, limit,
					       charges[i].limit, daemon_throttle_ns(daemon)))
			call->inquiry.limits[call->inquiry.count++] = (struct inquiry_limit){
				limit, .caller = identity->shared[i], .cost = charges[i].cost};
	}
	fleet_calls_begin(call);
}

#else

static void explain_fleet(struct admin_request *request, const struct conf_route *route,
	uint64_t holds, const struct gate_identity *identity)
{
	(void)holds;
	(void)route;
	(void)identity;
	admin_respond_problem(request, 400, "sluice was built without a store.");
}

#endif

static uint64_t all_bits(size_t count)
{
	return count == 0 ? 0 : UINT64_MAX >> (64 - count);
}

void admin_get_explain(struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	struct question *question = calloc(1, sizeof(*question));
	struct gate_identity identity;
	struct gate_verdict verdict;

	if (!question) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	question->input.scratch = route_scratch_new();
	const char *wrong = read_question(question, request);
	const struct conf_route *route = NULL;
	if (wrong)
		admin_respond_problem(request, 400, wrong);
	else
		route = find_route(request, question);
	uint64_t holds = 0;
	if (route) {
		question->input.route = slice_of(route->name);
		if (route->allows_ambiguous_path)
			question->input.odd_path = SLICE_NONE;
		question->input.now_s = clock_wall_ns() / CLOCK_NS_PER_S;
		gate_identify(daemon->site->gate, route, &question->input, &identity);
		holds = matches_find(gate_matches(daemon->site->gate),
			all_bits(daemon->site->conf->matches.count), &question->input);
	}
	if (route && identity.authority) {
		explain_fleet(request, route, holds, &identity);
	} else if (route) {
		gate_explain(
			daemon->site->gate, route, &identity, daemon_throttle_ns(daemon), &verdict);
		respond_verdict(request, route, holds, &verdict);
	}
	route_scratch_free(question->input.scratch);
	http_head_clear(&question->head);
	free(question);
}
