/* Rows of [sluice], [admin] and [listener]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MS(n)       (n)
#define SECONDS(n)  (1000ULL * (n))
#define HOURS(n)    (3600000ULL * (n))
#define DAYS(n)     (86400000ULL * (n))
#define MILLION     1000000ULL

#define AT(field)          OPTION_AT(struct conf, field)
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define AT_START           .reload = RELOAD_START
#define NEEDS(key, value)  .needs = {key, value, NULL, NULL, false}

static const struct option_word log_levels[] = {{"error", LOG_LEVEL_ERROR},
	{"warn", LOG_LEVEL_WARN}, {"info", LOG_LEVEL_INFO}, {"debug", LOG_LEVEL_DEBUG}, {NULL, 0}};

static const struct option_word access_formats[] = {
	{"combined", CONF_ACCESS_COMBINED}, {"json", CONF_ACCESS_JSON}, {NULL, 0}};

static const struct option_word traceparent_modes[] = {{"pass", CONF_TRACEPARENT_PASS},
	{"begin", CONF_TRACEPARENT_BEGIN}, {"off", CONF_TRACEPARENT_OFF}, {NULL, 0}};

static const struct option_word lookalike_fields[] = {{"drop", false}, {"pass", true}, {NULL, 0}};

const struct option_word option_tls_versions[] = {
	{"1.2", CONF_TLS_1_2}, {"1.3", CONF_TLS_1_3}, {NULL, 0}};

static const struct option_word unknown_names[] = {{"first", false}, {"refuse", true}, {NULL, 0}};

static const struct option_word protocols[] = {
	{"h2", CONF_PROTOCOL_HTTP2}, {"http/1.1", CONF_PROTOCOL_HTTP1}, {NULL, 0}};

static const struct option_word proxy_protocols[] = {{"off", CONF_PROXY_PROTOCOL_OFF},
	{"on", CONF_PROXY_PROTOCOL_ON}, {"required", CONF_PROXY_PROTOCOL_REQUIRED}, {NULL, 0}};

static const struct option_word verify_words[] = {{"none", CONF_VERIFY_NONE},
	{"optional", CONF_VERIFY_OPTIONAL}, {"required", CONF_VERIFY_REQUIRED}, {NULL, 0}};

static const struct option_word listener_ratelimit_headers[] = {
	{"draft-11", CONF_RATELIMIT_DRAFT_11}, {"draft-7", CONF_RATELIMIT_DRAFT_7},
	{"x-ratelimit", CONF_RATELIMIT_X}, {"x-ratelimit-unix", CONF_RATELIMIT_X_UNIX},
	{"off", CONF_RATELIMIT_OFF}, {NULL, 0}};

/* clang-format off */
const struct option options_sluice[] = {
	{"include", &type_include, LIVE, AT(includes), .flags = OPTION_REPEATABLE,
		.help = "Pattern of files whose sections are added to the configuration; may also "
			"precede all sections."},
	{"workers", &type_workers, AT_START, AT(workers), .fallback = "auto", BETWEEN(1, 256),
		.help = "Number of worker threads; auto is one for each processor that the CPU "
			"affinity and the CPU quota of the control groups allow."},
	{"state", &type_path, AT_START, AT(state),
		.help = "Folder in which the state of the limits survives a restart; unset, the "
			"state is kept in memory only."},
	{"state_required", &type_flag, AT_START, AT(state_required), .fallback = "off",
		NEEDS("state", "FOLDER"),
		.help = "Whether to refuse to start when the state folder can't be used, instead "
			"of counting in memory only."},
	{"usage", &type_duration, AT_START, AT(usage.interval_ms), .fallback = "0", BETWEEN(0, HOURS(1)),
		.flags = OPTION_DURATION,
		.help = "Interval at which the use of each limit by each caller is written to the "
			"state folder, for invoices; 0 records nothing. A crash loses the counts "
			"since the last write."},
	{"usage_size", &type_size64, AT_START, AT(usage.bytes), .fallback = "1G",
		BETWEEN(1ULL << 20, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Maximum size of all usage files together; beyond it the oldest hours are "
			"removed, and when a single hour reaches it, that hour continues with one "
			"row per limit for all callers."},
	{"callers", &type_count64, LIVE, AT(totals.callers), .fallback = "1M", BETWEEN(1000, 1000 * MILLION),
		.help = "Maximum number of callers remembered for each limit; memory is allocated "
			"as they arrive."},
	{"sessions", &type_count64, AT_START, AT(totals.sessions), .fallback = "1M", BETWEEN(100, 1000 * MILLION),
		.help = "Maximum number of sessions, including idle ones."},
	{"queue_total", &type_count64, AT_START, AT(totals.queue), .fallback = "100k",
		BETWEEN(1, 100 * MILLION),
		.help = "Maximum number of waiting requests over all sessions; further ones are "
			"answered 503."},
	{"queue_total_bytes", &type_size64, AT_START, AT(totals.queue_bytes), .fallback = "512M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum memory of these requests, with their heads and the first block "
			"of a body, 0 for no bound; further ones are answered 503."},
	{"socket_queue_total_bytes", &type_size64, LIVE, AT(totals.socket_queue_bytes), .fallback = "256M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum memory of messages that wait for the clients of all WebSockets, "
			"0 for no bound; a message that waits on several sockets counts once, and "
			"messages beyond the bound are refused."},
	{"socket_gather_total_bytes", &type_size64, LIVE, AT(totals.socket_gather_bytes), .fallback = "256M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum memory of messages of the clients of all WebSockets until they "
			"are complete and passed on, 0 for no bound; a socket that needs more than "
			"4 kB beyond it is closed with 1013."},
	{"channels", &type_count64, LIVE, AT(totals.channels), .fallback = "1M", BETWEEN(1, 1000 * MILLION),
		.help = "Maximum number of channels to which WebSockets are subscribed; "
			"subscriptions to further ones are refused."},
	{"lame_duck", &type_duration, LIVE, AT(lame_duck_ms), .fallback = "0",
		BETWEEN(0, HOURS(1)), .flags = OPTION_DURATION,
		.help = "Time for which sluice continues to serve before it drains, while /readyz "
			"answers 503: after SIGTERM, or, on existing connections, after an "
			"upgrade."},
	{"shutdown_timeout", &type_duration, LIVE, AT(shutdown_timeout_ms), .fallback = "30s",
		BETWEEN(0, DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time for requests in progress to finish in a drain, after "
			"SIGTERM or an upgrade."},
	{"buffer_size", &type_size32, AT_START, AT(buffer_bytes), .fallback = "80k",
		BETWEEN(4 << 10, 4 << 20), .flags = OPTION_SIZE,
		.help = "Bytes read from a connection at once, and buffered of a body in each "
			"direction."},
	{"buffering_memory", &type_size64, LIVE, AT(body_store.memory_bytes), .fallback = "64M",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum memory in which request_buffering and response_buffering keep "
			"all bodies together; beyond it bodies are kept in files. Responses to "
			"gateways have as much of their own, at least 16M."},
	{"buffering_disk", &type_size64, LIVE, AT(body_store.disk_bytes), .fallback = "1G",
		BETWEEN(0, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Maximum size of all files in which bodies are kept, 0 for no files. When "
			"there is no room, bodies pass at the pace of the slower side."},
	{"buffering_folder", &type_path, AT_START, AT(body_store.folder), .fallback = "/var/tmp",
		.help = "Folder of these files, which never have a name in it."},
	{"log_level", &type_word, LIVE, AT(logs.level), .fallback = "info", .words = log_levels,
		.help = "Lowest severity of lines written to the error log."},
	{"error_log", &type_log_target, LIVE, AT(logs.error), .fallback = "stderr",
		.help = "Destination of the error log."},
	{"access_log", &type_log_target, LIVE, AT(logs.access), .fallback = "stdout",
		.help = "Destination of the access log, which has one line per request."},
	{"access_log_format", &type_word, LIVE, AT(logs.access_format), .fallback = "combined",
		.words = access_formats,
		.help = "Format of access log lines: the combined format or JSON objects."},
	{"request_id", &type_token_or_off, LIVE, AT(request_id_field), .fallback = "X-Request-Id",
		.help = "Field from which a request's id is taken; sluice generates a missing id, "
			"and passes the id on in this field."},
	{"traceparent", &type_word, LIVE, AT(hop.traceparent), .fallback = "pass",
		.words = traceparent_modes,
		.help = "Whether a valid traceparent (W3C Trace Context) is only passed on "
			"(pass), or a trace is also begun, sampled, for requests without one "
			"(begin); invalid ones are dropped with tracestate. With off, sluice "
			"ignores both fields."},
	{"via", &type_token_or_off, LIVE, AT(hop.via), .fallback = "off",
		.help = "Name under which sluice adds itself to Via, or off; some servers do not "
			"compress responses to requests from a proxy."},
	{"forwarded", &type_flag, LIVE, AT(hop.forwarded), .fallback = "off",
		.help = "Whether Forwarded (RFC 7239) is sent to servers in addition to "
			"X-Forwarded-For; a client's own is never passed on. Some frameworks take "
			"it for a mistake where they read X-Forwarded-For."},
	{"grip_key", &type_secret, LIVE, AT(grip.key),
		.help = "Secret that signs Grip-Sig, and with which publishers sign; after "
			"base64: it is decoded to bytes."},
	{"grip_iss", &type_text, LIVE, AT(grip.issuer), .fallback = "sluice",
		.help = "Issuer named in Grip-Sig."},
	{"pid_file", &type_path, AT_START, AT(pid_file), .flags = OPTION_WRITTEN,
		.help = "File that contains the process id while sluice runs."},
	{"user", &type_user, AT_START, AT(user),
		.help = "User to run as after the sockets have been opened; requires a start as "
			"root. This user becomes the owner of log files, and must be able to read "
			"all files that a reload reads."},
};
const size_t options_sluice_count = COUNT(options_sluice);
OPTIONS_FIT(options_sluice);

const struct option options_admin[] = {
	{"bind", &type_admin_binds, AT_START, AT(admin), .flags = OPTION_REQUIRED | OPTION_REPEATABLE,
		.help = "Addresses of the admin interface, separated by commas; without a token, "
			"any process that can connect can operate sluice."},
	{"token", &type_secret_file, AT_START, AT(admin.token_path),
		.help = "File of the bearer tokens that requests need; required unless all "
			"addresses are loopback or unix sockets."},
	{"certificate", &type_path, AT_START, AT(admin.certificate),
		.help = "PEM file of a certificate with its chain behind it: all addresses but unix "
			"sockets speak https then. It is read again when it changes, and by a reload."},
	{"certificate_key", &type_path, AT_START, AT(admin.certificate_key),
		NEEDS("certificate", "FILE"),
		.help = "PEM file of the certificate's private key, unless it is in the certificate's "
			"file."},
	{"dashboard", &type_flag, LIVE, AT(admin.dashboard), .fallback = "on",
		.help = "Whether the root path serves a dashboard for browsers."},
};
const size_t options_admin_count = COUNT(options_admin);
OPTIONS_FIT(options_admin);

#undef AT
#define AT(field) OPTION_AT(struct conf_listener, field)
const struct option options_listener[] = {
	{"bind", &type_binds, LIVE, AT(binds), .flags = OPTION_REQUIRED | OPTION_REPEATABLE,
		.help = "Addresses to listen on; systemd:NAME is a socket passed by systemd."},
	{"certificate", &type_paths, LIVE, AT(tls.certificates), .flags = OPTION_REPEATABLE | OPTION_TLS,
		.help = "PEM file of a certificate with its chain behind it, for TLS. With several, "
			"the name that a client asks for (SNI) selects one, exact names before "
			"wildcards; the first is for all other clients. The files are read again "
			"when they change, and by a reload."},
	{"certificate_key", &type_paths, LIVE, AT(tls.certificate_keys), .flags = OPTION_REPEATABLE | OPTION_TLS,
		NEEDS("certificate", "FILE"),
		.help = "PEM file of a certificate's private key, one for each certificate and in "
			"their order; without any, the keys are in the certificates' files."},
	{"certificate_password", &type_secret_line, LIVE, AT(tls.password),
		.flags = OPTION_TLS, NEEDS("certificate", "FILE"),
		.help = "Password of encrypted private keys."},
	{"tls_versions", &type_words, LIVE, AT(tls.versions), .fallback = "1.2, 1.3",
		.words = option_tls_versions, .flags = OPTION_REPEATABLE | OPTION_TLS,
		NEEDS("certificate", "FILE"),
		.help = "Versions of TLS that clients may use."},
	{"tls_ciphers", &type_text, LIVE, AT(tls.ciphers), .flags = OPTION_TLS,
		NEEDS("certificate", "FILE"),
		.help = "Ciphers for clients, by OpenSSL's names and separated by colons; names "
			"that begin with TLS_ are those of TLS 1.3. Without it, those of Mozilla's "
			"intermediate configuration."},
	{"tls_groups", &type_text, LIVE, AT(tls.groups), .flags = OPTION_TLS,
		NEEDS("certificate", "FILE"),
		.help = "Groups of key exchange, by OpenSSL's names and separated by colons, the "
			"preferred first. Without it X25519MLKEM768 (hybrid, from OpenSSL 3.5 on), "
			"X25519, P-256 and P-384."},
	{"unknown_names", &type_choice, LIVE, AT(tls.refuses_unknown_names), .fallback = "first",
		.words = unknown_names, .flags = OPTION_TLS, NEEDS("certificate", "FILE"),
		.help = "Whether clients that ask for a name which no certificate has, or for none, "
			"get the first certificate, or the alert unrecognized_name (refuse)."},
	{"client_ca", &type_path, LIVE, AT(tls.client_ca), .flags = OPTION_TLS,
		NEEDS("certificate", "FILE"),
		.help = "PEM file of authorities whose certificates clients present. Servers get a "
			"client's certificate in Client-Cert (RFC 9440), and a client's own fields "
			"of that name are dropped."},
	{"verify", &type_word, LIVE, AT(tls.verify), .fallback = "required", .words = verify_words,
		.flags = OPTION_TLS, NEEDS("client_ca", "FILE"),
		.help = "Whether clients need a certificate (required), may have one (optional), or "
			"are not asked for it (none). One that cannot be verified ends the "
			"handshake."},
	{"client_crl", &type_path, LIVE, AT(tls.client_crl), .flags = OPTION_TLS,
		NEEDS("client_ca", "FILE"),
		.help = "PEM file of revocation lists, one of each authority in the chain of a "
			"client's certificate; without the list of an authority, or with one that "
			"is out of date, its certificates are refused."},
	{"handshake_timeout", &type_duration, LIVE, AT(handshake_timeout_ms), .fallback = "10s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.needs = {"certificate", "FILE", NULL, "proxy_protocol", false},
		.help = "Longest time from accepting a connection to the end of its PROXY header "
			"and its TLS handshake."},
	{"max_handshakes", &type_count32, LIVE, AT(max_handshakes), .fallback = "1000",
		BETWEEN(1, 10 * MILLION),
		.needs = {"certificate", "FILE", NULL, "proxy_protocol", false},
		.help = "Maximum number of connections to each address of the listener that are "
			"before the end of their PROXY header or TLS handshake, over all workers; "
			"the oldest is closed for a newer one."},
	{"acme_challenge", &type_path, LIVE, AT(acme_challenge),
		.help = "Folder in which an ACME client (certbot, uacme) puts its answers: a GET of "
			"/.well-known/acme-challenge/NAME gets the file NAME in it, before routes and "
			"limits."},
	{"redirect", &type_redirect, LIVE, AT(redirect_port), .fallback = "off",
		.help = "With https or https:PORT, each request that came without TLS is answered "
			"308 with the same URL under https. Probes of health are still answered, "
			"and requests that a trusted proxy reports as https are served."},
	{"hsts", &type_hsts, LIVE, AT(hsts),
		NEEDS("certificate", "FILE"),
		.help = "Time for which browsers use TLS only (Strict-Transport-Security), with "
			"includeSubDomains and preload behind it if wanted: 365d "
			"includeSubDomains. It is set on all responses of a listener with a "
			"certificate; 0s makes browsers forget it."},
	{"trusted_proxies", &type_networks, LIVE, AT(trusted_proxies), .flags = OPTION_REPEATABLE,
		.help = "Networks whose X-Forwarded-For and Forwarded are trusted, read from "
			"right to left."},
	{"proxy_protocol", &type_word, LIVE, AT(proxy_protocol), .fallback = "off",
		.words = proxy_protocols,
		.needs = {"trusted_proxies", "NETWORKS", NULL, NULL, true},
		.help = "Whether connections from trusted_proxies may begin with a header of the "
			"PROXY protocol, version 1 or 2 (on), or all connections must "
			"(required). The client's address in it takes the place of the proxy's "
			"everywhere. A header from any other peer ends its connection."},
	{"health", &type_flag, LIVE, AT(health), .fallback = "off",
		.help = "Whether a GET or HEAD of /healthz and /readyz is answered here and not "
			"forwarded: 200, or 503 for /readyz while a listener cannot accept "
			"connections, after SIGTERM or the start of an "
			"upgrade."},
	{"trust_priority", &type_flag, LIVE, AT(trust_priority), .fallback = "off",
		.help = "Whether the urgency in a client's Priority field (RFC 9218) selects its "
			"lane, as far as its plan allows."},
	{"v6only", &type_flag, AT_START, AT(v6only), .fallback = "on",
		.help = "Whether sockets on IPv6 addresses accept IPv6 clients only."},
	{"backlog", &type_count32, LIVE, AT(backlog), .fallback = "1024", BETWEEN(1, 65535),
		.help = "Connections that the kernel queues for each socket until they are "
			"accepted."},
	{"limits", &type_references, LIVE, AT(limits), .flags = OPTION_REPEATABLE,
		.help = "Limits of connections ([limit] with unit = connections), judged before "
			"TLS when a connection has come, or when its PROXY header has. One over a "
			"limit is refused."},
	{"max_connections", &type_in_flight, LIVE, AT(max_connections), .fallback = "auto",
		BETWEEN(0, 10 * MILLION),
		.help = "Maximum number of open connections over all workers, 0 for no bound; auto "
			"is as many as the file descriptors allow for clients, nine tenths of these "
			"where there are several listeners. For a new connection beyond it, the connection that has been idle longest is "
			"closed, preferably of an address that has many; while none has been idle "
			"for 100ms, the new one waits in the backlog."},
	{"pipeline_depth", &type_count32, LIVE, AT(pipeline_depth), .fallback = "16", BETWEEN(1, 1000),
		.help = "Maximum number of requests of one connection that are read before the "
			"first of them is answered. Each takes its place in the order at once, "
			"but is sent to a server only when the earlier ones on the connection "
			"have been answered."},
	{"protocols", &type_words, LIVE, AT(protocols), .fallback = "http/1.1",
		.words = protocols, .flags = OPTION_REPEATABLE | OPTION_TLS,
		.help = "Versions of HTTP that clients may speak: h2, http/1.1. With TLS, a client "
			"that offers both gets h2 (ALPN); without, a connection that begins with "
			"the preface of HTTP/2 speaks it (prior knowledge). Upgrade to h2c is "
			"never accepted."},
	{"max_streams", &type_count32, LIVE, AT(max_streams), .fallback = "100", BETWEEN(1, 10000),
		NEEDS("protocols", "h2"),
		.help = "Maximum number of streams of one HTTP/2 connection that are open at "
			"once; each is a request."},
	{"header_timeout", &type_duration, LIVE, AT(header_timeout_ms), .fallback = "10s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.help = "Longest time from a request's first byte to the end of its head."},
	{"idle_timeout", &type_duration, LIVE, AT(idle_timeout_ms), .fallback = "75s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time that a connection is kept open between requests, from when "
			"its client has received the previous response. For a client that does "
			"not receive it, send_timeout applies."},
	{"body_timeout", &type_duration, LIVE, AT(body_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time between two reads of a request's body."},
	{"send_timeout", &type_duration, LIVE, AT(send_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time for which a client may stall while it reads its response."},
	{"linger_timeout", &type_duration, LIVE, AT(linger_timeout_ms), .fallback = "30s",
		BETWEEN(MS(10), HOURS(1)), .flags = OPTION_DURATION,
		.help = "Longest time for which the rest of a refused upload or WebSocket message "
			"is read and discarded, so that its client gets the response or the close "
			"code; a client that sends nothing for 5s (close_timeout) is cut."},
	{"linger_size", &type_size64, LIVE, AT(linger_bytes), .fallback = "1G",
		BETWEEN(1 << 10, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum number of bytes discarded in this way."},
	{"max_lingering", &type_count32, LIVE, AT(max_lingering), .fallback = "1000",
		BETWEEN(0, 10 * MILLION),
		.help = "Maximum number of connections of each address whose uploads are being "
			"discarded, over all workers; the oldest are closed first, also for "
			"clients that wait for max_connections or for descriptors. 0 closes at "
			"once, and clients may miss their response."},
	{"max_header_size", &type_size32, LIVE, AT(max_header_bytes), .fallback = "16k",
		BETWEEN(256, 1 << 20), .flags = OPTION_SIZE,
		.help = "Maximum size of a request's head; a larger one is answered 431."},
	{"max_uri_size", &type_size32, LIVE, AT(max_uri_bytes), .fallback = "8k",
		BETWEEN(64, 1 << 20), .flags = OPTION_SIZE,
		.help = "Maximum size of a request's target; a larger one is answered 414."},
	{"max_headers", &type_count32, LIVE, AT(max_fields), .fallback = "100", BETWEEN(1, 10000),
		.help = "Maximum number of field lines in a request's head; more are answered "
			"431."},
	{"response_header_set", &type_field, LIVE, AT(response_set), .flags = OPTION_REPEATABLE,
		.help = "Field to set on all responses, including those that no route serves, in "
			"place of fields of that name; a route may set another value."},
	{"response_header_remove", &type_field_names, LIVE, AT(response_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields to remove from all responses."},
	{"lookalike_fields", &type_choice, LIVE, AT(passes_lookalikes), .fallback = "drop",
		.words = lookalike_fields,
		.help = "Whether to drop request fields that a server may mistake for a field "
			"that sluice sets or reads, as X_Api_Key for X-Api-Key."},
	{"ratelimit_headers", &type_word, LIVE, AT(ratelimit_headers), .fallback = "draft-11",
		.words = listener_ratelimit_headers,
		.help = "Rate-limit fields in responses."},
};
const size_t options_listener_count = COUNT(options_listener);
OPTIONS_FIT(options_listener);
