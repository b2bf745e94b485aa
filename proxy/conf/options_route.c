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
#define RESTRICTS          .route = ROUTE_RESTRICTS
#define FREE               .route = ROUTE_FREE
#define NEEDS(key, value)  .needs = {key, value, NULL, NULL, false}
#define OF_MESSAGES        .needs = {"websocket", "messages", "gateway", NULL, true}
#define OF_GATEWAYS        .needs = {"websocket", "gateway", NULL, NULL, true}
/* These apply to held responses too. */
#define OF_MESSAGES_OR_HOLDS .needs = {"websocket", "messages", "gateway", "grip_hold", true}
#define OF_GATEWAYS_OR_HOLDS .needs = {"websocket", "gateway", NULL, "grip_hold", true}

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

#define AT(field) OPTION_AT(struct conf_route, field)
/* clang-format off */
const struct option options_route[] = {
	{"host", &type_hosts, LIVE, FREE, AT(hosts), .flags = OPTION_REPEATABLE,
		.help = "Hosts that the route serves; unset, any."},
	{"path", &type_path_match, LIVE, FREE, AT(path), .fallback = "/",
		.help = "Paths that the route serves: those under a prefix, exactly one, or those "
			"that match a regular expression."},
	{"method", &type_methods, LIVE, FREE, AT(methods), .flags = OPTION_REPEATABLE,
		.help = "Methods that the route serves, HEAD with GET; unset, any but TRACE."},
	{"when", &type_when, LIVE, FREE, AT(when), .flags = OPTION_REPEATABLE,
		.help = "Matches that must hold, or with ! must not, for the route to serve a "
			"request; otherwise the next route that fits does."},
	{"upstream", &type_reference, LIVE, FREE, AT(upstream), .flags = OPTION_REQUIRED,
		.help = "Upstream to which the requests are forwarded."},
	{"limits", &type_references, LIVE, RESTRICTS, AT(limits), .flags = OPTION_REPEATABLE,
		.help = "Limits that a request must pass, all of them; plan stands for the limits "
			"of the caller's plan."},
	{"session", &type_key, LIVE, RESTRICTS, AT(sessions.key),
		.help = "Key expression that identifies the client whose requests stay in order; "
			"unset, the key of the first limit, else of the plans, else ip."},
	{"ordering", &type_word, LIVE, RESTRICTS, AT(sessions.ordering), .fallback = "auto", .words = orderings,
		.help = "Which requests of a session wait for which; auto is writes if the "
			"session's key found a header field, cookie or query parameter, and none "
			"if it is an address."},
	{"read_hold", &type_duration, LIVE, FREE, AT(sessions.read_hold_ms), .fallback = "250ms", BETWEEN(MS(0), DAYS(1)),
		.flags = OPTION_DURATION,
		.help = "Longest time that a safe request whose response has not begun delays a "
			"later write of its session, with ordering = writes."},
	{"session_in_flight", &type_count32, LIVE, RESTRICTS, AT(sessions.in_flight), .fallback = "0",
		BETWEEN(0, 1 * MILLION),
		.help = "Maximum number of requests of one session in progress at once, 0 for no "
			"bound."},
	{"queue_depth", &type_count32, LIVE, FREE, AT(sessions.queue_depth), .fallback = "1000",
		BETWEEN(0, 10 * MILLION),
		.help = "Maximum number of requests waiting in one session; further ones are "
			"answered 503."},
	{"queue_bytes", &type_size64, LIVE, FREE, AT(sessions.queue_bytes), .fallback = "0",
		BETWEEN(0, 1ULL << 40), .flags = OPTION_SIZE,
		.help = "Maximum memory of these requests, with their heads and the first block "
			"of a body, 0 for no bound; further ones are answered 503."},
	{"queue_timeout", &type_duration, LIVE, FREE, AT(sessions.queue_timeout_ms), .fallback = "30s",
		BETWEEN(MS(1), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest time that a request may wait; after it the request is answered "
			"503."},
	{"high_burst", &type_count32, LIVE, FREE, AT(sessions.high_burst), .fallback = "16", BETWEEN(1, 1 * MILLION),
		.help = "Number of high requests that may pass a waiting normal one of their "
			"session, or of another session at a busy upstream."},
	{"lane", &type_word, LIVE, FREE, AT(sessions.lane), .fallback = "normal", .words = lanes,
		.help = "Lane of the route's requests."},
	{"session_idle_timeout", &type_duration, LIVE, FREE, AT(sessions.idle_timeout_ms), .fallback = "60s",
		BETWEEN(MS(10), DAYS(30)), .flags = OPTION_DURATION,
		.help = "Time from the end of a session's last request until its state is "
			"forgotten: a connection of its own, its measured rate."},
	{"session_scope", &type_choice, LIVE, RESTRICTS, AT(sessions.of_fleet), .fallback = "node", .words = scopes,
		.help = "Whether each node orders a session's requests by itself, or one node of "
			"the fleet at a time owns the session and serves all of them; requests that are "
			"outstanding at several nodes at once have no order among them."},
	{"session_elsewhere", &type_choice, LIVE, FREE, AT(sessions.refuses_elsewhere), .fallback = "forward",
		.words = elsewheres,
		NEEDS("session_scope", "fleet"),
		.help = "With session_scope = fleet, whether a request of a session that another "
			"node owns is forwarded to that node, or answered 409."},
	{"owner_idle", &type_duration, LIVE, FREE, AT(sessions.owner_idle_ms), .fallback = "1s",
		BETWEEN(MS(100), DAYS(1)), .flags = OPTION_DURATION,
		NEEDS("session_scope", "fleet"),
		.help = "With session_scope = fleet, time from the end of a session's last request until "
			"another node may own it."},
	{"upstream_affinity", &type_choice, LIVE, FREE, AT(sessions.affinity), .fallback = "none",
		.words = affinities,
		.help = "Whether a session keeps a connection to a server to itself, for servers "
			"whose login is bound to the connection."},
	{"max_body_size", &type_size64, LIVE, RESTRICTS, AT(max_body_bytes), .fallback = "0",
		BETWEEN(0, 1ULL << 50), .flags = OPTION_SIZE,
		.help = "Maximum size of a request's body, 0 for no bound; a larger one is "
			"answered 413."},
	{"request_buffering", &type_buffering, LIVE, FREE, AT(request_buffering),
		.fallback = "64k file 16M",
		.help = "How much of a request's body is kept before the request takes a place at "
			"its upstream, in memory and then in a file; the rest of a longer body is "
			"sent on as it arrives."},
	{"response_buffering", &type_buffering, LIVE, FREE, AT(response_buffering),
		.fallback = "32k file 64M",
		.help = "How much of a response is kept for a client that receives it too slowly, "
			"so that the server and its place are free earlier."},
	{"min_rate", &type_size64, LIVE, RESTRICTS, AT(min_rate), .fallback = "0", BETWEEN(0, 1ULL << 30),
		.flags = OPTION_SIZE,
		.help = "Bytes per second that a client must send of a request's body, and "
			"receive of an available response, 0 for no minimum; slower clients are "
			"cut. Bodies over HTTP/2 have no minimum."},
	{"min_rate_grace", &type_duration, LIVE, FREE, AT(min_rate_grace_ms), .fallback = "10s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		.help = "Longest total time that a client may delay a body beyond what min_rate "
			"allows."},
	{"cost", &type_cost, LIVE, RESTRICTS, AT(cost), .fallback = "1", BETWEEN(1, 1 * MILLION),
		.help = "Charge for a request; response:FIELD settles it from that field of the "
			"response."},
	{"refund", &type_statuses, LIVE, FREE, AT(refund), .flags = OPTION_REPEATABLE,
		.help = "Statuses of the server that give the charge back."},
	{"upgrade", &type_upgrades, LIVE, RESTRICTS, AT(upgrades), .fallback = "websocket",
		.help = "Protocols to which a connection may be upgraded; requests for others are "
			"served without an upgrade, and off allows none."},
	{"websocket", &type_websocket, SOCKETS, RESTRICTS, AT(websocket.mode), .fallback = "tunnel",
		.words = websocket_modes,
		.help = "With tunnel, a WebSocket is a tunnel of bytes after its handshake. With "
			"messages, sluice reads the messages, and limits, orders and counts each "
			"as a request of its client. With gateway, it also passes the client's "
			"messages to an HTTP server in POST requests of the WebSocket-over-HTTP "
			"protocol."},
	{"message_limits", &type_references, LIVE, RESTRICTS, AT(websocket.limits),
		.flags = OPTION_REPEATABLE,
		OF_MESSAGES,
		.help = "Limits that a client's message must pass, all of them; plan stands for "
			"the limits of the caller's plan, and a limit that limits also names is "
			"one budget for both."},
	{"on_message_exceed", &type_message_exceed, LIVE, RESTRICTS, AT(websocket.on_exceed), .fallback = "delay",
		OF_MESSAGES,
		.help = "Action for a message over a limit: delay lets it wait while its client "
			"is not read, with a DURATION at most that long from its turn in its "
			"session; drop drops it; close closes the socket with 1008."},
	{"message_notice", &type_text, SOCKETS, FREE, AT(websocket.notice),
		OF_MESSAGES,
		.help = "Text message sent to a client for each of its messages that was dropped; "
			"unset, none."},
	{"max_message_size", &type_size64, SOCKETS, RESTRICTS, AT(websocket.max_message_bytes), .fallback = "1M",
		BETWEEN(1, 1ULL << 30), .flags = OPTION_SIZE,
		OF_MESSAGES,
		.help = "Maximum size of a client's message, as sent; a larger one closes the "
			"socket with 1009."},
	{"message_timeout", &type_duration, SOCKETS, FREE, AT(websocket.message_timeout_ms), .fallback = "30s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Longest time from the first byte of a client's message to its last, and "
			"for the server to receive a message."},
	{"max_sockets", &type_reference, LIVE, RESTRICTS, AT(websocket.max_sockets),
		OF_MESSAGES,
		.help = "Limit with a concurrency that bounds the WebSockets of a caller; it is "
			"checked together with limits."},
	{"websocket_origin", &type_origins, LIVE, RESTRICTS, AT(websocket.origins), .flags = OPTION_REPEATABLE,
		OF_MESSAGES,
		.help = "Allowed origins of a browser's handshake; others get 403. Unset, any; "
			"clients that send no origin are accepted."},
	{"websocket_protocols", &type_tokens, LIVE, RESTRICTS, AT(websocket.protocols),
		.flags = OPTION_REPEATABLE,
		OF_MESSAGES,
		.help = "Subprotocols that a client may request; others are not passed to the "
			"server, and a client that requests only others gets 403. Unset, any."},
	{"ping_interval", &type_duration, SOCKETS, FREE, AT(websocket.ping_interval_ms), .fallback = "30s",
		BETWEEN(MS(0), DAYS(1)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Time without a byte from the client after which it is sent a ping, 0 for "
			"never. If the server has begun a message, the ping waits for its end, "
			"for up to ping_timeout."},
	{"ping_timeout", &type_duration, SOCKETS, FREE, AT(websocket.ping_timeout_ms), .fallback = "10s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Longest time for a client to answer a ping; after it the socket is cut."},
	{"socket_idle_timeout", &type_duration, SOCKETS, FREE, AT(websocket.idle_timeout_ms), .fallback = "1h",
		BETWEEN(MS(0), DAYS(30)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Time without a byte of a message in either direction, and without a "
			"waiting message, after which a socket is closed with 1001, 0 for never."},
	{"socket_lifetime", &type_duration, SOCKETS, RESTRICTS, AT(websocket.lifetime_ms), .fallback = "0",
		BETWEEN(MS(0), DAYS(365)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Time after which a socket is closed with 1001, less up to a tenth so "
			"that not all end at once, 0 for never. Messages that the client has sent "
			"by then are passed on, and the server's answers to them are delivered, "
			"before the client gets 1001."},
	{"close_timeout", &type_duration, SOCKETS, FREE, AT(websocket.close_timeout_ms), .fallback = "5s",
		BETWEEN(MS(10), DAYS(1)), .flags = OPTION_DURATION,
		OF_MESSAGES,
		.help = "Longest time for a peer to answer a close frame; after it the socket is "
			"cut. In a drain the socket is cut before the last eighth of "
			"shutdown_timeout."},
	{"socket_type", &type_text, SOCKETS, FREE, AT(websocket.type),
		OF_MESSAGES,
		.help = "Type by which sluice sockets finds the route's WebSockets; unset, the route's "
			"name."},
	{"socket_queue_bytes", &type_size64, SOCKETS, FREE, AT(websocket.queue_bytes), .fallback = "1M",
		BETWEEN(1, 1ULL << 30), .flags = OPTION_SIZE,
		OF_MESSAGES,
		.help = "Maximum size of messages, other than its server's, that wait for one "
			"client that reads slowly."},
	{"socket_queue_messages", &type_count32, SOCKETS, FREE, AT(websocket.queue_messages), .fallback = "1000",
		BETWEEN(1, 1 * MILLION),
		OF_MESSAGES,
		.help = "Maximum number of these messages."},
	{"on_socket_queue_full", &type_word, SOCKETS, FREE, AT(websocket.on_queue_full), .fallback = "close",
		.words = queue_full_actions,
		OF_MESSAGES,
		.help = "Action for a client that exceeds these bounds: close closes the socket "
			"with 1013, drop drops its oldest messages of the normal lane."},
	{"socket_channels", &type_count32, SOCKETS, FREE, AT(websocket.channels), .fallback = "100",
		BETWEEN(1, 10000),
		OF_MESSAGES_OR_HOLDS,
		.help = "Maximum number of channels to which a socket is subscribed; "
			"subscriptions to further ones are refused."},
	{"gateway_waiting", &type_count32, SOCKETS, FREE, AT(websocket.gateway.waiting), .fallback = "16",
		BETWEEN(1, 1000),
		OF_GATEWAYS,
		.help = "Maximum number of messages of a gateway's client that wait while a "
			"request is in progress; beyond it sluice stops reading from the client."},
	{"gateway_waiting_bytes", &type_size64, SOCKETS, FREE, AT(websocket.gateway.waiting_bytes),
		.fallback = "64k", BETWEEN(1, 1ULL << 26), .flags = OPTION_SIZE,
		OF_GATEWAYS,
		.help = "Maximum size of these messages; a single message may be larger."},
	{"gateway_batch", &type_count32, LIVE, FREE, AT(websocket.gateway.batch), .fallback = "64",
		BETWEEN(1, 1000),
		OF_GATEWAYS,
		.help = "Maximum number of messages in one request of a gateway; 1 sends each by "
			"itself."},
	{"gateway_answer_size", &type_size64, LIVE, FREE, AT(websocket.gateway.answer_bytes),
		.fallback = "1M", BETWEEN(1024, 1ULL << 26), .flags = OPTION_SIZE,
		OF_GATEWAYS_OR_HOLDS,
		.help = "Maximum size of the content of a response to a gateway's request; a "
			"larger one closes the socket with 1011."},
	{"gateway_tries", &type_count32, LIVE, FREE, AT(websocket.gateway.tries), .fallback = "3",
		BETWEEN(1, 10),
		OF_GATEWAYS,
		.help = "Number of attempts of a gateway's request that could not be sent, 1 s, 2 "
			"s, 4 s and so on after one another; after them the socket is closed with "
			"1011."},
	{"grip_hold", &type_flag, LIVE, FREE, AT(holds_responses), .fallback = "off",
		.help = "Whether a response with Grip-Hold and Grip-Channel is held for what is "
			"published to its channels (GRIP); its content is bounded by "
			"gateway_answer_size, its channels by socket_channels."},
	{"log_messages", &type_flag, LIVE, FREE, AT(websocket.logs_messages), .fallback = "off",
		OF_MESSAGES,
		.help = "Whether the access log has a line for each message."},
	{"request_trailers", &type_field_names, LIVE, FREE, AT(request_trailers), .flags = OPTION_REPEATABLE,
		.help = "Trailer fields of requests that are passed on, in addition to those of "
			"digests, signatures and timing; others are dropped."},
	{"request_header_set", &type_field, LIVE, RESTRICTS, AT(request_set),
		.flags = OPTION_REPEATABLE | OPTION_SECRET,
		.help = "Field to set on requests to the server, in place of fields of that name."},
	{"request_header_remove", &type_field_names, LIVE, RESTRICTS, AT(request_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields to remove from requests to the server."},
	{"response_header_set", &type_field, LIVE, RESTRICTS, AT(response_set), .flags = OPTION_REPEATABLE,
		.help = "Field to set on responses to the client, including sluice's own, in "
			"place of fields of that name."},
	{"response_header_remove", &type_field_names, LIVE, RESTRICTS, AT(response_remove),
		.flags = OPTION_REPEATABLE,
		.help = "Fields to remove from responses to the client."},
	{"strip_prefix", &type_uri_path, LIVE, FREE, AT(strip_prefix),
		.help = "Prefix to remove from the path."},
	{"add_prefix", &type_uri_path, LIVE, FREE, AT(add_prefix),
		.help = "Prefix to add to the path, after stripping."},
	{"forward_path", &type_choice, LIVE, FREE, AT(forwards_normal_path), .fallback = "received",
		.words = forward_paths,
		.help = "Whether the server gets the path as received, unless a prefix is "
			"changed, or in its normal form."},
	{"ambiguous_path", &type_choice, LIVE, FREE, AT(allows_ambiguous_path), .fallback = "refuse",
		.words = ambiguous_paths,
		.help = "Whether a path that some servers assign to this route and some to "
			"another is answered 400, if one of the two has restrictions."},
	{"unknown_callers", &type_word, LIVE, RESTRICTS, AT(unknown), .fallback = "inherit", .words = unknowns,
		.help = "Treatment of callers on no plan's list; inherit is the value of unknown "
			"in [plans]."},
	{"ratelimit_headers", &type_word, LIVE, FREE, AT(ratelimit_headers), .fallback = "inherit",
		.words = ratelimit_headers,
		.help = "Rate-limit fields in responses; inherit is the listener's value."},
	{"allow", &type_access, LIVE, FREE, AT(access.allow_addresses), .flags = OPTION_REPEATABLE,
		.help = "Callers without limits: networks, files of networks and keys, one per "
			"line, and match:NAME or match:!NAME; keys are compared with the first "
			"limit's key."},
	{"deny", &type_access, LIVE, RESTRICTS, AT(access.deny_addresses), .flags = OPTION_REPEATABLE,
		.help = "Callers that get 403, in the same form; deny takes precedence over "
			"allow."},
};
const size_t options_route_count = COUNT(options_route);
OPTIONS_FIT(options_route);
