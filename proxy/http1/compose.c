/*
 * Heads, rewritten for the next hop. Field lines that pass unchanged, mostly runs of several, are
 * copied unchanged; fields of this hop only are omitted, and the fields that a proxy must send are
 * added.
 */
#include "http1/compose.h"

#include "base/log.h"
#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "exchange/hop.h"
#include "exchange/switched.h"
#include "record/trace.h"
#include "http/changes.h"
#include "http/forwarded.h"
#include "http/status.h"
#include "http/upgrade.h"
#include "listen/listener.h"
#include "upstream/upstream.h"
#include "worker/worker_clock.h"

/* What is added to a head besides the fields that were there; the rest is counted exactly. */
#define ADDED_BYTES 4096

static void put(struct http_out *out, struct slice bytes)
{
	http_out_slice(out, bytes);
}

/* A line: `start` is its name with what stands behind that. */
static inline void put_line(struct http_out *out, struct slice start, struct slice value)
{
	put(out, start);
	put(out, value);
	put(out, SLICE("\r\n"));
}

/* Lines that are left out, besides those of this hop alone. */
struct omitted {
	uint32_t ids; /* bit 1 << enum http_field_id */
	/* Which others; NULL: none. */
	bool (*others)(const struct exchange *x, const struct http_field *field, struct slice name);
};

/* Copies the head from its byte `from` to its last line, but for what is left out: one piece up to
 * each such line, and one behind the last. */
static void put_lines(struct http_out *out, const struct exchange *x, const struct http_head *head,
	size_t from, struct omitted omitted)
{
	const struct http_field *end = head->fields + head->field_count;
	size_t head_end = head->len - 2;
	/* A Connection field, which may name any other, is one of a hop itself. */
	bool all_pass =
		!omitted.others &&
		!(head->ids & (omitted.ids | HTTP_HOP_FIELDS | HTTP_FIELD_BIT(UNDERSCORED)));

	for (const struct http_field *field = head->fields; !all_pass && field < end; field++) {
		if (!field->hop && !(omitted.ids >> field->id & 1) &&
			!(omitted.others && omitted.others(x, field, http_field_name(head, field))))
			continue;
		if (from < field->name_at)
			put(out, (struct slice){head->base + from, field->name_at - from});
		from = field + 1 < end ? field[1].name_at : head_end;
	}
	put(out, (struct slice){head->base + from, head_end - from});
}

/* Where the first field's line begins. */
static size_t first_line(const struct http_head *head)
{
	return head->field_count > 0 ? head->fields[0].name_at : head->len - 2;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct http_changes request_changes(const struct conf_route *route)
{
	return (struct http_changes){.set = &route->request_set, .removed = &route->request_remove};
}

static bool drops_request_field(
	const struct exchange *x, const struct http_field *field, struct slice name)
{
	const struct conf_route *route = x->route;

	if (field->id == HTTP_FIELD_EXPECT)
		return false;
	if (field->id <= HTTP_FIELD_UNDERSCORED &&
		slice_equal_nocase(name, x->use->site->request_id_field))
		return true;
	struct http_changes changes = request_changes(route);
	return http_changes_touch(&changes, name);
}

/* What nodes of a fleet say to each other and to servers: not a client's affair. */
#define OWN_FIELDS (HTTP_FIELD_BIT(SLUICE_FENCE) | HTTP_FIELD_BIT(SLUICE_HOP))

static struct omitted omitted_of_request(const struct exchange *x)
{
	const struct conf_route *route = x->route;
	/* Rewritten: */
	struct omitted omitted = {
		HTTP_FIELD_BIT(HOST) | HTTP_FIELD_BIT(X_FORWARDED_FOR) |
			HTTP_FIELD_BIT(X_FORWARDED_HOST) | HTTP_FIELD_BIT(X_FORWARDED_PORT) |
			HTTP_FIELD_BIT(X_FORWARDED_PROTO) | HTTP_FIELD_BIT(X_REAL_IP) |
			HTTP_FIELD_BIT(FORWARDED) | HTTP_FIELD_BIT(VIA) | OWN_FIELDS,
		NULL};
	bool by_name = route->request_remove.count > 0 || route->request_set.count > 0;

	if (!x->framing.expects_continue)
		omitted.ids |= HTTP_FIELD_BIT(EXPECT);
	if (x->request_id.len > 0) {
		enum http_field_id id = x->use->site->request_id_field_id;
		if (id != HTTP_FIELD_OTHER)
			omitted.ids |= UINT32_C(1) << id;
		else
			by_name = true;
	}
	if (x->trace != TRACE_NONE)
		omitted.ids |= trace_omitted(x->trace);
	omitted.others = by_name ? drops_request_field : NULL;
	return omitted;
}

static bool keeps_path(const struct exchange *x);

static void put_target(struct http_out *out, const struct exchange *x)
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
		put(out, prefix);
	}
	if (path.len > 0)
		put(out, path);
	else if (!x->route->add_prefix)
		put(out, SLICE("/"));
	if (x->target.has_query) {
		put(out, SLICE("?"));
		put(out, x->target.query);
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

/* Does the server get the path as the client wrote it (RFC 9110 section 7.7)? */
static bool keeps_path(const struct exchange *x)
{
	const struct conf_route *route = x->route;

	return !route->strip_prefix && !route->add_prefix &&
	       (!route->forwards_normal_path || x->facts.path.at == x->target.path.at);
}

/* Does it get the whole target so? */
static bool is_as_written(const struct exchange *x)
{
	return x->target.form == HTTP_TARGET_ORIGIN && keeps_path(x);
}

/* Is the head's beginning what would be rewritten, line for line, as it mostly is? Then the host
 * comes first, once, and it passes with what stands around it. */
static bool begins_as_written(const struct exchange *x)
{
	static const char between[] = " HTTP/1.1\r\nHost: ";
	const struct http_head *head = &x->request;
	const struct http_field *first = head->fields;
	size_t target_end = head->target_at + head->target_len;

	return head->field_count > 0 && first->id == HTTP_FIELD_HOST && !first->hop &&
	       is_as_written(x) && first->value_at == target_end + strlen(between) &&
	       memcmp(head->base + target_end, between, strlen(between)) == 0 &&
	       head->base[first->value_at + first->value_len] == '\r';
}

/* Method and target. */
static void put_request_line(struct http_out *out, const struct exchange *x)
{
	const struct http_head *head = &x->request;

	if (is_as_written(x)) {
		put(out, (struct slice){head->base, head->target_at + head->target_len});
		return;
	}
	/* With the space behind it. The head's own: for the log it may be another's that was made
	 * this request. */
	put(out, (struct slice){head->base, head->target_at});
	if (x->target.form == HTTP_TARGET_ASTERISK)
		put(out, SLICE("*"));
	else
		put_target(out, x);
}

static void put_request_id(struct http_out *out, const struct exchange *x)
{
	if (x->request_id.len == 0)
		return;
	put_line(out, x->use->site->request_id_start, x->request_id);
}

static void put_framing(struct http_out *out, const struct exchange *x)
{
	if (x->framing.upgrade)
		http_upgrade_put(out, &x->request, &x->route->upgrades);
	if (x->framing.body == HTTP_BODY_CHUNKED) {
		put(out, SLICE("Transfer-Encoding: chunked\r\n"));
	} else if (x->framing.has_length) {
		put(out, SLICE("Content-Length: "));
		http_out_number(out, x->framing.length);
		put(out, SLICE("\r\n"));
	}
	put(out, SLICE("\r\n"));
}

static bool is_request_id(
	const struct exchange *x, const struct http_field *field, struct slice name)
{
	return field->id <= HTTP_FIELD_UNDERSCORED &&
	       slice_equal_nocase(name, x->use->site->request_id_field);
}

/* To the node that owns the session, as the client has sent it: that node rewrites it for the
 * server. */
static bool compose_for_node(struct exchange *x, struct flow *flow)
{
	const struct http_head *head = &x->request;
	struct omitted omitted = {OWN_FIELDS, NULL};
	struct http_out out;

	if (!flow_reserve(flow, &x->worker->blocks, x->request.len + ADDED_BYTES, &out))
		return false;
	if (!x->framing.expects_continue)
		omitted.ids |= HTTP_FIELD_BIT(EXPECT);
	if (x->request_id.len > 0 && x->use->site->request_id_field_id != HTTP_FIELD_OTHER)
		omitted.ids |= UINT32_C(1) << x->use->site->request_id_field_id;
	else if (x->request_id.len > 0)
		omitted.others = is_request_id;
	put(&out, (struct slice){head->base, head->target_at + head->target_len});
	put(&out, head->minor == 0 ? SLICE(" HTTP/1.0\r\n") : SLICE(" HTTP/1.1\r\n"));
	put_lines(&out, x, head, first_line(head), omitted);
	put_request_id(&out, x);
	hop_put(&out, x);
	put_framing(&out, x);
	flow_commit(flow, &out);
	return !out.overflow;
}

/* The number of its ownership, which a server may check: it grows with each owner. */
static void put_fence(struct http_out *out, const struct exchange *x)
{
	put(out, SLICE("Sluice-Fence: "));
	http_out_number(out, x->owner.use.fence);
	put(out, SLICE("\r\n"));
}

/* By which the server knows that its responses can be held (GRIP). */
static void put_signature(struct http_out *out, const struct exchange *x)
{
	struct slice signature = x->worker->switched->signature(x->worker);

	if (signature.len > 0)
		put_line(out, SLICE("Grip-Sig: "), signature);
}

bool compose_request(struct exchange *x, struct flow *flow)
{
	const struct conf_route *route = x->route;
	const struct http_changes changes = request_changes(route);
	bool has_changes = http_changes_any(&changes);
	size_t room = 2u * x->request.len + 3u * x->facts.authority.len + x->facts.path.len +
		      ADDED_BYTES + (has_changes ? http_changes_bytes(&changes) : 0) +
		      (route->add_prefix ? strlen(route->add_prefix) : 0);
	struct omitted omitted = omitted_of_request(x);
	bool sets_host = has_changes && http_changes_touch(&changes, SLICE("host"));
	struct http_out out;

	if (exchange_is_elsewhere(x))
		return compose_for_node(x, flow);
	if (!flow_reserve(flow, &x->worker->blocks, room, &out))
		return false;
	if (sets_host) {
		put_request_line(&out, x);
		put(&out, SLICE(" HTTP/1.1\r\n"));
		put_lines(&out, x, &x->request, first_line(&x->request), omitted);
	} else if (begins_as_written(x)) {
		omitted.ids &= ~HTTP_FIELD_BIT(HOST);
		put_lines(&out, x, &x->request, 0, omitted);
	} else {
		put_request_line(&out, x);
		put_line(&out, SLICE(" HTTP/1.1\r\nHost: "), host_of(x));
		put_lines(&out, x, &x->request, first_line(&x->request), omitted);
	}
	char *own = out.at;
	forwarding_put(&out, x->client->forwarding, x);
	put_request_id(&out, x);
	if (x->trace == TRACE_BEGUN)
		put_line(&out, SLICE("traceparent: "),
			(struct slice){x->text.traceparent, sizeof(x->text.traceparent)});
	if (has_changes) {
		http_changes_filter(&out, own, &changes);
		http_changes_put(&out, &changes, NULL);
	}
	if (x->owner.use.session)
		put_fence(&out, x);
	if (route->holds_responses && !x->tunnel.gateway)
		put_signature(&out, x);
	put_framing(&out, x);
	flow_commit(flow, &out);
	return !out.overflow;
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

static bool drops_response_field(
	const struct exchange *x, const struct http_field *field, struct slice name)
{
	const struct http_changes changes = exchange_response_changes(x);

	if (x->answer.replaces_ratelimit &&
		ratelimit_is_replaced(x->dialect, (enum http_field_id)field->id, name))
		return true;
	return http_changes_touch(&changes, name);
}

static struct omitted omitted_of_response(const struct exchange *x, bool has_changes)
{
	struct omitted omitted = {0};

	omitted.ids |= HTTP_FIELD_BIT(SLUICE_HOP);
	if (x->use->site->via.len > 0 && !exchange_is_elsewhere(x))
		omitted.ids |= HTTP_FIELD_BIT(VIA); /* rewritten */
	if (x->request.minor == 0)
		omitted.ids |= HTTP_FIELD_BIT(TRAILER);
	if (x->answer.replaces_ratelimit || has_changes)
		omitted.others = drops_response_field;
	return omitted;
}

static void put_response_framing(struct http_out *out, const struct exchange *x, bool chunked)
{
	const struct http_framing *framing = &x->response_framing;

	if (chunked) {
		put(out, SLICE("Transfer-Encoding: chunked\r\n"));
	} else if (framing->has_length && x->response.status != 204) {
		put(out, SLICE("Content-Length: "));
		http_out_number(out, framing->length);
		put(out, SLICE("\r\n"));
	}
	if (x->close_client)
		put(out, SLICE("Connection: close\r\n"));
	else if (x->request.minor == 0)
		put(out, SLICE("Connection: keep-alive\r\n"));
}

/* What sluice adds to a response. */
static void put_own_fields(struct http_out *out, const struct exchange *x, bool with_limits)
{
	const struct site *site = x->use->site;

	if (site->via.len > 0 && x->response.minor == 1 &&
		!http_head_has(&x->response, HTTP_FIELD_VIA)) {
		put(out, (struct slice){site->via_line, site->via_line_len});
	} else if (site->via.len > 0) {
		put(out, SLICE("Via: "));
		forwarded_append_via(out, &x->response, site->via);
		put(out, SLICE("\r\n"));
	}
	if (with_limits)
		ratelimit_append(
			out, site->texts, x->dialect, &x->gate.verdict, exchange_ratelimit_ms(x));
	if (!http_head_has(&x->response, HTTP_FIELD_DATE)) {
		/* RFC 9110 section 6.6.1: a recipient with a clock adds it. */
		put_line(out, SLICE("Date: "), worker_date(x->worker));
	}
	if (site->request_id_field.len > 0 &&
		!http_head_find_known(
			&x->response, site->request_id_field_id, site->request_id_field)
			 .at)
		put_request_id(out, x);
}

/* Of our version, with both of its blanks, which servers that send no reason may omit. */
static void put_status_line(struct http_out *out, const struct http_head *head)
{
	size_t reason = strlen("HTTP/1.1 200"), line_end = first_line(head) - strlen("\r\n");

	put(out, SLICE("HTTP/1.1 "));
	http_out_number(out, head->status);
	put(out, SLICE(" "));
	put(out, slice_trim((struct slice){head->base + reason, line_end - reason}));
	put(out, SLICE("\r\n"));
}

bool compose_response(struct exchange *x, struct flow *flow, bool chunked, bool interim)
{
	const struct http_changes changes = exchange_response_changes(x);
	/* The node that has it from the server has made them. */
	bool has_changes = http_changes_any(&changes) && !exchange_is_elsewhere(x);
	size_t room = 2u * x->response.len + ADDED_BYTES +
		      (has_changes ? http_changes_bytes(&changes) : 0);
	struct http_out out;
	bool limits =
		!interim && x->dialect != CONF_RATELIMIT_OFF && x->gate.verdict.limit_count > 0;

	if (!flow_reserve(flow, &x->worker->blocks, room, &out))
		return false;
	enum ratelimit_merge merge =
		limits ? ratelimit_merge(x->dialect, &x->gate.verdict, &x->response)
		       : RATELIMIT_THEIRS;
	x->answer.replaces_ratelimit = merge == RATELIMIT_OURS;
	const struct omitted omitted = omitted_of_response(x, has_changes);
	put_status_line(&out, &x->response);
	put_lines(&out, x, &x->response, first_line(&x->response), omitted);
	if (!interim) {
		char *own = out.at;
		if (!exchange_is_elsewhere(x))
			put_own_fields(&out, x, limits && merge != RATELIMIT_THEIRS);
		if (has_changes) {
			http_changes_filter(&out, own, &changes);
			http_changes_put(&out, &changes, NULL);
		}
		if (x->response.status == 101)
			http_upgrade_put(&out, &x->response, &x->route->upgrades);
		else
			put_response_framing(&out, x, chunked);
	}
	put(&out, SLICE("\r\n"));
	flow_commit(flow, &out);
	return !out.overflow;
}
