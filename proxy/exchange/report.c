#include "exchange/report.h"

#include "exchange/exchange.h"
#include "http/forwarded.h"
#include "record/access_line.h"
#include "record/access_text.h"
#include "stats/stats.h"

/* ---- its line -------------------------------------------------------------------------------- */

static const char *verdict_name(const struct exchange *x)
{
	static const char *const names[] = {
		[GATE_ADMIT] = "admit",
		[GATE_DELAY] = "delay",
		[GATE_REFUSE] = "refuse",
		[GATE_DENY] = "deny",
		[GATE_AMBIGUOUS] = "ambiguous",
		[GATE_UNDECIDED] = "ambiguous",
		[GATE_NO_KEY] = "deny",
		[GATE_UNKNOWN] = "deny",
		[GATE_UNAVAILABLE] = "unavailable",
	};

	if (!x->times.judged_ns)
		return "-";
	if (x->gate->verdict.outcome == GATE_ADMIT && x->gate->verdict.shadowed)
		return "shadow";
	return names[x->gate->verdict.outcome];
}

/* The limit that decided: the first violated (in shadow mode only when nobody was refused), else
 * the first that applied. */
static const char *limit_name(const struct exchange *x)
{
	const struct gate_verdict *verdict = &x->gate->verdict;

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
	return access_since_us(ticket->entered_ns,
		ticket->started_ns ? ticket->started_ns : worker_now_ns(x->worker));
}

/* Where the texts of a line are that are no one's own. */
struct scratch {
	char address[FORWARDED_ADDRESS_BYTES], caller[IDENTITY_SHORT_BYTES];
	char target[ACCESS_TARGET_BYTES + 256], referer[ACCESS_REFERER_BYTES + 256]; /* redacted */
};

/* The texts of its request, without their secrets. */
static void read_request(
	const struct exchange *x, struct scratch *scratch, struct access_line *line)
{
	const struct conf_text_list *secrets = &x->use->site->conf->keys.query;
	const char *end = memchr(x->request.base, '\r', x->request.len);
	const char *target_end = x->request.base + x->request.target_at + x->request.target_len;
	struct slice *texts = line->texts;

	texts[ACCESS_TARGET] = access_redact(
		http_head_target(&x->request), secrets, scratch->target, sizeof(scratch->target));
	if (end && end > target_end)
		texts[ACCESS_VERSION] =
			(struct slice){target_end + 1, (size_t)(end - target_end - 1)};
	texts[ACCESS_REFERER] = access_redact(http_head_find(&x->request, HTTP_FIELD_REFERER),
		secrets, scratch->referer, sizeof(scratch->referer));
	texts[ACCESS_USER_AGENT] = http_head_find(&x->request, HTTP_FIELD_USER_AGENT);
}

/* Its path is its handshake's, without the query. */
static void read_message(const struct exchange *x, struct access_line *line)
{
	line->texts[ACCESS_TARGET] = x->facts.path;
	line->texts[ACCESS_VERSION] = SLICE("websocket");
}

/* Its client and caller. */
static void read_client(const struct exchange *x, struct scratch *scratch, struct access_line *line)
{
	static const uint8_t unset[16];
	struct slice *texts = line->texts;

	texts[ACCESS_CALLER] = SLICE("-");
	if (x->times.judged_ns) {
		identity_short(&x->gate->verdict.caller, scratch->caller);
		texts[ACCESS_CALLER] = (struct slice){scratch->caller, sizeof(scratch->caller)};
	}
	if (memcmp(x->facts.address, unset, sizeof(unset)) != 0)
		texts[ACCESS_ADDRESS] = (struct slice){scratch->address,
			forwarded_address_text(x->facts.address, scratch->address)};
	else
		texts[ACCESS_ADDRESS] = x->client && x->client->peer
						? forwarded_peer_text(x->client->peer)
						: SLICE("-");
}

static void read_texts(const struct exchange *x, struct scratch *scratch, struct access_line *line)
{
	struct slice *texts = line->texts;

	read_client(x, scratch, line);
	texts[ACCESS_METHOD] = x->facts.method;
	texts[ACCESS_HOST] = x->facts.host;
	texts[ACCESS_SCHEME] = x->facts.is_https ? SLICE("https") : SLICE("http");
	texts[ACCESS_ID] = x->request_id;
	if (exchange_is_message(x))
		read_message(x, line);
	else if (x->request.base && x->memory.head == x->request.base)
		read_request(x, scratch, line);
	if (x->text.trace != TRACE_GIVEN && x->text.trace != TRACE_BEGUN)
		return;
	texts[ACCESS_TRACE] =
		(struct slice){x->text.traceparent + HTTP_TRACE_ID_AT, HTTP_TRACE_ID_BYTES};
	texts[ACCESS_PARENT] =
		(struct slice){x->text.traceparent + HTTP_PARENT_ID_AT, HTTP_PARENT_ID_BYTES};
}

static __attribute__((noinline)) void write_line(const struct exchange *x)
{
	uint64_t now_ns = worker_now_ns(x->worker);
	struct scratch scratch;
	struct access_line line = {
		.route = x->route ? x->route->name : NULL,
		.limit = limit_name(x),
		.verdict = verdict_name(x),
		.upstream = x->route ? x->route->upstream->name : "-",
		.outcome = x->outcome,
		.status = x->answer.status,
		.upstream_status = x->answer.upstream_status,
		.received_bytes = x->up.content_bytes,
		.sent_bytes = x->down.content_bytes + x->answer.reply_bytes,
		.queue_us = queue_wait_us(x),
		.total_us = access_since_us(x->times.began_ns, now_ns),
		.upstream_us = access_since_us(x->times.started_ns, now_ns),
	};
	read_texts(x, &scratch, &line);
	access_write(x->worker, x->use->site, &line);
}

void report_line(const struct exchange *x)
{
	if (log_access_enabled() && (!exchange_is_message(x) || x->route->websocket.logs_messages))
		write_line(x);
}

struct access_kept *report_keep_line(const struct exchange *x)
{
	struct access_line line = {
		.limit = limit_name(x), .verdict = verdict_name(x), .queue_us = queue_wait_us(x)};
	struct scratch scratch;

	read_texts(x, &scratch, &line);
	return access_keep(&line, x->times.began_ns, x->times.started_ns);
}

/* ---- its counts ------------------------------------------------------------------------------ */

static inline struct judged judged_of(const struct exchange *x)
{
	return (struct judged){x->worker, x->use->site, &x->gate->verdict, x->facts.address};
}

static inline struct account_end end_of(const struct exchange *x)
{
	const struct ticket *ticket = &x->turn.ticket;
	struct account_end end = {
		.verdict = (uint8_t)account_verdict_of(
			x->times.judged_ns ? &x->gate->verdict : NULL, x->gate->delayed),
		.status = (uint16_t)x->answer.status,
		.has_upstream_status = x->answer.upstream_status != 0 && x->times.judged_ns,
		.received_bytes = x->up.content_bytes,
		.sent_bytes = x->down.content_bytes + x->answer.reply_bytes,
		.began_ns = x->times.began_ns,
		.started_ns = x->times.started_ns,
	};

	if (x->times.started_ns != 0 && ticket->started_ns > ticket->entered_ns)
		end.queue_ns = ticket->started_ns - ticket->entered_ns;
	return end;
}

static inline void count_verdict(const struct exchange *x, const struct account_end *end)
{
	const struct judged judged = judged_of(x);

	if (x->times.judged_ns)
		account_verdict(&judged, (enum stats_verdict)end->verdict);
}

/* Flat: most requests are counted by these steps, whose values then stay in registers. */
__attribute__((flatten)) void report_end(const struct exchange *x)
{
	const struct account_end end = end_of(x);

	if (exchange_is_message(x))
		account_message(x->worker, x->use->site, x->route, &end);
	else
		account_request(x->worker, x->use->site, x->route, &end);
	count_verdict(x, &end);
	report_line(x);
}

struct account_end report_keep_end(const struct exchange *x)
{
	const struct account_end end = end_of(x);

	count_verdict(x, &end);
	return end;
}

void report_delay(const struct exchange *x)
{
	const struct judged judged = judged_of(x);

	account_delay(&judged);
}

void report_response(const struct exchange *x)
{
	/* relaxed: a count that others only show */
	if (x->server)
		atomic_fetch_add_explicit(&x->server->state->responses, 1, memory_order_relaxed);
}

void report_failure(const struct exchange *x)
{
	/* relaxed: a count that others only show */
	if (x->server)
		atomic_fetch_add_explicit(&x->server->state->failures, 1, memory_order_relaxed);
	account_upstream_failure(x->worker, x->use->site, x->route);
}
