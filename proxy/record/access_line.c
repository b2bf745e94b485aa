#include "record/access_line.h"

#include <assert.h>

#include "base/log.h"
#include "record/access_text.h"
#include "site/site.h"
#include "worker/worker_clock.h"

/* The largest size of each of a client's texts in a line, including escapes, and that of all the
 * rest: fields, numbers, and names of the configuration, which have at most 64 bytes. */
enum {
	TARGET_BYTES = ACCESS_TARGET_BYTES,
	VERSION_BYTES = 64,
	METHOD_BYTES = 64,
	HOST_BYTES = 512,
	REFERER_BYTES = ACCESS_REFERER_BYTES,
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

const uint16_t access_text_bytes[ACCESS_TEXTS] = {
	[ACCESS_ADDRESS] = 64,
	[ACCESS_METHOD] = METHOD_BYTES,
	[ACCESS_HOST] = HOST_BYTES,
	[ACCESS_TARGET] = TARGET_BYTES,
	[ACCESS_VERSION] = VERSION_BYTES,
	[ACCESS_REFERER] = REFERER_BYTES,
	[ACCESS_USER_AGENT] = AGENT_BYTES,
	[ACCESS_CALLER] = 64,
	[ACCESS_ID] = ID_BYTES,
	[ACCESS_TRACE] = 64,
	[ACCESS_PARENT] = 64,
	[ACCESS_SCHEME] = 8,
};

static void put_ms(struct http_out *out, uint64_t us)
{
	http_out_number(out, us / 1000);
	http_out_char(out, '.');
	http_out_char(out, (char)('0' + us / 100 % 10));
	http_out_char(out, (char)('0' + us / 10 % 10));
	http_out_char(out, (char)('0' + us % 10));
}

/* A member of the line: its name, as it is written, and its value. */
static void put_text(struct http_out *out, struct slice name, struct slice value)
{
	http_out_slice(out, name);
	http_out_slice(out, value);
}

static void put_number(struct http_out *out, struct slice name, uint64_t value)
{
	http_out_slice(out, name);
	http_out_number(out, value);
}

static void put_time(struct http_out *out, struct slice name, uint64_t us)
{
	http_out_slice(out, name);
	put_ms(out, us);
}

static void put_request_line(struct http_out *out, const struct access_line *line)
{
	if (line->texts[ACCESS_TARGET].len == 0) {
		http_out_slice(out, SLICE("\"-\""));
		return;
	}
	http_out_char(out, '"');
	access_put_escaped(out, line->texts[ACCESS_METHOD], METHOD_BYTES);
	http_out_char(out, ' ');
	access_put_escaped(out, line->texts[ACCESS_TARGET], TARGET_BYTES);
	http_out_char(out, ' ');
	access_put_escaped(out, line->texts[ACCESS_VERSION], VERSION_BYTES);
	http_out_char(out, '"');
}

/* The bytes are those of messages: frames and their heads are not counted. */
static void put_messages(struct http_out *out, const struct access_line *line)
{
	put_number(out, SLICE(" messages_received="), line->messages_received);
	put_number(out, SLICE(" bytes_received="), line->received_bytes);
	put_number(out, SLICE(" messages_sent="), line->messages_sent);
}

static void put_combined(
	struct http_out *out, struct worker *worker, const struct access_line *line)
{
	http_out_slice(out, line->texts[ACCESS_ADDRESS]);
	http_out_slice(out, SLICE(" - - ["));
	http_out_slice(
		out, slice_of(clock_format_combined(&worker->clock, worker_wall_ns(worker))));
	http_out_slice(out, SLICE("] "));
	put_request_line(out, line);
	http_out_char(out, ' ');
	http_out_number(out, line->status);
	http_out_char(out, ' ');
	http_out_number(out, line->sent_bytes);
	http_out_char(out, ' ');
	access_put_quoted(out, line->texts[ACCESS_REFERER], REFERER_BYTES);
	http_out_char(out, ' ');
	access_put_quoted(out, line->texts[ACCESS_USER_AGENT], AGENT_BYTES);
	put_text(out, SLICE(" id="),
		line->texts[ACCESS_ID].len ? line->texts[ACCESS_ID] : SLICE("-"));
	put_text(out, SLICE(" scheme="), line->texts[ACCESS_SCHEME]);
	put_text(out, SLICE(" route="), slice_of(line->route ? line->route : "-"));
	put_text(out, SLICE(" caller="), line->texts[ACCESS_CALLER]);
	put_text(out, SLICE(" limit="), slice_of(line->limit));
	put_text(out, SLICE(" verdict="), slice_of(line->verdict));
	put_time(out, SLICE(" queue_ms="), line->queue_us);
	put_text(out, SLICE(" upstream="), slice_of(line->upstream));
	put_number(out, SLICE(" upstream_status="), line->upstream_status);
	put_time(out, SLICE(" upstream_ms="), line->upstream_us);
	put_time(out, SLICE(" total_ms="), line->total_us);
	if (line->has_messages)
		put_messages(out, line);
	if (line->texts[ACCESS_TRACE].len > 0) {
		put_text(out, SLICE(" trace_id="), line->texts[ACCESS_TRACE]);
		put_text(out, SLICE(" parent_id="), line->texts[ACCESS_PARENT]);
	}
	if (line->outcome) {
		http_out_slice(out, SLICE(" outcome="));
		access_put_quoted(out, slice_of(line->outcome), OUTCOME_BYTES);
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

static void put_json(struct http_out *out, struct worker *worker, const struct access_line *line)
{
	char time[CLOCK_ISO_BYTES];

	clock_format_iso(&worker->clock, worker_wall_ns(worker), time);
	put_json_text(out, SLICE("{\"time\":"), slice_of(time));
	put_json_cut(out, SLICE(",\"id\":"), line->texts[ACCESS_ID], ID_BYTES);
	put_json_text(out, SLICE(",\"client\":"), line->texts[ACCESS_ADDRESS]);
	put_json_cut(out, SLICE(",\"method\":"), line->texts[ACCESS_METHOD], METHOD_BYTES);
	put_json_text(out, SLICE(",\"scheme\":"), line->texts[ACCESS_SCHEME]);
	put_json_cut(out, SLICE(",\"host\":"), line->texts[ACCESS_HOST], HOST_BYTES);
	put_json_cut(out, SLICE(",\"target\":"), line->texts[ACCESS_TARGET], TARGET_BYTES);
	put_number(out, SLICE(",\"status\":"), line->status);
	put_number(out, SLICE(",\"request_bytes\":"), line->received_bytes);
	put_number(out, SLICE(",\"response_bytes\":"), line->sent_bytes);
	put_json_cut(out, SLICE(",\"referer\":"), line->texts[ACCESS_REFERER], REFERER_BYTES);
	put_json_cut(out, SLICE(",\"user_agent\":"), line->texts[ACCESS_USER_AGENT], AGENT_BYTES);
	put_json_text(out, SLICE(",\"route\":"), slice_of(line->route ? line->route : ""));
	put_json_text(out, SLICE(",\"caller\":"), line->texts[ACCESS_CALLER]);
	put_json_text(out, SLICE(",\"limit\":"), slice_of(line->limit));
	put_json_text(out, SLICE(",\"verdict\":"), slice_of(line->verdict));
	put_time(out, SLICE(",\"queue_ms\":"), line->queue_us);
	put_json_text(out, SLICE(",\"upstream\":"), slice_of(line->upstream));
	put_number(out, SLICE(",\"upstream_status\":"), line->upstream_status);
	put_time(out, SLICE(",\"upstream_ms\":"), line->upstream_us);
	put_time(out, SLICE(",\"total_ms\":"), line->total_us);
	if (line->has_messages) {
		put_number(out, SLICE(",\"messages_received\":"), line->messages_received);
		put_number(out, SLICE(",\"messages_sent\":"), line->messages_sent);
	}
	if (line->texts[ACCESS_TRACE].len > 0) {
		put_json_text(out, SLICE(",\"trace_id\":"), line->texts[ACCESS_TRACE]);
		put_json_text(out, SLICE(",\"parent_id\":"), line->texts[ACCESS_PARENT]);
	}
	if (line->outcome)
		put_json_cut(out, SLICE(",\"outcome\":"), slice_of(line->outcome), OUTCOME_BYTES);
	http_out_char(out, '}');
}

void access_write(struct worker *worker, const struct site *site, const struct access_line *line)
{
	char text[LINE_BYTES];
	struct http_out out = http_out_over(text, sizeof(text) - 1);

	if (worker->node->log && site->conf->logs.access_format == CONF_ACCESS_JSON)
		put_json(&out, worker, line);
	else
		put_combined(&out, worker, line);
	assert(!out.overflow);
	*out.at++ = '\n';
	log_access(text, (size_t)(out.at - text));
}
