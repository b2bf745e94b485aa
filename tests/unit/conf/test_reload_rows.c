/* What a reload does with each option: every row of the table says it, and no row can change
 * without being seen. The samples below have each row; one that is missing fails. A row whose value
 * has several parts is there once for each. */
#include "config.h"

#include <stdbool.h>

#include "conf/compare.h"
#include "text.h"
#include "tests/unit/suite.h"

struct sample {
	enum section_id section;
	const char *key;
	const char *a, *b;     /* two values; NULL: the key is not there */
	const char *a_as_well; /* the first, written otherwise; NULL: there is no other way */
	const char *needs;     /* lines that the key can't be without */
};

#define S SECTION_SLUICE
#define L SECTION_LISTENER
#define U SECTION_UPSTREAM
#define R SECTION_ROUTE
#define F SECTION_FLEET
#define M SECTION_SEMAPHORE

#define MESSAGES "websocket = messages"
#define GATEWAY  "websocket = gateway"

/* clang-format off */
static const struct sample samples[] = {
	{S, "include", NULL, "/tmp/none.d/*.ini", NULL, NULL},
	{S, "workers", "2", "3", NULL, NULL},
	{S, "state", NULL, "/tmp", NULL, NULL},
	{S, "state_required", "off", "on", "no", "state = /tmp"},
	{S, "callers", "10k", "20k", "10000", NULL},
	{S, "sessions", "1M", "2M", "1000k", NULL},
	{S, "queue_total", "1k", "2k", "1000", NULL},
	{S, "queue_total_bytes", "1M", "2M", "1024k", NULL},
	{S, "socket_queue_total_bytes", "1M", "2M", "1024k", NULL},
	{S, "socket_gather_total_bytes", "1M", "2M", "1024k", NULL},
	{S, "channels", "1k", "2k", "1000", NULL},
	{S, "grip_key", "file:/a", "file:/b", NULL, NULL},
	{S, "grip_iss", "sluice", "other", NULL, NULL},
	{S, "lame_duck", "1s", "2s", "1000ms", NULL},
	{S, "shutdown_timeout", "1s", "2s", "1000ms", NULL},
	{S, "buffer_size", "8k", "16k", "8192", NULL},
	{S, "buffering_memory", "1M", "2M", "1024k", NULL},
	{S, "buffering_disk", "1M", "2M", "1024k", NULL},
	{S, "buffering_folder", "/tmp", "/var/tmp", NULL, NULL},
	{S, "log_level", "info", "debug", NULL, NULL},
	{S, "error_log", "stderr", "file:/tmp/x", NULL, NULL},
	{S, "access_log", "off", "stdout", NULL, NULL},
	{S, "access_log_format", "combined", "json", NULL, NULL},
	{S, "request_id", "X-Request-Id", "off", NULL, NULL},
	{S, "usage", "0", "1m", NULL, "state = /x"},
	{S, "usage_size", "1G", "2G", NULL, NULL},
	{S, "traceparent", "pass", "begin", NULL, NULL},
	{S, "via", "off", "other", NULL, NULL},
	{S, "forwarded", "on", "off", "yes", NULL},
	{S, "pid_file", NULL, "/tmp/pid", NULL, NULL},
	{S, "user", NULL, "nobody", NULL, NULL},
	{SECTION_ADMIN, "bind", "127.0.0.1:8", "127.0.0.1:9", NULL, NULL},
	{SECTION_ADMIN, "token", "file:/a", "file:/b", NULL, NULL},
	{SECTION_ADMIN, "dashboard", "on", "off", NULL, NULL},
	{L, "bind", "127.0.0.1:10", "127.0.0.1:11", NULL, NULL},
	{L, "trusted_proxies", NULL, "10.0.0.0/8", NULL, NULL},
	{L, "health", "off", "on", "no", NULL},
	{L, "trust_priority", "off", "on", "false", NULL},
	{L, "v6only", "on", "off", "true", NULL},
	{L, "backlog", "1k", "2k", "1000", NULL},
	{L, "max_connections", "1k", "2k", "1000", NULL},
	{L, "pipeline_depth", "2", "3", NULL, NULL},
	{L, "header_timeout", "1s", "2s", "1000ms", NULL},
	{L, "idle_timeout", "1m", "2m", "60s", NULL},
	{L, "body_timeout", "1s", "2s", "1000ms", NULL},
	{L, "send_timeout", "1s", "2s", "1000ms", NULL},
	{L, "linger_timeout", "1s", "2s", "1000ms", NULL},
	{L, "linger_size", "1M", "2M", "1024k", NULL},
	{L, "max_lingering", "1k", "2k", "1000", NULL},
	{L, "max_header_size", "16k", "32k", "16384", NULL},
	{L, "max_uri_size", "4k", "2k", "4096", NULL},
	{L, "max_headers", "1k", "2k", "1000", NULL},
	{L, "response_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{L, "response_header_remove", "X-A", "X-B", NULL, NULL},
	{L, "lookalike_fields", "drop", "pass", NULL, NULL},
	{L, "ratelimit_headers", "draft-11", "off", NULL, NULL},
	{U, "server", "127.0.0.1:20", "127.0.0.1:21", NULL, NULL},
	{U, "balance", "round_robin", "least_in_flight", NULL, NULL},
	{U, "hash_key", NULL, "ip", NULL, "balance = hash"},
	{U, "max_in_flight", "1k", "auto", "1000", NULL},
	{U, "max_in_flight_floor", "1", "2", NULL, "max_in_flight = auto"},
	{U, "max_in_flight_ceiling", "1k", "2k", "1000", "max_in_flight = auto"},
	{U, "max_streams", "1k", "2k", "1000", NULL},
	{U, "pace", "5 per 1s", "5 per 2s", "5 per 1000ms", NULL},
	{U, "pace", "5 per 1s", "6 per 1s", NULL, NULL},
	{U, "quantum", "10", "20", NULL, NULL},
	{U, "shed_target", "1s", "2s", "1000ms", NULL},
	{U, "shed_interval", "1s", "2s", "1000ms", "shed_target = 1s"},
	{U, "connect_timeout", "1s", "2s", "1000ms", NULL},
	{U, "send_timeout", "1s", "2s", "1000ms", NULL},
	{U, "first_byte_timeout", "1s", "2s", "1000ms", NULL},
	{U, "idle_timeout", "1s", "2s", "1000ms", NULL},
	{U, "tunnel_timeout", "1s", "2s", "1000ms", NULL},
	{U, "keepalive", "1k", "2k", "1000", NULL},
	{U, "keepalive_timeout", "1s", "2s", "1000ms", NULL},
	{U, "keepalive_requests", "1k", "2k", "1000", NULL},
	{U, "resolve_interval", "1s", "2s", "1000ms", NULL},
	{U, "max_fails", "1", "2", NULL, NULL},
	{U, "fail_timeout", "1s", "2s", "1000ms", NULL},
	{U, "fail_timeout_max", "1m", "2m", "60s", NULL},
#ifdef HAVE_RABBITMQ
	{U, "semaphore", NULL, "x", NULL, NULL},
	{U, "semaphore_idle", "1s", "2s", "1000ms", "semaphore = x"},
	{U, "semaphore_down", "local", "refuse", NULL, "semaphore = x"},
#endif
	{U, "lenient", NULL, "bare_lf", NULL, NULL},
	{U, "retries", "1", "2", NULL, NULL},
	{U, "health_path", "/a", "/b", NULL, NULL},
	{U, "health_host", "a", "b", NULL, "health_path = /"},
	{U, "health_interval", "1s", "2s", "1000ms", "health_path = /"},
	{U, "health_timeout", "1s", "2s", "1000ms", "health_path = /"},
	{U, "health_shared", "off", "on", "no", "health_path = /"},
	{SECTION_SERVER, "weight", "1", "2", NULL, NULL},
	{SECTION_SERVER, "max_in_flight", "1k", "2k", "1000", NULL},
	{SECTION_SERVER, "max_connections", "1k", "2k", "1000", NULL},
	{SECTION_LIMIT, "key", "ip", "header:X-Key", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per 1s", "5 per 2s", "5 per 1000ms", NULL},
	{SECTION_LIMIT, "rate", "5 per 1s", "6 per 1s", NULL, NULL},
	{SECTION_LIMIT, "rate", "5M per 1s", "5MB per 1s", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per day", "5 per week", NULL, NULL},
	{SECTION_LIMIT, "rate", "5 per day UTC", "5 per day Europe/Oslo", NULL, NULL},
	{SECTION_LIMIT, "concurrency", "5", "6", NULL, NULL},
	{SECTION_LIMIT, "algorithm", "ring", "gcra", NULL, NULL},
	{SECTION_LIMIT, "burst", "1", "2", NULL, "algorithm = gcra"},
	{SECTION_LIMIT, "precision", "2", "exact", NULL, NULL},
	{SECTION_LIMIT, "mode", "enforce", "shadow", NULL, NULL},
	{SECTION_LIMIT, "on_exceed", "reject", "delay 1s", NULL, NULL},
	{SECTION_LIMIT, "count_refused", "off", "on", "no", NULL},
	{SECTION_LIMIT, "scope", "node", "fleet", NULL, "fleet = exact"},
	{SECTION_LIMIT, "fleet", NULL, "exact", NULL, NULL},
	{SECTION_LIMIT, "store_down", NULL, "refuse", NULL, NULL},
	{SECTION_LIMIT, "was", "before", "long before", NULL, NULL},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "5 per 1m for 2h", "5 per 60s for 60m", NULL},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "6 per 1m for 1h", NULL, NULL},
	{SECTION_LIMIT, "ban", "5 per 1m for 1h", "5 per 2m for 1h", NULL, NULL},
	{SECTION_PLANS, "key", "ip", "header:X-Key", NULL, NULL},
	{SECTION_PLANS, "unknown", "default", "refuse", NULL, NULL},
	{SECTION_PLAN, "limits", "x", "y", NULL, NULL},
	{SECTION_PLAN, "lane", "normal", "high", NULL, NULL},
	{SECTION_PLAN, "weight", "1", "2", NULL, NULL},
	{SECTION_PLAN, "callers", "file:/a", "file:/b", NULL, NULL},
	{F, "store", "redis://127.0.0.1", "redis://127.0.0.1/1", "redis://127.0.0.1:6379/0", NULL},
	{F, "store", "redis://127.0.0.1", "redis://127.0.0.2", NULL, NULL},
	{F, "store", "redis://a:p@127.0.0.1", "redis://b:p@127.0.0.1", NULL, NULL},
	{F, "password", "file:/a", "file:/b", NULL, NULL},
	{F, "cluster", "off", "on", "no", NULL},
	{F, "sentinel", "one", "two", NULL, NULL},
	{F, "sentinel_user", "one", "two", NULL,
		"sentinel = one\nsentinel_password = file:/a"},
	{F, "sentinel_password", "file:/a", "file:/b", NULL, "sentinel = one"},
	{F, "prefix", "sluice", "other", NULL, NULL},
	{F, "node", NULL, "edge-1", NULL, NULL},
	{F, "membership_lease", "1s", "2s", "1000ms", NULL},
	{F, "store_required", "off", "on", "no", NULL},
	{F, "store_timeout", "1s", "2s", "1000ms", NULL},
	{F, "publish_interval", "1s", "2s", "1000ms", NULL},
	{F, "store_quorum", "1", "2", NULL, NULL},
	{F, "store_down", "refuse", "admit", NULL, NULL},
	{F, "nodes", "3", "5", NULL, NULL},
	{F, "lost_share", "1m", "2m", "60s", NULL},
	{F, "bind", "127.0.0.1:7946", "127.0.0.1:7947", NULL, "secret = file:/a"},
	{F, "secret", "file:/a", "file:/b", NULL, "bind = 127.0.0.1:7946"},
	{F, "lease", "5s", "10s", "5000ms", NULL},
	{F, "max_sessions", "5", "6", NULL, NULL},
	{M, "broker", "amqp://127.0.0.1", "amqp://127.0.0.1/a", "amqp://127.0.0.1:5672/%2F", NULL},
	{M, "broker", "amqp://127.0.0.1", "amqp://127.0.0.2", NULL, NULL},
	{M, "broker", "amqp://a:p@127.0.0.1", "amqp://b:p@127.0.0.1", NULL, NULL},
	{M, "password", "file:/a", "file:/b", NULL, NULL},
	{M, "size", "1", "1k", NULL, NULL},
	{M, "nodes", "1k", "2k", "1000", NULL},
	{M, "heartbeat", "1s", "2s", "1000ms", NULL},
	{M, "broker_timeout", "1s", "2s", "1000ms", NULL},
	{R, "host", NULL, "a.test", NULL, NULL},
	{R, "path", "/a", "=/a", NULL, NULL},
	{R, "path", "/a", "/b", NULL, NULL},
	{R, "method", NULL, "GET", NULL, NULL},
	{R, "upstream", "x", "y", NULL, NULL},
	{R, "limits", "x, plan", "plan, x", "x,plan", "session = ip"},
	{R, "session", "ip", "header:X-Key", NULL, NULL},
	{R, "ordering", "writes", "strict", NULL, NULL},
	{R, "read_hold", "1s", "2s", "1000ms", NULL},
	{R, "session_in_flight", "1", "2", NULL, NULL},
	{R, "queue_depth", "1k", "2k", "1000", NULL},
	{R, "queue_bytes", "1k", "2k", "1024", NULL},
	{R, "queue_timeout", "1s", "2s", "1000ms", NULL},
	{R, "high_burst", "1", "2", NULL, NULL},
	{R, "lane", "normal", "high", NULL, NULL},
	{R, "session_idle_timeout", "1s", "2s", "1000ms", NULL},
	{R, "session_scope", "node", "fleet", NULL, NULL},
	{R, "session_elsewhere", "forward", "refuse", NULL, NULL},
	{R, "owner_idle", "1s", "2s", "1000ms", NULL},
	{R, "upstream_affinity", "none", "session", NULL, NULL},
	{R, "max_body_size", "1k", "2k", "1024", NULL},
	{R, "min_rate", "1k", "2k", "1024", NULL},
	{R, "min_rate_grace", "1s", "2s", "1000ms", NULL},
	{R, "request_buffering", "64k file 1M", "64k", "65536 file 1024k", NULL},
	{R, "request_buffering", "64k file 1M", "32k file 1M", NULL, NULL},
	{R, "response_buffering", "off", "64k file 1M", NULL, NULL},
	{R, "cost", "5", "response:X-Cost", NULL, "limits = x"},
	{R, "cost", "5", "6", NULL, "limits = x"},
	{R, "cost", "response:X-A", "response:X-B", NULL, "limits = x"},
	{R, "refund", NULL, "5xx", NULL, "limits = x"},
	{R, "upgrade", "websocket", "off", NULL, NULL},
	{R, "websocket", "tunnel", "messages", NULL, NULL},
	{R, "message_limits", "x, plan", "plan, x", "x,plan", MESSAGES},
	{R, "on_message_exceed", "delay 1s", "drop", "delay 1000ms", MESSAGES},
	{R, "on_message_exceed", "delay 1s", "delay 2s", NULL, MESSAGES},
	{R, "message_notice", NULL, "slow down", NULL, MESSAGES "\non_message_exceed = drop"},
	{R, "max_message_size", "1k", "2k", "1024", MESSAGES},
	{R, "message_timeout", "1s", "2s", "1000ms", MESSAGES},
	{R, "max_sockets", NULL, "c", NULL, MESSAGES},
	{R, "websocket_origin", NULL, "https://a.test", NULL, MESSAGES},
	{R, "websocket_protocols", "a", "a, b", NULL, MESSAGES},
	{R, "ping_interval", "1s", "2s", "1000ms", MESSAGES},
	{R, "ping_timeout", "1s", "2s", "1000ms", MESSAGES},
	{R, "socket_idle_timeout", "1s", "2s", "1000ms", MESSAGES},
	{R, "socket_lifetime", "1s", "2s", "1000ms", MESSAGES},
	{R, "close_timeout", "1s", "2s", "1000ms", MESSAGES},
	{R, "socket_type", "a", "b", NULL, MESSAGES},
	{R, "socket_queue_bytes", "1k", "2k", "1024", MESSAGES},
	{R, "socket_queue_messages", "1", "2", NULL, MESSAGES},
	{R, "socket_channels", "1k", "2k", "1000", MESSAGES},
	{R, "on_socket_queue_full", "close", "drop", NULL, MESSAGES},
	{R, "gateway_waiting", "1", "2", NULL, GATEWAY},
	{R, "gateway_waiting_bytes", "1k", "2k", "1024", GATEWAY},
	{R, "gateway_batch", "1", "2", NULL, GATEWAY},
	{R, "gateway_answer_size", "1k", "2k", "1024", GATEWAY},
	{R, "gateway_tries", "1", "2", NULL, GATEWAY},
	{R, "grip_hold", "off", "on", "no", NULL},
	{R, "log_messages", "off", "on", "no", MESSAGES},
	{R, "request_trailers", NULL, "X-A", NULL, NULL},
	{R, "request_header_set", "X-A: 1", "X-A: 2", NULL, NULL},
	{R, "request_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{R, "request_header_remove", "X-A", "X-B", NULL, NULL},
	{R, "response_header_set", "X-A: 1", "X-B: 1", NULL, NULL},
	{R, "response_header_remove", "X-A", "X-A, X-B", NULL, NULL},
	{R, "strip_prefix", NULL, "/x", NULL, NULL},
	{R, "add_prefix", "/a", "/b", NULL, NULL},
	{R, "forward_path", "received", "normal", NULL, NULL},
	{R, "ambiguous_path", "refuse", "allow", NULL, NULL},
	{R, "unknown_callers", "inherit", "refuse", NULL, NULL},
	{R, "ratelimit_headers", "inherit", "off", NULL, NULL},
	{R, "allow", "10.0.0.0/8", "10.0.0.0/9", NULL, "limits = x"},
	{R, "deny", "10.0.0.0/8", "10.0.0.0/9", NULL, NULL},
};

/* A file that every option has a place in. */
static const struct part {
	enum section_id id;
	const char *title, *key, *line; /* what it can't be without */
} parts[] = {
	{SECTION_SLUICE, "sluice", "", ""},
	{SECTION_ADMIN, "admin", "bind", "bind = 127.0.0.1:1\n"},
	{SECTION_LISTENER, "listener x", "bind", "bind = 127.0.0.1:2\n"},
	{SECTION_UPSTREAM, "upstream x", "server", "server = 127.0.0.1:3\n"},
	{SECTIONS, "upstream y", "", "server = 127.0.0.1:4\n"},
	{SECTION_LIMIT, "limit x", "rate", "rate = 9 per 1s\n"},
	{SECTIONS, "limit y", "", "rate = 9 per 1s\n"},
	{SECTIONS, "limit c", "", "concurrency = 1\n"},
	{SECTION_PLANS, "plans", "key", "key = ip\n"},
	{SECTION_PLAN, "plan x", "callers", "callers = file:/x\n"},
	{SECTION_FLEET, "fleet", "store", "store = redis://127.0.0.1:5\n"},
	{SECTION_SEMAPHORE, "semaphore x", "broker", "broker = amqp://127.0.0.1:5\n"},
	{SECTION_ROUTE, "route x", "upstream", "upstream = x\n"},
	{SECTIONS, "route z", "", "upstream = y\npath = =/z\nlimits = y, plan\n"},
};
/* clang-format on */

static void put_part(
	FILE *out, const struct part *part, const struct sample *sample, const char *value)
{
	bool here = part->id == sample->section;
	bool replaces = here && (strcmp(part->key, sample->key) == 0 ||
					(strcmp(part->key, "rate") == 0 &&
						strcmp(sample->key, "concurrency") == 0));

	fprintf(out, "[%s]\n", part->title);
	if (part->id == SECTION_UPSTREAM && sample->section == SECTION_SERVER)
		fprintf(out, "server = 127.0.0.1:3 %s=%s\n", sample->key, value);
	else if (!replaces)
		fputs(part->line, out);
	if (here && value)
		fprintf(out, "%s = %s\n", sample->key, value);
	if (part->id == SECTION_FLEET && strcmp(sample->key, "session_scope") == 0)
		fputs("bind = 127.0.0.1:6\nsecret = file:/x\n", out);
	if (here && sample->needs)
		fprintf(out, "%s\n", sample->needs);
}

static bool is_section_built(enum section_id id)
{
#ifndef HAVE_REDIS
	if (id == F)
		return false;
#endif
#ifndef HAVE_RABBITMQ
	if (id == M)
		return false;
#endif
	(void)id;
	return true;
}

static const struct conf *with(const struct sample *sample, const char *value)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (is_section_built(parts[i].id))
			put_part(out, &parts[i], sample, value);
	fclose(out);
	const struct conf *conf = parse_good(text);
	free(text);
	return conf;
}

struct seen {
	const struct option *option; /* the only one */
	unsigned count;
};

static void note(const void *user, const struct conf_change *change)
{
	struct seen *seen = *(struct seen *const *)user;

	assert_int_equal(change->kind, CONF_CHANGE_SET);
	seen->option = change->option;
	seen->count++;
}

static struct seen compare(const struct conf *a, const struct conf *b, enum conf_compare which)
{
	struct seen seen = {NULL, 0}, *at = &seen;

	conf_compare(a, b, which, note, &at);
	return seen;
}

static const struct sample *sample_of(enum section_id section, const char *key)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (samples[i].section == section && strcmp(samples[i].key, key) == 0)
			return &samples[i];
	}
	return NULL;
}

/* The row that a change of the sample is reported by: that of the whole server line, for its own.
 */
static const struct option *row_of(const struct sample *sample)
{
	bool inside = sample->section == SECTION_SERVER;
	const struct option_section *section =
		&option_sections[inside ? SECTION_UPSTREAM : sample->section];

	return option_find(section, slice_of(inside ? "server" : sample->key));
}

static void each_row_says_what_a_reload_does_with_it(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];
		for (size_t j = 0; j < *section->option_count; j++) {
			const struct option *option = &section->options[j];
			if (option->reload != RELOAD_UNSET && option->type->same &&
				sample_of(section->id, option->name))
				continue;
			fprintf(stderr, "# [%s] %s: %s\n", section->kind, option->name,
				option->reload == RELOAD_UNSET ? "no .reload in its row"
				: !option->type->same          ? "its type compares nothing"
							       : "no sample in this test");
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void each_row_of_a_route_says_whether_it_restricts(void **state)
{
	(void)state;
	for (size_t i = 0; i < options_route_count; i++) {
		if (options_route[i].route == ROUTE_UNSET)
			fprintf(stderr, "# [route] %s: no .route in its row\n",
				options_route[i].name);
		assert_int_not_equal(options_route[i].route, ROUTE_UNSET);
	}
}

static void check_sample(const struct sample *sample)
{
	const struct option *row = row_of(sample);
	const struct conf *a = with(sample, sample->a), *b = with(sample, sample->b);
	const struct conf *again = with(sample, sample->a_as_well ? sample->a_as_well : sample->a);
	bool at_start = row->reload == RELOAD_START;
	struct seen live = compare(a, b, CONF_COMPARE_LIVE);
	struct seen start = compare(a, b, CONF_COMPARE_START);

	if (live.count + start.count != 1 || (at_start ? start : live).option != row)
		fprintf(stderr, "# %s: %u live, %u at the start\n", sample->key, live.count,
			start.count);
	assert_int_equal(live.count, !at_start);
	assert_int_equal(start.count, at_start);
	assert_ptr_equal((at_start ? start : live).option, row);
	assert_int_equal(compare(a, again, CONF_COMPARE_LIVE).count, 0);
	assert_int_equal(compare(a, again, CONF_COMPARE_START).count, 0);
	conf_release(a);
	conf_release(b);
	conf_release(again);
}

/* Without libwslay there are only tunnels, without hiredis only one node, without librabbitmq no
 * semaphores. */
static bool is_built(const struct sample *sample)
{
	if (!is_section_built(sample->section))
		return false;
#ifndef HAVE_REDIS
	if (strcmp(sample->key, "scope") == 0 || strcmp(sample->key, "session_scope") == 0 ||
		strcmp(sample->key, "health_shared") == 0)
		return false;
#endif
#ifdef HAVE_WEBSOCKET
	(void)sample;
	return true;
#else
	return strcmp(sample->key, "websocket") != 0 &&
	       !(sample->needs && strncmp(sample->needs, MESSAGES, strlen(MESSAGES)) == 0);
#endif
}

static void each_change_is_seen_once_and_only_when_it_is_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (is_built(&samples[i]))
			check_sample(&samples[i]);
}

static void note_sections(const void *user, const struct conf_change *change)
{
	char *text = *(char *const *)user;
	static const char *const kinds[] = {"+", "-", "="};

	strcat(text, kinds[change->kind]);
	strcat(text, change->title);
}

static void sections_that_come_and_go_are_reported_as_a_whole(void **state)
{
	const struct conf *a = parse_good(TEXT_BASE "[limit old]\nrate = 1 per 1s\n");
	const struct conf *b = parse_good(TEXT_BASE "[limit new]\nrate = 1 per 1s\n");
	char text[200] = "", *at = text;

	(void)state;
	conf_compare(a, b, CONF_COMPARE_LIVE, note_sections, &at);
	conf_compare(a, b, CONF_COMPARE_START, note_sections, &at);
	assert_string_equal(text, "+[limit new]-[limit old]");
	conf_release(a);
	conf_release(b);
}

UNIT_SUITE(test_reload_rows)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_says_what_a_reload_does_with_it),
		cmocka_unit_test(each_row_of_a_route_says_whether_it_restricts),
		cmocka_unit_test(each_change_is_seen_once_and_only_when_it_is_one),
		cmocka_unit_test(sections_that_come_and_go_are_reported_as_a_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
