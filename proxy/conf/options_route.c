/* Rows of [route]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows)        (sizeof(rows) / sizeof((rows)[0]))
#define MS(n)              (n)
#define DAYS(n)            (86400000ULL * (n))
#define MILLION            1000000ULL
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define SOCKETS            .reload = RELOAD_SOCKETS

static const struct option_word orderings[] = {{"auto", CONF_ORDERING_AUTO},
	{"writes", CONF_ORDERING_WRITES}, {"strict", CONF_ORDERING_STRICT},
	{"none", CONF_ORDERING_NONE}, {NULL, 0}};

static const struct option_word lanes[] = {
	{"normal", CONF_LANE_NORMAL}, {"high", CONF_LANE_HIGH}, {NULL, 0}};

static const struct option_word forward_paths[] = {
	{"received", false}, {"normal", true}, {NULL, 0}};

static const struct option_word ambiguous_paths[] = {{"refuse", false}, {"allow", true}, {NULL, 0}};

static const struct option_word affinities[] = {{"none", false}, {"session", true}, {NULL, 0}};

static const struct option_word scopes[] = {{"node", false}, {"fleet", true}, {NULL, 0}};

static const struct option_word elsewheres[] = {{"forward", false}, {"refuse", true}, {NULL, 0}};

static const struct option_word unknowns[] = {{"inherit", CONF_UNKNOWN_INHERIT},
	{"default", CONF_UNKNOWN_DEFAULT}, {"refuse", CONF_UNKNOWN_REFUSE}, {NULL, 0}};

static const struct option_word ratelimit_headers[] = {{"inherit", CONF_RATELIMIT_INHERIT},
	{"draft-11", CONF_RATELIMIT_DRAFT_11}, {"draft-7", CONF_RATELIMIT_DRAFT_7},
	{"x-ratelimit", CONF_RATELIMIT_X}, {"x-ratelimit-unix", CONF_RATELIMIT_X_UNIX},
	{"off", CONF_RATELIMIT_OFF}, {NULL, 0}};

static const struct option_word websocket_modes[] = {{"tunnel", CONF_WEBSOCKET_TUNNEL},
	{"messages", CONF_WEBSOCKET_MESSAGES}, {"gateway", CONF_WEBSOCKET_GATEWAY}, {NULL, 0}};

static const struct option_word queue_full_actions[] = {
	{"close", CONF_QUEUE_FULL_CLOSE}, {"drop", CONF_QUEUE_FULL_DROP}, {NULL, 0}};

#define AT(field) .offset = offsetof(struct conf_route, field)
/* clang-format off */
const struct option options_route[] = {
	{"host", &type_hosts, LIVE, AT(hosts), .flags = OPTION_REPEATABLE,
		.help = "Hosts that the route is for; unset, any."},
	{"path", &type_path_match, LIVE, AT(path), .fallback = "/",
		.help = "Paths that the route is for: those under a prefix, exactly one, or those that "
			"a regular expression finds."},
	{"method", &type_methods, LIVE, AT(methods), .flags = OPTION_REPEATABLE,
		.help = "Methods that the route is for, HEAD with GET; unset, any but TRACE."},
	{"upstream", &type_reference, LIVE, AT(upstream), .flags = OPTION_REQUIRED,
		.help = "The upstream that the requests are forwarded to."},
	{"limits", &type_references, LIVE, AT(limits), .flags = OPTION_REPEATABLE,
		.help = "Limits that a request must pass, all of them; plan stands for those of the "
			"caller's plan."},
	{"session", &type_key, LIVE, AT(sessions.key),
		.help = "Whose requests stay in order; unset, the key of the first limit, else of the "
			"plans, else ip."},
	{"ordering", &type_word, LIVE, AT(sessions.ordering), .fallback = "auto", .words = orderings,
		.help = "What waits for what in a session; auto is writes where the session's key found "
			"a header field, cookie or query parameter, and none where it is an address."},
	{"read_hold", &type_duration, LIVE, AT(sessions.read_hold_ms), .fallback = "1s", BETWEEN(MS(0), DAYS(1)),
		.flags = OPTION_DURATION,
		.help = "Longest time that a safe request whose response has not begun holds a later "
			"write of its session back, with ordering = writes."},
	{"session_in_flight", &type_count32, LIVE, AT(sessions.in_flight), .fallback = "0",
		BETWEEN(0, 1 * MILLION),
		.help = "Requests of one session on their way at once, 0 for no bound."},
	{"queue_depth", &type_count32, LIVE, AT(sessions.queue_depth), .fallback = "1000",
		BETWEEN(0, 10 * MILLION),
		.help = "Requests waiting in one session; beyond it 503 is answered."},
	{"queue_bytes", &type_size64, LIVE, AT(sessions.queue_bytes), .fallback = "0",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Bytes of memory that these hold, with their heads and the first block of a "
			"body, 0 for no bound; beyond it 503 is answered."},
	{"queue_timeout", &type_duration, LIVE, AT(sessions.queue_timeout_ms), .fallback = "30s",
		BETWEEN(MS(1), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time that a request may wait; 503 is answered after it."},
	{"high_burst", &type_count32, LIVE, AT(sessions.high_burst), .fallback = "16", BETWEEN(1, 1 * MILLION),
		.help = "High requests that may pass a waiting normal one of their session, or of "
			"another session at a busy upstream."},
	{"lane", &type_word, LIVE, AT(sessions.lane), .fallback = "normal", .words = lanes,
		.help = "The lane of the route's requests."},
	{"session_idle_timeout", &type_duration, LIVE, AT(sessions.idle_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(30)), .flags = OPTION_DURATION,
		.help = "Time from the end of a session's last request until what it remembers is "
			"forgotten: a connection of its own, how fast it goes."},
	{"session_scope", &type_choice, LIVE, AT(sessions.of_fleet), .fallback = "node", .words = scopes,
		.help = "Whether each node keeps the order of a session's requests by itself, or one node of "
			"the fleet at a time owns the session, and orders all of them."},
	{"session_elsewhere", &type_choice, LIVE, AT(sessions.refuses_elsewhere), .fallback = "forward",
		.words = elsewheres,
		.help = "With session_scope = fleet, whether a request of a session that another node owns is "
			"forwarded to that, or answered 409."},
	{"owner_idle", &type_duration, LIVE, AT(sessions.owner_idle_ms), .fallback = "1s",
		BETWEEN(MS(100), DAYS(1)), .flags = OPTION_DURATION,
		.help = "With session_scope = fleet, time from the end of a session's last request until "
			"another node may own it."},
	{"upstream_affinity", &type_choice, LIVE, AT(sessions.affinity), .fallback = "none",
		.words = affinities,
		.help = "Whether a session keeps a connection to a server to itself, for servers whose "
			"login lives in the connection."},
	{"max_body_size", &type_size64, LIVE, AT(max_body_bytes), .fallback = "0",
		BETWEEN(0, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Bytes in a request's body, 0 for no bound; beyond it 413 is answered."},
	{"request_buffering", &type_buffering, LIVE, AT(request_buffering),
		.fallback = "64k file 16M",
		.help = "What is kept of a request's body before the request takes a place at its "
			"upstream, in memory and then in a file; of a longer body the rest is sent on "
			"as it comes."},
	{"response_buffering", &type_buffering, LIVE, AT(response_buffering),
		.fallback = "32k file 64M",
		.help = "What is kept of a response that its client takes too slowly, so that the server "
			"and its place are free earlier."},
	{"min_rate", &type_size64, LIVE, AT(min_rate), .fallback = "0", BETWEEN(0, 1ULL << 30),
		.flags = OPTION_SIZE,
		.help = "Bytes a second that a client must send of a request's body, and take of a "
			"response that is there for it; 0 for none. Slower ones are cut."},
	{"min_rate_grace", &type_duration, LIVE, AT(min_rate_grace_ms), .fallback = "10s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "How long a client may make us wait for a body beyond what min_rate "
			"allows."},
	{"cost", &type_cost, LIVE, AT(cost), .fallback = "1", BETWEEN(1, 1 * MILLION),
		.help = "What a request is charged; response:FIELD is settled from that field of the "
			"response."},
	{"refund", &type_statuses, LIVE, AT(refund), .flags = OPTION_REPEATABLE,
		.help = "Statuses of the server's that give the charge back."},
	{"upgrade", &type_upgrades, LIVE, AT(upgrades), .fallback = "websocket",
		.help = "Protocols that a connection may be upgraded to; requests for others are "
			"served without, and off is for none."},
	{"websocket", &type_websocket, SOCKETS, AT(websocket.mode), .fallback = "tunnel",
		.words = websocket_modes,
		.help = "Whether a WebSocket is a tunnel of bytes after its handshake, or sluice reads "
			"its messages and limits, orders and counts each as a request of its client; "
			"gateway: the server speaks HTTP, and gets what the client sends in POST "
			"requests of the WebSocket-over-HTTP protocol."},
	{"message_limits", &type_message_limits, LIVE, AT(websocket.limits),
		.flags = OPTION_REPEATABLE,
		.help = "Limits that a client's message must pass, all of them; plan stands for those of "
			"the caller's plan, and a limit that limits names too is one budget for both."},
	{"on_message_exceed", &type_message_exceed, LIVE, AT(websocket.on_exceed), .fallback = "delay",
		.help = "What becomes of a message over a limit: it waits and its client is not read, "
			"with a DURATION at most that long from its turn in its session; or it is "
			"dropped; or the socket is closed "
			"with 1008."},
	{"message_notice", &type_text, SOCKETS, AT(websocket.notice),
		.help = "Text message that a client gets for each message of its that was dropped; unset, "
			"none."},
	{"max_message_size", &type_size64, SOCKETS, AT(websocket.max_message_bytes), .fallback = "1M",
		BETWEEN(1, 1ULL << 30), .flags = OPTION_SIZE,
		.help = "Bytes of a client's message, as they are sent; beyond it the socket is closed "
			"with 1009."},
	{"message_timeout", &type_duration, SOCKETS, AT(websocket.message_timeout_ms), .fallback = "30s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time from the first byte of a client's message to its last, and in which the "
			"server must take a message."},
	{"max_sockets", &type_reference, LIVE, AT(websocket.max_sockets),
		.help = "The limit, with a concurrency, that bounds the WebSockets of a caller; it is "
			"asked together with limits."},
	{"websocket_origin", &type_origins, LIVE, AT(websocket.origins), .flags = OPTION_REPEATABLE,
		.help = "Origins that a browser's handshake may come from; others get 403. Unset, any; "
			"clients that send none are let in."},
	{"websocket_protocols", &type_tokens, LIVE, AT(websocket.protocols),
		.flags = OPTION_REPEATABLE,
		.help = "Subprotocols that a client may ask for; the server gets the others never, and a "
			"client that asks for others only gets 403. Unset, any."},
	{"ping_interval", &type_duration, SOCKETS, AT(websocket.ping_interval_ms), .fallback = "30s",
		BETWEEN(MS(0), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time without a byte of the client after which it is sent a ping, 0 for never. A "
			"ping waits for the end of a message of the server that has begun, for up to "
			"ping_timeout."},
	{"ping_timeout", &type_duration, SOCKETS, AT(websocket.ping_timeout_ms), .fallback = "10s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time in which a client must answer a ping; then the socket is cut."},
	{"socket_idle_timeout", &type_duration, SOCKETS, AT(websocket.idle_timeout_ms), .fallback = "1h",
		BETWEEN(MS(0), DAYS(30)), .flags = OPTION_DURATION,
		.help = "Time without a byte of a message either way, and without one that waits, after which a "
			"socket is closed with 1001, 0 for never."},
	{"socket_lifetime", &type_duration, SOCKETS, AT(websocket.lifetime_ms), .fallback = "0",
		BETWEEN(MS(0), DAYS(365)), .flags = OPTION_DURATION,
		.help = "Time after which a socket is closed with 1001, less up to a tenth so that not all "
			"end at once; 0 for never. What the client has sent by then is passed on, and "
			"what its server answers is delivered, before the client gets 1001."},
	{"close_timeout", &type_duration, SOCKETS, AT(websocket.close_timeout_ms), .fallback = "5s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Time that a peer has to answer a close frame; then the socket is cut. In a drain "
			"it is cut before the last eighth of shutdown_timeout."},
	{"socket_type", &type_text, SOCKETS, AT(websocket.type),
		.help = "Type by which sluice sockets finds the route's WebSockets; unset, the route's "
			"name."},
	{"socket_queue_bytes", &type_size64, SOCKETS, AT(websocket.queue_bytes), .fallback = "1M",
		BETWEEN(1, 1ULL << 30), .flags = OPTION_SIZE,
		.help = "Bytes that wait at most for one client that reads slowly, of messages that its "
			"server has not sent."},
	{"socket_queue_messages", &type_count32, SOCKETS, AT(websocket.queue_messages), .fallback = "1000",
		BETWEEN(1, 1 * MILLION),
		.help = "The same in messages."},
	{"on_socket_queue_full", &type_word, SOCKETS, AT(websocket.on_queue_full), .fallback = "close",
		.words = queue_full_actions,
		.help = "What becomes of a socket whose client reads too slowly for these: it is closed "
			"with 1013, or the oldest of its messages of the normal lane are dropped."},
	{"socket_channels", &type_count32, SOCKETS, AT(websocket.channels), .fallback = "100",
		BETWEEN(1, 10000),
		.help = "Channels that a socket is subscribed to at most; further ones are refused."},
	{"gateway_waiting", &type_count32, SOCKETS, AT(websocket.gateway.waiting), .fallback = "16",
		BETWEEN(1, 1000),
		.help = "Messages of a gateway's client that wait at most while a request is under way; "
			"then the client is not read."},
	{"gateway_waiting_bytes", &type_size64, SOCKETS, AT(websocket.gateway.waiting_bytes),
		.fallback = "64k", BETWEEN(1, 1ULL << 26), .flags = OPTION_SIZE,
		.help = "The same in bytes; one message may be larger."},
	{"gateway_batch", &type_count32, LIVE, AT(websocket.gateway.batch), .fallback = "64",
		BETWEEN(1, 1000),
		.help = "Messages that leave in one request of a gateway at most, 1 for each alone."},
	{"gateway_answer_size", &type_size64, LIVE, AT(websocket.gateway.answer_bytes),
		.fallback = "1M", BETWEEN(1024, 1ULL << 26), .flags = OPTION_SIZE,
		.help = "Bytes of content that the answer to a request of a gateway has at most; beyond "
			"it the socket is closed with 1011."},
	{"gateway_tries", &type_count32, LIVE, AT(websocket.gateway.tries), .fallback = "3",
		BETWEEN(1, 10),
		.help = "Tries of a gateway's request that could not be sent, 1 s, 2 s, 4 s ... after one "
			"another; then the socket is closed with 1011."},
	{"log_messages", &type_flag, LIVE, AT(websocket.logs_messages), .fallback = "off",
		.help = "Whether each message has a line in the access log."},
	{"request_trailers", &type_field_names, LIVE, AT(request_trailers), .flags = OPTION_REPEATABLE,
		.help = "Trailer fields of requests that are passed on, besides those of digests, "
			"signatures and timing; others are dropped."},
	{"request_header_set", &type_field, LIVE, AT(request_set),
		.flags = OPTION_REPEATABLE | OPTION_SECRET,
		.help = "A field set on requests to the server, in place of any of that name."},
	{"request_header_remove", &type_field_names, LIVE, AT(request_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields removed from requests to the server."},
	{"response_header_set", &type_field, LIVE, AT(response_set), .flags = OPTION_REPEATABLE,
		.help = "A field set on responses to the client, in place of any of that name; sluice's own "
			"answers too."},
	{"response_header_remove", &type_field_names, LIVE, AT(response_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields removed from responses to the client."},
	{"strip_prefix", &type_uri_path, LIVE, AT(strip_prefix),
		.help = "What is taken off the front of the path."},
	{"add_prefix", &type_uri_path, LIVE, AT(add_prefix),
		.help = "What is put before the path, after stripping."},
	{"forward_path", &type_choice, LIVE, AT(forwards_normal_path), .fallback = "received",
		.words = forward_paths,
		.help = "Whether the server gets the path as it came, unless a prefix is changed, "
			"or in its normal form."},
	{"ambiguous_path", &type_choice, LIVE, AT(allows_ambiguous_path), .fallback = "refuse",
		.words = ambiguous_paths,
		.help = "Whether a path that some servers take for one of this route and some for "
			"one of another gets 400, where one of the two denies or limits."},
	{"unknown_callers", &type_word, LIVE, AT(unknown), .fallback = "inherit", .words = unknowns,
		.help = "What callers on no plan's list get; inherit is what unknown of [plans] says."},
	{"ratelimit_headers", &type_word, LIVE, AT(ratelimit_headers), .fallback = "inherit",
		.words = ratelimit_headers,
		.help = "Which rate-limit fields responses carry; inherit is what the listener says."},
	{"allow", &type_access, LIVE, AT(access.allow_addresses), .flags = OPTION_REPEATABLE,
		.help = "Callers without limits: networks, and files of networks and keys, one a line; "
			"keys are compared with the first limit's."},
	{"deny", &type_access, LIVE, AT(access.deny_addresses), .flags = OPTION_REPEATABLE,
		.help = "Callers that get 403, in the same form; before allow."},
};
const size_t options_route_count = COUNT(options_route);
OPTIONS_FIT(options_route);
