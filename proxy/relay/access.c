/* The access log: one line for each exchange, when it is over. Combined, with the proxy's own
 * fields behind it, or a JSON object. */
#include "base/log.h"
#include "relay/downstream.h"
#include "relay/exchange.h"
#include "relay/relay.h"

#define LINE_BYTES 8192

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

/* A quoted text of the combined format: '"', '\' and what is not printable as \xHH. */
static void put_quoted(struct http_out *out, struct slice text)
{
	static const char digits[] = "0123456789abcdef";

	http_out_char(out, '"');
	if (text.len == 0)
		http_out_char(out, '-');
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		if (c >= ' ' && c < 127 && c != '"' && c != '\\') {
			http_out_char(out, (char)c);
			continue;
		}
		http_out_slice(out, SLICE("\\x"));
		http_out_char(out, digits[c >> 4]);
		http_out_char(out, digits[c & 15]);
	}
	http_out_char(out, '"');
}

static const char *verdict_name(const struct exchange *x)
{
	static const char *const names[] = {
		[GATE_ADMIT] = "admit",
		[GATE_DELAY] = "delay",
		[GATE_REFUSE] = "refuse",
		[GATE_DENY] = "deny",
	};

	if (!x->judged_ns)
		return "-";
	if (x->verdict.outcome == GATE_ADMIT && x->verdict.shadowed)
		return "shadow";
	return names[x->verdict.outcome];
}

/* The limit that decided: the first violated (in shadow mode only when nobody was refused), else
 * the first that applied. */
static const char *limit_name(const struct exchange *x)
{
	const struct gate_verdict *verdict = &x->verdict;

	if (!x->judged_ns || verdict->limit_count == 0)
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
	const struct ticket *ticket = &x->ticket;

	if (ticket->entered_ns && ticket->started_ns >= ticket->entered_ns)
		return (ticket->started_ns - ticket->entered_ns) / 1000;
	return 0;
}

struct line {
	struct slice address, request_line, referer, user_agent, caller;
	uint64_t total_us, upstream_us;
	const char *upstream;
};

static void put_combined(struct http_out *out, const struct exchange *x, const struct line *line)
{
	struct worker *worker = x->worker;

	http_out_slice(out, line->address);
	http_out_slice(out, SLICE(" - - ["));
	http_out_slice(
		out, slice_of(clock_format_combined(&worker->clock, worker_wall_ns(worker))));
	http_out_slice(out, SLICE("] "));
	put_quoted(out, line->request_line);
	http_out_char(out, ' ');
	http_out_number(out, x->status);
	http_out_char(out, ' ');
	http_out_number(out, x->down.content_bytes + x->reply_bytes);
	http_out_char(out, ' ');
	put_quoted(out, line->referer);
	http_out_char(out, ' ');
	put_quoted(out, line->user_agent);
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
	http_out_number(out, x->upstream_status);
	http_out_slice(out, SLICE(" upstream_ms="));
	put_ms(out, line->upstream_us);
	http_out_slice(out, SLICE(" total_ms="));
	put_ms(out, line->total_us);
	if (x->outcome) {
		http_out_slice(out, SLICE(" outcome="));
		put_quoted(out, slice_of(x->outcome));
	}
}

static void put_json_text(struct http_out *out, struct slice name, struct slice value)
{
	http_out_slice(out, name);
	http_out_json(out, value);
}

static void put_json(struct http_out *out, const struct exchange *x, const struct line *line)
{
	char time[CLOCK_ISO_BYTES];

	clock_format_iso(&x->worker->clock, worker_wall_ns(x->worker), time);
	put_json_text(out, SLICE("{\"time\":"), slice_of(time));
	put_json_text(out, SLICE(",\"id\":"), x->request_id);
	put_json_text(out, SLICE(",\"client\":"), line->address);
	put_json_text(out, SLICE(",\"method\":"), x->method);
	put_json_text(out, SLICE(",\"host\":"), x->host);
	put_json_text(out, SLICE(",\"target\":"),
		x->request.base ? http_head_target(&x->request) : SLICE_NONE);
	http_out_slice(out, SLICE(",\"status\":"));
	http_out_number(out, x->status);
	http_out_slice(out, SLICE(",\"request_bytes\":"));
	http_out_number(out, x->up.content_bytes);
	http_out_slice(out, SLICE(",\"response_bytes\":"));
	http_out_number(out, x->down.content_bytes + x->reply_bytes);
	put_json_text(out, SLICE(",\"referer\":"), line->referer);
	put_json_text(out, SLICE(",\"user_agent\":"), line->user_agent);
	put_json_text(out, SLICE(",\"route\":"), slice_of(x->route ? x->route->name : ""));
	put_json_text(out, SLICE(",\"caller\":"), line->caller);
	put_json_text(out, SLICE(",\"limit\":"), slice_of(limit_name(x)));
	put_json_text(out, SLICE(",\"verdict\":"), slice_of(verdict_name(x)));
	http_out_slice(out, SLICE(",\"queue_ms\":"));
	put_ms(out, queue_wait_us(x));
	put_json_text(out, SLICE(",\"upstream\":"), slice_of(line->upstream));
	http_out_slice(out, SLICE(",\"upstream_status\":"));
	http_out_number(out, x->upstream_status);
	http_out_slice(out, SLICE(",\"upstream_ms\":"));
	put_ms(out, line->upstream_us);
	http_out_slice(out, SLICE(",\"total_ms\":"));
	put_ms(out, line->total_us);
	if (x->outcome)
		put_json_text(out, SLICE(",\"outcome\":"), slice_of(x->outcome));
	http_out_char(out, '}');
}

void exchange_log(struct exchange *x)
{
	struct worker *worker = x->worker;
	char text[LINE_BYTES], address[FORWARDED_ADDRESS_BYTES], caller[IDENTITY_SHORT_BYTES];
	struct http_out out = http_out_over(text, sizeof(text) - 1);
	uint64_t now_ns = worker_now_ns(worker);

	if (!log_access_enabled())
		return;
	struct line line = {
		.caller = SLICE("-"),
		.total_us = since_us(x->began_ns, now_ns),
		.upstream_us = since_us(x->started_ns, now_ns),
		.upstream = x->route ? x->route->upstream->name : "-",
	};
	if (x->judged_ns) {
		identity_short(&x->verdict.caller, caller);
		line.caller = (struct slice){caller, sizeof(caller)};
	}
	static const uint8_t unset[16];
	if (memcmp(x->address, unset, sizeof(unset)) != 0)
		line.address = (struct slice){address, forwarded_address_text(x->address, address)};
	else
		line.address =
			x->downstream ? forwarded_peer_text(&x->downstream->peer) : SLICE("-");
	if (x->request.base && x->head_bytes == x->request.base) {
		const char *end = memchr(x->request.base, '\r', x->request.len);
		line.request_line =
			(struct slice){x->request.base, end ? (size_t)(end - x->request.base) : 0};
		line.referer = http_head_find(&x->request, HTTP_FIELD_REFERER);
		line.user_agent = http_head_find(&x->request, HTTP_FIELD_USER_AGENT);
	}
	if (worker->relay->log && x->use->site->conf->access_format == CONF_ACCESS_JSON)
		put_json(&out, x, &line);
	else
		put_combined(&out, x, &line);
	/* An overlong line is cut, never dropped: its status still counts for something. */
	*out.at++ = '\n';
	log_access(text, (size_t)(out.at - text));
}
