#include "exchange/outgoing.h"

#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "exchange/hop.h"
#include "exchange/switched.h"
#include "gate/ratelimit_fields.h"
#include "http/grpc.h"
#include "http/forwarded.h"
#include "listen/listener.h"
#include "record/trace.h"
#include "upstream/upstream.h"
#include "worker/worker_clock.h"

/* Room for what is added to a head besides its own fields, which are counted exactly. */
#define ADDED_BYTES 4096

#define CLIENT_CERT       SLICE("Client-Cert")
#define CLIENT_CERT_CHAIN SLICE("Client-Cert-Chain")

static void put_request_id(struct field_sink *sink, const struct exchange *x)
{
	if (x->request_id.len > 0)
		field_put(sink, x->use->site->request_id_field, x->request_id);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Fields between the nodes of a fleet and to servers: clients neither send nor get them. */
#define OWN_FIELDS (HTTP_FIELD_BIT(SLUICE_FENCE) | HTTP_FIELD_BIT(SLUICE_HOP))
/* Rewritten: */
#define REWRITTEN_FIELDS                                                                           \
	(HTTP_FIELD_BIT(HOST) | HTTP_FIELD_BIT(X_FORWARDED_FOR) |                                  \
		HTTP_FIELD_BIT(X_FORWARDED_HOST) | HTTP_FIELD_BIT(X_FORWARDED_PORT) |              \
		HTTP_FIELD_BIT(X_FORWARDED_PROTO) | HTTP_FIELD_BIT(X_REAL_IP) |                    \
		HTTP_FIELD_BIT(FORWARDED) | HTTP_FIELD_BIT(VIA))

static bool is_request_id(
	const struct exchange *x, const struct http_field *field, struct slice name)
{
	return field->id <= HTTP_FIELD_UNDERSCORED &&
	       slice_equal_nocase(name, x->use->site->request_id_field);
}

/* Does the listener verify clients, so that fields with their certificates are its own? A request
 * of another node has that node's. */
static bool owns_client_cert(const struct exchange *x)
{
	return client_listener(x->client)->tls.client_ca && !hop_is_from_node(x->client);
}

static bool is_client_cert(const struct exchange *x, struct slice name)
{
	return owns_client_cert(x) && (slice_equal_nocase(name, CLIENT_CERT) ||
					      slice_equal_nocase(name, CLIENT_CERT_CHAIN));
}

/* RFC 9440 */
static void put_client_cert(struct field_sink *sink, const struct exchange *x)
{
	const struct tls_identity *tls = owns_client_cert(x) ? x->facts.tls : NULL;

	if (tls && tls->certificate.len > 0)
		field_put(sink, CLIENT_CERT, tls->certificate);
	if (tls && tls->chain.len > 0)
		field_put(sink, CLIENT_CERT_CHAIN, tls->chain);
}

static size_t client_cert_bytes(const struct exchange *x)
{
	return x->facts.tls ? x->facts.tls->certificate.len + x->facts.tls->chain.len : 0;
}

static bool omits_from_request(const void *ctx, const struct http_field *field, struct slice name)
{
	const struct exchange *x = ctx;

	if (field->id == HTTP_FIELD_EXPECT)
		return false;
	if (is_request_id(x, field, name) || is_client_cert(x, name))
		return true;
	if (exchange_is_elsewhere(x))
		return false;
	const struct http_changes changes = {
		.set = &x->route->request_set, .removed = &x->route->request_remove};
	return http_changes_touch(&changes, name);
}

static void omit_from_request(struct outgoing_request *request, bool by_name)
{
	const struct exchange *x = request->exchange;
	struct fields_omitted *omitted = &request->omitted;

	omitted->ids = OWN_FIELDS;
	by_name |= owns_client_cert(x);
	if (!request->as_came)
		omitted->ids |= REWRITTEN_FIELDS;
	if (!x->framing.expects_continue)
		omitted->ids |= HTTP_FIELD_BIT(EXPECT);
	if (x->request_id.len > 0) {
		enum http_field_id id = x->use->site->request_id_field_id;
		if (id != HTTP_FIELD_OTHER)
			omitted->ids |= UINT32_C(1) << id;
		else
			by_name = true;
	}
	if (!request->as_came && x->text.trace != TRACE_NONE)
		omitted->ids |= trace_omitted(x->text.trace);
	omitted->others = by_name ? omits_from_request : NULL;
	omitted->ctx = x;
}

/* Does the server get the path as the client wrote it (RFC 9110 section 7.7)? */
static bool keeps_path(const struct exchange *x)
{
	const struct conf_route *route = x->route;

	return !route->strip_prefix && !route->add_prefix &&
	       (!route->forwards_normal_path || x->facts.path.at == x->target.path.at);
}

static void put_path(struct http_out *out, const struct exchange *x)
{
	struct slice path = keeps_path(x) ? x->target.path : x->facts.path;
	const char *strip = x->route->strip_prefix;

	if (strip) {
		size_t len = strlen(strip);
		if (path.len >= len && memcmp(path.at, strip, len) == 0 &&
			(len == 0 || strip[len - 1] == '/' || path.len == len ||
				path.at[len] == '/')) {
			if (len > 0 && strip[len - 1] == '/')
				len--;
			path.at += len;
			path.len -= len;
		}
	}
	if (x->route->add_prefix) {
		struct slice prefix = slice_of(x->route->add_prefix);
		if (prefix.len > 0 && prefix.at[prefix.len - 1] == '/' && path.len > 0)
			prefix.len--;
		http_out_slice(out, prefix);
	}
	if (path.len > 0)
		http_out_slice(out, path);
	else if (!x->route->add_prefix)
		http_out_char(out, '/');
}

void outgoing_put_target(struct http_out *out, const struct exchange *x)
{
	if (x->target.form == HTTP_TARGET_ASTERISK) {
		http_out_char(out, '*');
		return;
	}
	put_path(out, x);
	if (x->target.has_query) {
		http_out_char(out, '?');
		http_out_slice(out, x->target.query);
	}
}

/* An HTTP/1.0 client need not say which host it means: then it is the server's own, as a request of
 * HTTP/1.1 must have one (RFC 9112 section 3.2). */
static struct slice host_of(const struct exchange *x)
{
	const struct conf_address *address = &x->server->conf->address;

	if (x->facts.authority.len > 0 || http_head_has(&x->request, HTTP_FIELD_HOST))
		return x->facts.authority;
	return address->kind == CONF_ADDRESS_UNIX ? SLICE("localhost") : slice_of(address->text);
}

/* To the node that owns the session, as the client has sent it: that node rewrites it for the
 * server. */
static void make_for_node(struct outgoing_request *request, struct exchange *x)
{
	request->as_came = request->keeps_target = true;
	request->has_changes = request->names_host = false;
	request->bytes = x->request.len + ADDED_BYTES + client_cert_bytes(x);
	omit_from_request(request, false);
}

void outgoing_request_make(struct outgoing_request *request, struct exchange *x)
{
	const struct conf_route *route = x->route;
	struct http_changes *changes = &request->changes;

	request->exchange = x;
	if (exchange_is_elsewhere(x)) {
		make_for_node(request, x);
		return;
	}
	*changes = (struct http_changes){
		.set = &route->request_set, .removed = &route->request_remove};
	request->has_changes = http_changes_any(changes);
	request->as_came = false;
	request->keeps_target = x->target.form == HTTP_TARGET_ORIGIN && keeps_path(x);
	request->names_host = !request->has_changes || !http_changes_touch(changes, SLICE("host"));
	request->authority = host_of(x);
	request->bytes = 2u * x->request.len + 3u * x->facts.authority.len + x->facts.path.len +
			 ADDED_BYTES + client_cert_bytes(x) +
			 (request->has_changes ? http_changes_bytes(changes) : 0) +
			 (route->add_prefix ? strlen(route->add_prefix) : 0);
	omit_from_request(request, request->has_changes);
}

void outgoing_request_put(struct field_sink *sink, const struct outgoing_request *request)
{
	const struct exchange *x = request->exchange;
	char *own = sink->out.at;

	if (request->as_came) {
		put_request_id(sink, x);
		put_client_cert(sink, x);
		hop_put(sink, x);
		return;
	}
	forwarding_put(sink, x->client->forwarding, x);
	put_request_id(sink, x);
	put_client_cert(sink, x);
	if (x->text.trace == TRACE_BEGUN)
		field_put(sink, SLICE("traceparent"),
			(struct slice){x->text.traceparent, sizeof(x->text.traceparent)});
	if (request->has_changes) {
		http_changes_filter(sink, own, &request->changes);
		http_changes_put(sink, &request->changes, NULL);
	}
	/* The number of its ownership, which a server may check: it grows with each owner. */
	if (x->owner.use.session)
		field_put_number(sink, SLICE("Sluice-Fence"), x->owner.use.fence);
	/* By which the server knows that its responses can be held (GRIP). */
	if (x->route->holds_responses && !x->tunnel.gateway) {
		struct slice signature = exchange_part(x->worker)->switched->signature(x->worker);
		if (signature.len > 0)
			field_put(sink, SLICE("Grip-Sig"), signature);
	}
}

/* ---- responses ------------------------------------------------------------------------------- */

struct http_changes exchange_response_changes(const struct exchange *x)
{
	const struct conf_listener *listener = client_listener(x->client);
	struct http_changes changes = {
		.listener_set = &listener->all_set, .listener_removed = &listener->response_remove};

	if (x->route) {
		changes.set = &x->route->response_set;
		changes.removed = &x->route->response_remove;
	}
	return changes;
}

static bool omits_from_response(const void *ctx, const struct http_field *field, struct slice name)
{
	const struct outgoing_response *response = ctx;
	const struct exchange *x = response->exchange;
	const struct http_changes changes = exchange_response_changes(x);

	if (response->replaces_ratelimit &&
		ratelimit_is_replaced(x->dialect, (enum http_field_id)field->id, name))
		return true;
	return http_changes_touch(&changes, name);
}

static void omit_from_response(struct outgoing_response *response)
{
	const struct exchange *x = response->exchange;
	bool by_name = response->replaces_ratelimit || response->has_changes;

	response->omitted = (struct fields_omitted){
		HTTP_FIELD_BIT(SLUICE_HOP), by_name ? omits_from_response : NULL, response};
	if (x->use->site->via.len > 0 && !exchange_is_elsewhere(x))
		response->omitted.ids |= HTTP_FIELD_BIT(VIA); /* rewritten */
}

void outgoing_response_make(struct outgoing_response *response, struct exchange *x, bool is_interim)
{
	bool limits =
		!is_interim && x->dialect != CONF_RATELIMIT_OFF && x->gate->verdict.limit_count > 0;
	enum ratelimit_merge merge =
		limits ? ratelimit_merge(x->dialect, &x->gate->verdict, x->response)
		       : RATELIMIT_THEIRS;

	response->exchange = x;
	response->is_interim = is_interim;
	response->changes = exchange_response_changes(x);
	/* The node that has it from the server has made them. */
	response->has_changes = http_changes_any(&response->changes) && !exchange_is_elsewhere(x);
	response->has_limits = merge != RATELIMIT_THEIRS;
	response->bytes = 2u * x->response->len + ADDED_BYTES +
			  (response->has_changes ? http_changes_bytes(&response->changes) : 0);
	response->replaces_ratelimit = merge == RATELIMIT_OURS;
	omit_from_response(response);
}

/* The fields that sluice adds to a response. */
static void put_own_fields(struct field_sink *sink, const struct outgoing_response *response)
{
	const struct exchange *x = response->exchange;
	const struct site *site = x->use->site;

	if (site->via.len > 0 && x->response->minor == 1 &&
		!http_head_has(x->response, HTTP_FIELD_VIA)) {
		field_put(sink, SLICE("Via"), site->via_1_1);
	} else if (site->via.len > 0) {
		field_begin(sink, SLICE("Via"));
		forwarded_append_via(&sink->out, x->response, site->via);
		field_end(sink);
	}
	if (response->has_limits)
		ratelimit_put(
			sink, site->texts, x->dialect, &x->gate->verdict, exchange_ratelimit_ms(x));
	if (!http_head_has(x->response, HTTP_FIELD_DATE)) {
		/* RFC 9110 section 6.6.1: a recipient with a clock adds it. */
		field_put(sink, SLICE("Date"), worker_date(x->worker));
	}
	if (site->request_id_field.len > 0 &&
		!http_head_find_known(
			x->response, site->request_id_field_id, site->request_id_field)
			 .at)
		put_request_id(sink, x);
}

void outgoing_response_put(
	struct field_sink *sink, const struct outgoing_response *response, size_t from)
{
	const struct exchange *x = response->exchange;

	field_pass(sink, x->response, from, &response->omitted);
	if (response->is_interim)
		return;
	char *own = sink->out.at;
	if (!exchange_is_elsewhere(x))
		put_own_fields(sink, response);
	if (response->has_changes) {
		http_changes_filter(sink, own, &response->changes);
		http_changes_put(sink, &response->changes, NULL);
	}
}

/* ---- answers of our own ---------------------------------------------------------------------- */

/* Others need none. */
static bool has_detail(unsigned status)
{
	return status == 400 || status == 403 || status == 426;
}

/* A hint for the caller, where the status alone gives none. */
static struct slice detail_of(const char *why)
{
	static const struct {
		const char *why;
		struct slice detail;
	} details[] = {
		{"ambiguous path", SLICE("Servers may read this path differently; send it without "
					 "//, ;, encoded slashes and dot segments.")},
		{"ambiguous key", SLICE("The caller's key appears more than once, or under a "
					"differently spelled name.")},
		{"undecided match", SLICE("A field, cookie or parameter is too long, or cannot be "
					  "matched in time.")},
		{"unknown key", SLICE("The key is not known, or has been revoked.")},
		{"path too costly to match", SLICE("This path cannot be matched in time.")},
		{"websocket handshake",
			SLICE("A WebSocket begins with a GET that has one Sec-WebSocket-Key of 16 "
			      "bytes in base64.")},
		{"websocket version", SLICE("Only WebSocket version 13 is supported.")},
		{"websocket origin", SLICE("WebSockets from this origin are not allowed.")},
		{"websocket protocol", SLICE("None of the subprotocols is allowed.")},
	};

	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		if (strcmp(why, details[i].why) == 0)
			return details[i].detail;
	}
	return SLICE_NONE;
}

/* The same URL under https; of `*` the host's root. */
static struct http_location location_of(const struct exchange *x)
{
	bool is_path = x->target.form != HTTP_TARGET_ASTERISK && x->target.path.len > 0;

	return (struct http_location){
		.host = x->facts.host,
		.port = client_listener(x->client)->redirect_port,
		.path = is_path ? x->target.path : SLICE("/"),
		.query = x->target.query,
		.has_query = x->target.has_query,
	};
}

void outgoing_reply_make(struct outgoing_reply *reply, struct exchange *x)
{
	struct http_problem *problem = &reply->problem;

	reply->exchange = x;
	reply->is_grpc = x->answer.status >= 400 && x->request.method == HTTP_METHOD_POST &&
			 x->request.len > 0 && http_is_grpc(&x->request);
	reply->status = reply->is_grpc ? 200 : x->answer.status;
	reply->changes = exchange_response_changes(x);
	reply->has_changes = http_changes_any(&reply->changes);
	reply->bytes =
		HTTP_PROBLEM_BYTES + (reply->has_changes ? http_changes_bytes(&reply->changes) : 0);
	*problem = (struct http_problem){
		.status = x->answer.status,
		.detail = has_detail(x->answer.status) ? detail_of(x->outcome) : SLICE_NONE,
		.retry_after_ms = x->answer.retry_after_ms,
		.reduced_capacity = x->gate->verdict.outcome == GATE_UNAVAILABLE,
	};
	if (x->answer.status == 308) {
		reply->location = location_of(x);
		reply->bytes += HTTP_LOCATION_BYTES(&reply->location);
		problem->location = &reply->location;
	}
	if (x->answer.status == 401)
		problem->challenge = gate_challenge(x->use->site->gate);
	if (x->answer.status == 429) {
		problem->policies = reply->violated;
		problem->policy_count = ratelimit_violated(&x->gate->verdict, reply->violated);
	}
	if (x->answer.content_bytes > 0) {
		problem->content = (struct slice){x->memory.body, x->answer.content_bytes};
	} else if (x->answer.status == 405 || x->answer.status == 200) {
		uint64_t methods = x->facts.allow;
		if (methods == 0) /* CONNECT and TRACE: whatever else */
			methods = HTTP_METHODS_USUAL;
		problem->allow =
			(struct slice){reply->allow, http_allow_text(methods, reply->allow)};
	}
}

struct slice outgoing_reply_content(struct outgoing_reply *reply)
{
	struct http_out out = http_out_over(reply->content, sizeof(reply->content));

	if (reply->is_grpc)
		return (struct slice){reply->content, 0};
	http_problem_put_content(&out, &reply->problem);
	return out.overflow ? SLICE_NONE
			    : (struct slice){reply->content, (size_t)(out.at - reply->content)};
}

/* The fields of a 429, and of what else passed the gate; or what else belongs to an answer. */
static void put_verdict(struct field_sink *sink, const struct exchange *x)
{
	const struct hop *hop = x->client->hop;

	if (x->answer.status == 426) /* RFC 6455 section 4.2.2 */
		field_put(sink, SLICE("Sec-WebSocket-Version"), SLICE("13"));
	else if (hop && hop->field[0])
		field_put(sink, SLICE("Sluice-Hop"), slice_of(hop->field));
	else if (x->route && x->gate->verdict.limit_count > 0 && x->dialect != CONF_RATELIMIT_OFF)
		ratelimit_put(sink, x->use->site->texts, x->dialect, &x->gate->verdict,
			exchange_ratelimit_ms(x));
}

void outgoing_reply_put(
	struct field_sink *sink, const struct outgoing_reply *reply, size_t content_bytes)
{
	const struct exchange *x = reply->exchange;
	char *own = sink->out.at;

	field_put(sink, SLICE("Date"), worker_date(x->worker));
	if (reply->has_changes)
		http_changes_filter(sink, own, &reply->changes);
	if (reply->is_grpc)
		http_grpc_put_fields(sink, &reply->problem);
	else
		http_problem_put_fields(sink, &reply->problem, content_bytes);
	own = sink->out.at;
	put_verdict(sink, x);
	put_request_id(sink, x);
	if (reply->has_changes) {
		http_changes_filter(sink, own, &reply->changes);
		http_changes_put(sink, &reply->changes, http_problem_keeps);
	}
}
