/* The access log: one line for each exchange, when it is over. Combined, with the proxy's own
 * fields behind it, or a JSON object. */
#include "exchange/access.h"

#include <assert.h>

#include "base/log.h"
#include "exchange/access_text.h"
#include "exchange/exchange.h"
#include "http/forwarded.h"
#include "worker/worker_clock.h"

/* What each text of a client may take up in a line, escapes included, and what all the rest does:
 * fields, numbers, and names of the configuration, which have at most 64 bytes. */
enum {
	TARGET_BYTES = 3072,
	VERSION_BYTES = 64,
	METHOD_BYTES = 64,
	HOST_BYTES = 512,
	REFERER_BYTES = 1024,
	AGENT_BYTES = 1024,
	ID_BYTES = 256, /* at most 128 bytes, of which some are escaped */
	OUTCOME_BYTES = 256,
	REST_BYTES = 1024,
	LINE_BYTES = 8192,
};

_Static_assert(TARGET_BYTES + VERSION_BYTES + METHOD_BYTES + HOST_BYTES + REFERER_BYTES +
			       AGENT_BYTES + ID_BYTES + OUTCOME_BYTES + REST_BYTES <
		       LINE_BYTES,
	"whatever clients send, the fields of a line fit");

static uint64_t since_us(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns && to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

static void put_ms(struct http_out *out, uint64_t us)
{
	http_out_number(out, us / 1000);
	http_out_char(out, '.');
	http_out_char(out, (char)('0' + us / 100 % 10));
	http_out_char(out, (char)('0' + us / 10 % 10));
	http_out_char(out, (char)('0' + us % 10));
}

static const char *verdict_name(const struct exchange *x)
{
	static const char *const names[] = {
		[GATE_ADMIT] = "admit",
		[GATE_DELAY] = "delay",
		[GATE_REFUSE] = "refuse",
		[GATE_DENY] = "deny",
		[GATE_AMBIGUOUS] = "ambiguous",
		[GATE_NO_KEY] = "deny",
		[GATE_UNKNOWN] = "deny",
		[GATE_UNAVAILABLE] = "unavailable",
	};

	if (!x->times.judged_ns)
		return "-";
	if (x->gate.verdict.outcome == GATE_ADMIT && x->gate.verdict.shadowed)
		return "shadow";
	return names[x->gate.verdict.outcome];
}

/* The limit that decided: the first violated (in shadow mode only when nobody was refused), else
 * the first that applied. */
static const char *limit_name(const struct exchange *x)
{
	const struct gate_verdict *verdict = &x->gate.verdict;

	if (!x->times.judged_ns || verdict->limit_count == 0)
		return "-";
	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *limit = &verdict->limits[i];
		if (limit->violated && !(verdict->violated && limit->limit->shadow))
			return limit->limit->name;
	}
	return verdict->limits[0].limit->name;
}

static uint64_t queue_wait_us(const struct exchange *x)
{
	const struct ticket *ticket = &x->turn.ticket;

	if (!ticket->entered_ns)
		return 0;
	/* Its turn never came: it waited until now. */
	return since_us(ticket->entered_ns,
		ticket->started_ns ? ticket->started_ns : worker_now_ns(x->worker));
}

static bool has_trace(const struct exchange *x)
{
	return x->trace == TRACE_GIVEN || x->trace == TRACE_BEGUN;
}

static struct slice trace_id(const struct exchange *x)
{
	return (struct slice){x->text.traceparent + HTTP_TRACE_ID_AT, HTTP_TRACE_ID_BYTES};
}

static struct slice parent_id(const struct exchange *x)
{
	return (struct slice){x->text.traceparent + HTTP_PARENT_ID_AT, HTTP_PARENT_ID_BYTES};
}

struct line {
	struct slice address, method, target, version, referer, user_agent, caller;
	uint64_t total_us, upstream_us;
	const char *upstream;
};

static void put_request_line(struct http_out *out, const struct line *line)
{
	if (line->target.len == 0) {
		http_out_slice(out, SLICE("\"-\""));
		return;
	}
	http_out_char(out, '"');
	access_put_escaped(out, line->method, METHOD_BYTES);
	http_out_char(out, ' ');
	access_put_escaped(out, line->target, TARGET_BYTES);
	http_out_char(out, ' ');
	access_put_escaped(out, line->version, VERSION_BYTES);
	http_out_char(out, '"');
}

/* The bytes are those of messages: frames and their heads are not counted. */
static void put_messages(struct http_out *out, const struct exchange *x)
{
	http_out_slice(out, SLICE(" messages_received="));
	http_out_number(out, x->messages.received);
	http_out_slice(out, SLICE(" bytes_received="));
	http_out_number(out, x->up.content_bytes);
	http_out_slice(out, SLICE(" messages_sent="));
	http_out_number(out, x->messages.sent);
}

static void put_combined(struct http_out *out, const struct exchange *x, const struct line *line)
{
	struct worker *worker = x->worker;

	http_out_slice(out, line->address);
	http_out_slice(out, SLICE(" - - ["));
	http_out_slice(
		out, slice_of(clock_format_combined(&worker->clock, worker_wall_ns(worker))));
	http_out_slice(out, SLICE("] "));
	put_request_line(out, line);
	http_out_char(out, ' ');
	http_out_number(out, x->answer.status);
	http_out_char(out, ' ');
	http_out_number(out, x->down.content_bytes + x->answer.reply_bytes);
	http_out_char(out, ' ');
	access_put_quoted(out, line->referer, REFERER_BYTES);
	http_out_char(out, ' ');
	access_put_quoted(out, line->user_agent, AGENT_BYTES);
	http_out_slice(out, SLICE(" id="));
	http_out_slice(out, x->request_id.len ? x->request_id : SLICE("-"));
	http_out_slice(out, SLICE(" route="));
	http_out_slice(out, slice_of(x->route ? x->route->name : "-"));
	http_out_slice(out, SLICE(" caller="));
	http_out_slice(out, line->caller);
	http_out_slice(out, SLICE(" limit="));
	http_out_slice(out, slice_of(limit_name(x)));
	http_out_slice(out, SLICE(" verdict="));
	http_out_slice(out, slice_of(verdict_name(x)));
	http_out_slice(out, SLICE(" queue_ms="));
	put_ms(out, queue_wait_us(x));
	http_out_slice(out, SLICE(" upstream="));
	http_out_slice(out, slice_of(line->upstream));
	http_out_slice(out, SLICE(" upstream_status="));
	http_out_number(out, x->answer.upstream_status);
	http_out_slice(out, SLICE(" upstream_ms="));
	put_ms(out, line->upstream_us);
	http_out_slice(out, SLICE(" total_ms="));
	put_ms(out, line->total_us);
	if (x->tunnel.has_messages)
		put_messages(out, x);
	if (has_trace(x)) {
		http_out_slice(out, SLICE(" trace_id="));
		http_out_slice(out, trace_id(x));
		http_out_slice(out, SLICE(" parent_id="));
		http_out_slice(out, parent_id(x));
	}
	if (x->outcome) {
		http_out_slice(out, SLICE(" outcome="));
		access_put_quoted(out, slice_of(x->outcome), OUTCOME_BYTES);
	}
}

static void put_json_text(struct http_out *out, struct slice name, struct slice value)
{
	http_out_slice(out, name);
	http_out_json(out, value);
}

static void put_json_cut(struct http_out *out, struct slice name, struct slice value, size_t most)
{
	http_out_slice(out, name);
	access_put_json(out, value, most);
}

static void put_json(struct http_out *out, const struct exchange *x, const struct line *line)
{
	char time[CLOCK_ISO_BYTES];

	clock_format_iso(&x->worker->clock, worker_wall_ns(x->worker), time);
	put_json_text(out, SLICE("{\"time\":"), slice_of(time));
	put_json_cut(out, SLICE(",\"id\":"), x->request_id, ID_BYTES);
	put_json_text(out, SLICE(",\"client\":"), line->address);
	put_json_cut(out, SLICE(",\"method\":"), x->facts.method, METHOD_BYTES);
	put_json_cut(out, SLICE(",\"host\":"), x->facts.host, HOST_BYTES);
	put_json_cut(out, SLICE(",\"target\":"), line->target, TARGET_BYTES);
	http_out_slice(out, SLICE(",\"status\":"));
	http_out_number(out, x->answer.status);
	http_out_slice(out, SLICE(",\"request_bytes\":"));
	http_out_number(out, x->up.content_bytes);
	http_out_slice(out, SLICE(",\"response_bytes\":"));
	http_out_number(out, x->down.content_bytes + x->answer.reply_bytes);
	put_json_cut(out, SLICE(",\"referer\":"), line->referer, REFERER_BYTES);
	put_json_cut(out, SLICE(",\"user_agent\":"), line->user_agent, AGENT_BYTES);
	put_json_text(out, SLICE(",\"route\":"), slice_of(x->route ? x->route->name : ""));
	put_json_text(out, SLICE(",\"caller\":"), line->caller);
	put_json_text(out, SLICE(",\"limit\":"), slice_of(limit_name(x)));
	put_json_text(out, SLICE(",\"verdict\":"), slice_of(verdict_name(x)));
	http_out_slice(out, SLICE(",\"queue_ms\":"));
	put_ms(out, queue_wait_us(x));
	put_json_text(out, SLICE(",\"upstream\":"), slice_of(line->upstream));
	http_out_slice(out, SLICE(",\"upstream_status\":"));
	http_out_number(out, x->answer.upstream_status);
	http_out_slice(out, SLICE(",\"upstream_ms\":"));
	put_ms(out, line->upstream_us);
	http_out_slice(out, SLICE(",\"total_ms\":"));
	put_ms(out, line->total_us);
	if (x->tunnel.has_messages) {
		http_out_slice(out, SLICE(",\"messages_received\":"));
		http_out_number(out, x->messages.received);
		http_out_slice(out, SLICE(",\"messages_sent\":"));
		http_out_number(out, x->messages.sent);
	}
	if (has_trace(x)) {
		put_json_text(out, SLICE(",\"trace_id\":"), trace_id(x));
		put_json_text(out, SLICE(",\"parent_id\":"), parent_id(x));
	}
	if (x->outcome)
		put_json_cut(out, SLICE(",\"outcome\":"), slice_of(x->outcome), OUTCOME_BYTES);
	http_out_char(out, '}');
}

/* What the client sent, without its secrets. `scratch` holds the texts that had some. */
struct scratch {
	char target[TARGET_BYTES + 256], referer[REFERER_BYTES + 256];
};

static void read_request(const struct exchange *x, struct scratch *scratch, struct line *line)
{
	const struct conf_text_list *secrets = &x->use->site->conf->query_keys;
	const char *end = memchr(x->request.base, '\r', x->request.len);
	const char *target_end = x->request.base + x->request.target_at + x->request.target_len;

	line->method = x->facts.method;
	line->target = access_redact(
		http_head_target(&x->request), secrets, scratch->target, sizeof(scratch->target));
	if (end && end > target_end)
		line->version = (struct slice){target_end + 1, (size_t)(end - target_end - 1)};
	line->referer = access_redact(http_head_find(&x->request, HTTP_FIELD_REFERER), secrets,
		scratch->referer, sizeof(scratch->referer));
	line->user_agent = http_head_find(&x->request, HTTP_FIELD_USER_AGENT);
}

/* Its path is its handshake's, without the query. */
static void read_message(const struct exchange *x, struct line *line)
{
	line->method = x->facts.method;
	line->target = x->facts.path;
	line->version = SLICE("websocket");
}

void exchange_log(struct exchange *x)
{
	struct worker *worker = x->worker;
	char text[LINE_BYTES], address[FORWARDED_ADDRESS_BYTES], caller[IDENTITY_SHORT_BYTES];
	struct http_out out = http_out_over(text, sizeof(text) - 1);
	uint64_t now_ns = worker_now_ns(worker);
	struct scratch scratch;

	if (!log_access_enabled() || (x->tunnel.is_message && !x->route->websocket.logs_messages))
		return;
	struct line line = {
		.caller = SLICE("-"),
		.total_us = since_us(x->times.began_ns, now_ns),
		.upstream_us = since_us(x->times.started_ns, now_ns),
		.upstream = x->route ? x->route->upstream->name : "-",
	};
	if (x->times.judged_ns) {
		identity_short(&x->gate.verdict.caller, caller);
		line.caller = (struct slice){caller, sizeof(caller)};
	}
	static const uint8_t unset[16];
	if (memcmp(x->facts.address, unset, sizeof(unset)) != 0)
		line.address =
			(struct slice){address, forwarded_address_text(x->facts.address, address)};
	else
		line.address = x->client ? forwarded_peer_text(x->client->peer) : SLICE("-");
	if (x->tunnel.is_message)
		read_message(x, &line);
	else if (x->request.base && x->memory.head == x->request.base)
		read_request(x, &scratch, &line);
	if (worker->node->log && x->use->site->conf->logs.access_format == CONF_ACCESS_JSON)
		put_json(&out, x, &line);
	else
		put_combined(&out, x, &line);
	assert(!out.overflow);
	*out.at++ = '\n';
	log_access(text, (size_t)(out.at - text));
}
