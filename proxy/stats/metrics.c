#include "stats/metrics.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static const char *const statuses[STATS_STATUS_CLASSES] = {
	"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
static const char *const verdicts[STATS_VERDICTS] = {
	[STATS_ADMIT] = "admit",
	[STATS_REFUSE] = "refuse",
	[STATS_DENY] = "deny",
	[STATS_DELAY] = "delay",
	[STATS_UNLIMITED] = "none",
};
static const char *const limit_verdicts[STATS_LIMIT_VERDICTS] = {
	[STATS_LIMIT_ADMITTED] = "admit",
	[STATS_LIMIT_REFUSED] = "refuse",
	[STATS_LIMIT_DELAYED] = "delay",
	[STATS_LIMIT_SHADOW_REFUSED] = "shadow_refuse",
};

static const char *const message_sides[] = {"client", "server"};
static const char *const lease_verdicts[] = {"admit", "refuse"};
static const char *const redirects[] = {"moved", "ask", "tryagain", "clusterdown"};
static const char *const handshake_results[] = {"done", "failed", "late", "displaced"};
static const char *const header_results[] = {
	"read", "missing", "malformed", "untrusted", "late", "displaced"};
static const char *const bodies[] = {"request", "response"};

static const char *const send_results[STATS_SEND_RESULTS] = {
	[STATS_SEND_WRITTEN] = "written",
	[STATS_SEND_DROPPED] = "dropped",
	[STATS_SEND_GONE] = "gone",
};

#define VALUES(of) of, COUNT(of)

const struct stats_metric stats_metrics[] = {
	{"sluice_client_connections_total", STATS_COUNTER, STATS_NODE, STATS_CONNECTIONS, {{0}},
		"Connections accepted from clients."},
	{"sluice_http2_connections_total", STATS_COUNTER, STATS_NODE, STATS_CONNECTIONS_HTTP2,
		{{0}}, "Connections from clients that speak HTTP/2."},
	{"sluice_http2_requests_total", STATS_COUNTER, STATS_NODE, STATS_REQUESTS_HTTP2, {{0}},
		"Requests that came by HTTP/2."},
	{"sluice_http2_floods_total", STATS_COUNTER, STATS_NODE, STATS_HTTP2_FLOODS, {{0}},
		"Connections closed for frames of HTTP/2 beyond the bounds of their kind."},
	{"sluice_idle_connections_closed_total", STATS_COUNTER, STATS_NODE, STATS_GAVE_WAY, {{0}},
		"Idle client connections that were closed to make room for new ones."},
	{"sluice_handshakes_total", STATS_COUNTER, STATS_NODE, STATS_HANDSHAKES,
		{{"result", VALUES(handshake_results)}},
		"Handshakes of TLS with clients that ended, by their result; displaced: closed for "
		"newer connections or at the shutdown."},
	{"sluice_proxy_headers_total", STATS_COUNTER, STATS_NODE, STATS_PROXY_HEADERS,
		{{"result", VALUES(header_results)}},
		"Connections with proxy_protocol that had a PROXY header (read), or ended for want "
		"of one; untrusted: it came from no trusted proxy."},
	{"sluice_idle_server_connections_closed_total", STATS_COUNTER, STATS_NODE, STATS_SPARED,
		{{0}}, "Idle connections to servers that were closed as file descriptors ran out."},
	{"sluice_malformed_requests_total", STATS_COUNTER, STATS_NODE, STATS_MALFORMED, {{0}},
		"Requests refused because they are not valid HTTP."},
	{"sluice_clients_gone_total", STATS_COUNTER, STATS_NODE, STATS_CLIENT_GONE, {{0}},
		"Exchanges whose client left before its response was complete."},
	{"sluice_shed_requests_total", STATS_COUNTER, STATS_NODE, STATS_SHED, {{0}},
		"Requests answered 503 because a queue was full or they waited too long."},
	{"sluice_retries_total", STATS_COUNTER, STATS_NODE, STATS_RETRIES, {{0}},
		"Requests sent once more, on another connection or to another server."},
	{"sluice_slow_clients_total", STATS_COUNTER, STATS_NODE, STATS_SLOW_REQUEST,
		{{"body", VALUES(bodies)}},
		"Clients that were cut because they sent or took a body below min_rate."},
	{"sluice_fleet_questions_total", STATS_COUNTER, STATS_NODE, STATS_STORE_QUESTIONS, {{0}},
		"Requests whose limits the store of the fleet decided."},
	{"sluice_fleet_calls_total", STATS_COUNTER, STATS_NODE, STATS_STORE_CALLS, {{0}},
		"Calls to the fleet's store; one has the questions of a worker's turn."},
	{"sluice_fleet_unanswered_total", STATS_COUNTER, STATS_NODE, STATS_STORE_UNANSWERED, {{0}},
		"Requests that store_down decided, as the fleet's store did not answer in time."},
	{"sluice_fleet_leased_total", STATS_COUNTER, STATS_NODE, STATS_STORE_LEASED, {{0}},
		"Parts of callers' quotas that the fleet's store has given this node in advance."},
	{"sluice_fleet_lease_verdicts_total", STATS_COUNTER, STATS_NODE, STATS_LEASE_TAKEN,
		{{"verdict", VALUES(lease_verdicts)}},
		"Limits that this node decided for a request without asking the fleet's store."},
	{"sluice_fleet_published_total", STATS_COUNTER, STATS_NODE, STATS_RELAXED_PUBLISHED, {{0}},
		"Callers that this node has published and asked for, of limits with fleet = "
		"relaxed."},
	{"sluice_fleet_redirects_total", STATS_COUNTER, STATS_NODE, STATS_STORE_MOVED,
		{{"answer", VALUES(redirects)}},
		"Calls that a node of the Redis Cluster refused, by its answer."},
	{"sluice_requests_total", STATS_COUNTER, STATS_ROUTE, STATS_REQUESTS,
		{{"status", VALUES(statuses)}, {"verdict", VALUES(verdicts)}},
		"Exchanges that ended, by the class of their status and the verdict of the "
		"limits."},
	{"sluice_request_bytes_total", STATS_COUNTER, STATS_ROUTE, STATS_RECEIVED_BYTES, {{0}},
		"Bytes of request content passed on to upstreams."},
	{"sluice_response_bytes_total", STATS_COUNTER, STATS_ROUTE, STATS_SENT_BYTES, {{0}},
		"Bytes of response content sent to clients."},
	{"sluice_request_duration_seconds", STATS_HISTOGRAM, STATS_ROUTE, STATS_REQUEST_DURATION,
		{{0}}, "Time from the first byte of a request to the end of its exchange."},
	{"sluice_queue_wait_seconds", STATS_HISTOGRAM, STATS_ROUTE, STATS_QUEUE_WAIT, {{0}},
		"Time that forwarded requests waited for their turn."},
	{"sluice_upstream_duration_seconds", STATS_HISTOGRAM, STATS_ROUTE, STATS_UPSTREAM_DURATION,
		{{0}}, "Time from choosing a server to the end of the exchange."},
	{"sluice_sockets_opened_total", STATS_COUNTER, STATS_ROUTE, STATS_SOCKETS_OPENED, {{0}},
		"Opened WebSockets whose messages are read."},
	{"sluice_sockets_closed_total", STATS_COUNTER, STATS_ROUTE, STATS_SOCKETS_CLOSED, {{0}},
		"Those of them that have ended."},
	{"sluice_sockets_slow_total", STATS_COUNTER, STATS_ROUTE, STATS_SOCKETS_SLOW, {{0}},
		"WebSockets that were closed because their send queue was full."},
	{"sluice_socket_sends_total", STATS_COUNTER, STATS_ROUTE, STATS_SENDS,
		{{"result", VALUES(send_results)}},
		"Messages to a WebSocket's client that its server did not send, by result."},
	{"sluice_messages_total", STATS_COUNTER, STATS_ROUTE, STATS_MESSAGES,
		{{"verdict", VALUES(verdicts)}},
		"Messages of WebSocket clients, by the verdict of the limits."},
	{"sluice_server_messages_total", STATS_COUNTER, STATS_ROUTE, STATS_SERVER_MESSAGES, {{0}},
		"Messages of servers to WebSocket clients."},
	{"sluice_message_bytes_total", STATS_COUNTER, STATS_ROUTE, STATS_CLIENT_MESSAGE_BYTES,
		{{"from", VALUES(message_sides)}}, "Bytes of messages on WebSockets."},
	{"sluice_message_duration_seconds", STATS_HISTOGRAM, STATS_ROUTE, STATS_MESSAGE_DURATION,
		{{0}}, "Time from the last byte of a client's message to its end."},
	{"sluice_limit_verdicts_total", STATS_COUNTER, STATS_LIMIT, STATS_LIMIT_VERDICT,
		{{"verdict", VALUES(limit_verdicts)}},
		"Verdicts of each limit; shadow_refuse: requests that a limit in shadow mode would "
		"refuse."},
	{"sluice_plan_requests_total", STATS_COUNTER, STATS_PLAN, STATS_PLAN_REQUESTS,
		{{"verdict", VALUES(verdicts)}}, "Requests of the callers of each plan."},
	{"sluice_upstream_requests_total", STATS_COUNTER, STATS_UPSTREAM, STATS_UPSTREAM_REQUESTS,
		{{0}}, "Exchanges for which the upstream sent a response."},
	{"sluice_upstream_failures_total", STATS_COUNTER, STATS_UPSTREAM, STATS_UPSTREAM_FAILURES,
		{{0}}, "Connections refused or cut, timeouts and malformed responses of servers."},
};
const size_t stats_metric_count = COUNT(stats_metrics);

const unsigned stats_slots[STATS_SCOPES] = {
	[STATS_NODE] = STATS_NODE_SLOTS,
	[STATS_ROUTE] = STATS_ROUTE_SLOTS,
	[STATS_LIMIT] = STATS_LIMIT_SLOTS,
	[STATS_PLAN] = STATS_PLAN_SLOTS,
	[STATS_UPSTREAM] = STATS_UPSTREAM_SLOTS,
};

const char *const stats_scope_labels[STATS_SCOPES] = {
	[STATS_ROUTE] = "route",
	[STATS_LIMIT] = "limit",
	[STATS_PLAN] = "plan",
	[STATS_UPSTREAM] = "upstream",
};

#define US 1000ULL
#define MS 1000000ULL
#define S  1000000000ULL
const uint64_t stats_bounds_ns[STATS_BOUNDS] = {100 * US, 250 * US, 500 * US, 1 * MS, 2500 * US,
	5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S, 2500 * MS, 5 * S,
	10 * S, 30 * S, 60 * S};
const char *const stats_bound_texts[STATS_BOUNDS] = {"0.0001", "0.00025", "0.0005", "0.001",
	"0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0",
	"10.0", "30.0", "60.0"};

const uint8_t stats_bounds_below[64] = {[17] = 1,
	[18] = 2,
	[19] = 3,
	[20 ... 21] = 4,
	[22] = 5,
	[23] = 6,
	[24] = 7,
	[25] = 8,
	[26] = 9,
	[27] = 10,
	[28] = 11,
	[29] = 12,
	[30 ... 31] = 13,
	[32] = 14,
	[33] = 15,
	[34] = 16,
	[35] = 17,
	[36 ... 63] = 18};
_Static_assert(STATS_BOUNDS == 18, "stats_bounds_below follows the bounds");

unsigned stats_metric_slots(const struct stats_metric *metric)
{
	unsigned slots = metric->type == STATS_HISTOGRAM ? STATS_HISTOGRAM_SLOTS : 1;

	for (unsigned i = 0; i < STATS_LABELS && metric->labels[i].name; i++)
		slots *= metric->labels[i].count;
	return slots;
}
