/* Rows of [sluice], [admin] and [listener]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MS(n)       (n)
#define SECONDS(n)  (1000ULL * (n))
#define HOURS(n)    (3600000ULL * (n))
#define DAYS(n)     (86400000ULL * (n))
#define MILLION     1000000ULL

#define AT(field)          .offset = offsetof(struct conf, field)
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define AT_START           .reload = RELOAD_START

static const struct option_word log_levels[] = {{"error", LOG_LEVEL_ERROR},
	{"warn", LOG_LEVEL_WARN}, {"info", LOG_LEVEL_INFO}, {"debug", LOG_LEVEL_DEBUG}, {NULL, 0}};

static const struct option_word access_formats[] = {
	{"combined", CONF_ACCESS_COMBINED}, {"json", CONF_ACCESS_JSON}, {NULL, 0}};

static const struct option_word traceparent_modes[] = {{"pass", CONF_TRACEPARENT_PASS},
	{"begin", CONF_TRACEPARENT_BEGIN}, {"off", CONF_TRACEPARENT_OFF}, {NULL, 0}};

static const struct option_word lookalike_fields[] = {{"drop", false}, {"pass", true}, {NULL, 0}};

static const struct option_word listener_ratelimit_headers[] = {
	{"draft-11", CONF_RATELIMIT_DRAFT_11}, {"draft-7", CONF_RATELIMIT_DRAFT_7},
	{"x-ratelimit", CONF_RATELIMIT_X}, {"x-ratelimit-unix", CONF_RATELIMIT_X_UNIX},
	{"off", CONF_RATELIMIT_OFF}, {NULL, 0}};

/* clang-format off */
const struct option options_sluice[] = {
	{"include", &type_include, LIVE, AT(includes), .flags = OPTION_REPEATABLE,
		.help = "Files whose sections belong to the configuration as well, by a pattern; may also "
			"stand before all sections."},
	{"workers", &type_workers, AT_START, AT(workers), .fallback = "auto", BETWEEN(1, 256),
		.help = "Threads that serve; auto is one for each processor that the process may use, by "
			"its affinity and the CPU quota of its control groups."},
	{"state", &type_path, AT_START, AT(state),
		.help = "Folder where the throttles' state outlives a restart; unset, it is kept in "
			"memory only."},
	{"state_required", &type_flag, AT_START, AT(state_required), .fallback = "off",
		.help = "Whether to refuse to start when the state folder can't be used, instead of "
			"going on in memory only."},
	{"usage", &type_duration, AT_START, AT(usage.interval_ms), .fallback = "0", BETWEEN(0, HOURS(1)),
		.flags = OPTION_DURATION,
		.help = "How often what callers have used of each limit is written to the state folder, "
			"for invoices; 0 keeps nothing of it. A crash loses what was counted since."},
	{"usage_size", &type_size64, AT_START, AT(usage.bytes), .fallback = "1G",
		BETWEEN(1ULL << 20, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Bytes of these files, all together; beyond it the oldest hours are removed, and "
			"an hour that has as much alone goes on with one row for all callers of a limit."},
	{"callers", &type_count64, LIVE, AT(totals.callers), .fallback = "1M", BETWEEN(1000, 1000 * MILLION),
		.help = "Callers that are remembered for each limit at most; memory is taken as they "
			"come."},
	{"sessions", &type_count64, AT_START, AT(totals.sessions), .fallback = "1M", BETWEEN(100, 1000 * MILLION),
		.help = "Sessions kept at most, idle ones included."},
	{"queue_total", &type_count64, AT_START, AT(totals.queue), .fallback = "100k",
		BETWEEN(1, 100 * MILLION),
		.help = "Requests waiting at most over all sessions; beyond it 503 is answered."},
	{"queue_total_bytes", &type_size64, AT_START, AT(totals.queue_bytes), .fallback = "512M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes of memory that these hold, with their heads and the first block of a "
			"body, 0 for no bound; beyond it 503 is answered."},
	{"socket_queue_total_bytes", &type_size64, LIVE, AT(totals.socket_queue_bytes), .fallback = "256M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes of memory that messages to the clients of all WebSockets may wait in, one "
			"that waits on several counted once, 0 for no bound; further ones are refused."},
	{"socket_gather_total_bytes", &type_size64, LIVE, AT(totals.socket_gather_bytes), .fallback = "256M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes of memory that messages of the clients of all WebSockets may take until they "
			"are whole and passed on, 0 for no bound; a socket that needs more is closed with 1013."},
	{"channels", &type_count64, LIVE, AT(totals.channels), .fallback = "1M", BETWEEN(1, 1000 * MILLION),
		.help = "Channels that WebSockets are subscribed to at most; further ones are refused."},
	{"lame_duck", &type_duration, LIVE, AT(lame_duck_ms), .fallback = "0",
		BETWEEN(0, HOURS(1)), .flags = OPTION_DURATION,
		.help = "How long sluice serves on after SIGTERM, or after an upgrade the connections it "
			"has, with /readyz saying no, before it drains."},
	{"shutdown_timeout", &type_duration, LIVE, AT(shutdown_timeout_ms), .fallback = "30s",
		BETWEEN(0, DAYS(1)), .flags = OPTION_DURATION,
		.help = "How long requests on their way may take to finish in a drain, after SIGTERM or an upgrade."},
	{"buffer_size", &type_size32, AT_START, AT(buffer_bytes), .fallback = "80k",
		BETWEEN(4 << 10, 4 << 20), .flags = OPTION_SIZE,
		.help = "Bytes read from a connection at once, and kept of a body in each direction."},
	{"buffering_memory", &type_size64, LIVE, AT(body_store.memory_bytes), .fallback = "64M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes of memory in which request_buffering and response_buffering keep bodies, "
			"all together; beyond it they are kept in files."},
	{"buffering_disk", &type_size64, LIVE, AT(body_store.disk_bytes), .fallback = "1G",
		BETWEEN(0, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Bytes of the files in which bodies are kept, all together; 0 for no files. When "
			"there is no room, bodies pass at the pace of the slower side."},
	{"buffering_folder", &type_path, AT_START, AT(body_store.folder), .fallback = "/var/tmp",
		.help = "Folder of these files; no name of them is ever in it."},
	{"log_level", &type_word, LIVE, AT(logs.level), .fallback = "info", .words = log_levels,
		.help = "The least severe lines that go to the error log."},
	{"error_log", &type_log_target, LIVE, AT(logs.error), .fallback = "stderr",
		.help = "Where the error log goes."},
	{"access_log", &type_log_target, LIVE, AT(logs.access), .fallback = "stdout",
		.help = "Where a line for each request goes."},
	{"access_log_format", &type_word, LIVE, AT(logs.access_format), .fallback = "combined",
		.words = access_formats,
		.help = "Whether access log lines are in the combined format or JSON objects."},
	{"request_id", &type_token_or_off, LIVE, AT(request_id_field), .fallback = "X-Request-Id",
		.help = "The field in which a request's id is taken or made, and passed on."},
	{"traceparent", &type_word, LIVE, AT(traceparent), .fallback = "pass",
		.words = traceparent_modes,
		.help = "Whether a valid traceparent (W3C Trace Context) is only passed on, or one is "
			"begun, sampled, where there is none; invalid ones are dropped with tracestate. off "
			"looks at neither."},
	{"via", &type_token_or_off, LIVE, AT(hop.via), .fallback = "off",
		.help = "The name under which sluice adds itself to Via, off for not at all; some "
			"servers do not compress what a proxy asked for."},
	{"forwarded", &type_flag, LIVE, AT(hop.forwarded), .fallback = "on",
		.help = "Whether Forwarded (RFC 7239) is sent to servers besides X-Forwarded-For."},
	{"grip_key", &type_secret, LIVE, AT(grip.key),
		.help = "Secret with which Grip-Sig is signed, and with which publishers sign: as bytes when "
			"base64: stands before it."},
	{"grip_iss", &type_text, LIVE, AT(grip.issuer), .fallback = "sluice",
		.help = "Issuer that Grip-Sig names."},
	{"pid_file", &type_path, AT_START, AT(pid_file), .flags = OPTION_WRITTEN,
		.help = "File that holds the process id while sluice runs."},
	{"user", &type_user, AT_START, AT(user),
		.help = "User to change to when the sockets are open; needs a start as root. Log files are "
			"given to it; what a reload reads must be readable for it."},
};
const size_t options_sluice_count = COUNT(options_sluice);
OPTIONS_FIT(options_sluice);

const struct option options_admin[] = {
	{"bind", &type_admin_binds, AT_START, AT(admin), .flags = OPTION_REQUIRED | OPTION_REPEATABLE,
		.help = "Addresses of the operator's interface, several by commas; without a token, "
			"any process that can connect can operate."},
	{"token", &type_secret_file, AT_START, AT(admin.token_path),
		.help = "File of the bearer tokens that requests need; required when an address is "
			"not loopback or a unix socket."},
	{"dashboard", &type_flag, LIVE, AT(admin.dashboard), .fallback = "on",
		.help = "Whether the root has a page for browsers, which shows what happens."},
};
const size_t options_admin_count = COUNT(options_admin);
OPTIONS_FIT(options_admin);

#undef AT
#define AT(field) .offset = offsetof(struct conf_listener, field)
const struct option options_listener[] = {
	{"bind", &type_binds, LIVE, AT(binds), .flags = OPTION_REQUIRED | OPTION_REPEATABLE,
		.help = "Addresses to listen on; systemd:NAME is a socket that systemd passes."},
	{"trusted_proxies", &type_networks, LIVE, AT(trusted_proxies), .flags = OPTION_REPEATABLE,
		.help = "Networks whose X-Forwarded-For and Forwarded are believed, read right to "
			"left."},
	{"health", &type_flag, LIVE, AT(health), .fallback = "off",
		.help = "Whether a GET or HEAD of /healthz and /readyz is answered here and not forwarded: "
			"200, or 503 for /readyz from SIGTERM or an upgrade on."},
	{"trust_priority", &type_flag, LIVE, AT(trust_priority), .fallback = "off",
		.help = "Whether the urgency in a client's Priority field (RFC 9218) chooses its lane, "
			"as far as its plan allows."},
	{"v6only", &type_flag, AT_START, AT(v6only), .fallback = "on",
		.help = "Whether sockets on IPv6 addresses take IPv6 clients only."},
	{"backlog", &type_count32, LIVE, AT(backlog), .fallback = "1024", BETWEEN(1, 65535),
		.help = "Connections that the system keeps for each socket until they are accepted."},
	{"max_connections", &type_count32, LIVE, AT(max_connections), .fallback = "0",
		BETWEEN(0, 10 * MILLION),
		.help = "Open connections over all workers, 0 for no bound. For a further one, the "
			"connection that has been idle longest is closed, of an address that has many "
			"first; where none has been idle for 100ms, it waits in the backlog."},
	{"pipeline_depth", &type_count32, LIVE, AT(pipeline_depth), .fallback = "16", BETWEEN(1, 1000),
		.help = "Requests of one connection that are read before the first of them is "
			"answered. Each takes its turn at once, but is sent to a server only when "
			"those before it on the connection are answered."},
	{"header_timeout", &type_duration, LIVE, AT(header_timeout_ms), .fallback = "10s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.help = "Time from a request's first byte to the end of its head."},
	{"idle_timeout", &type_duration, LIVE, AT(idle_timeout_ms), .fallback = "75s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time that a connection is kept open between requests, from when its client "
			"has taken the response before. One that takes nothing of that has "
			"send_timeout."},
	{"body_timeout", &type_duration, LIVE, AT(body_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time between two reads of a request's body."},
	{"send_timeout", &type_duration, LIVE, AT(send_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time for which a client may read nothing of its response."},
	{"linger_timeout", &type_duration, LIVE, AT(linger_timeout_ms), .fallback = "30s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.help = "Time for which the rest of a refused upload is read and discarded at most, so "
			"that its client gets the answer; a client that is silent for 5s is cut."},
	{"linger_size", &type_size64, LIVE, AT(linger_bytes), .fallback = "1G",
		BETWEEN(1 << 10, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes that are discarded so at most."},
	{"max_lingering", &type_count32, LIVE, AT(max_lingering), .fallback = "1000",
		BETWEEN(0, 10 * MILLION),
		.help = "Connections of each address that discard so at once, over all workers; the "
			"oldest give way, also to clients that wait for max_connections or for "
			"descriptors. 0 closes at once, which may cost clients their answer."},
	{"max_header_size", &type_size32, LIVE, AT(max_header_bytes), .fallback = "16k",
		BETWEEN(256, 1 << 20), .flags = OPTION_SIZE,
		.help = "Bytes in a request's head; beyond it 431 is answered."},
	{"max_uri_size", &type_size32, LIVE, AT(max_uri_bytes), .fallback = "8k",
		BETWEEN(64, 1 << 20), .flags = OPTION_SIZE,
		.help = "Bytes in a request's target; beyond it 414 is answered."},
	{"max_headers", &type_count32, LIVE, AT(max_fields), .fallback = "100", BETWEEN(1, 10000),
		.help = "Field lines in a request's head; beyond it 431 is answered."},
	{"response_header_set", &type_field, LIVE, AT(response_set), .flags = OPTION_REPEATABLE,
		.help = "A field set on all responses, also on those that no route answers, in "
			"place of any of that name; a route may set another."},
	{"response_header_remove", &type_field_names, LIVE, AT(response_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields removed from all responses."},
	{"lookalike_fields", &type_choice, LIVE, AT(passes_lookalikes), .fallback = "drop",
		.words = lookalike_fields,
		.help = "Whether request fields are dropped that a server may take for one that "
			"sluice sets or reads, as X_Api_Key for X-Api-Key."},
	{"ratelimit_headers", &type_word, LIVE, AT(ratelimit_headers), .fallback = "draft-11",
		.words = listener_ratelimit_headers,
		.help = "Which rate-limit fields responses carry."},
};
const size_t options_listener_count = COUNT(options_listener);
OPTIONS_FIT(options_listener);
