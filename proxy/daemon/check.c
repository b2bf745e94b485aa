#include "config.h"

#include "daemon/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "loop/deadline.h"
#ifdef HAVE_HTTP2
#include "http2/h2_probe.h"
#endif
#include "net/dial.h"
#include "net/proxy_header.h"

#define FAILS_TO_LEAVE_OUT 2
#define ANSWER_BYTES       64
#define PREPARED_MS        86400000

/* One server's probe: a connection of its own each time, so that it sees what a new client sees.
 * Each is to the next of its addresses; the server is out when all of them are. */
struct check {
	struct check *next;
	struct checks *checks;
	struct server *server;
	struct deadline deadline; /* of the probe, or until the next */
	struct stream stream;
	struct deferred_free deferred;
	bool sent;
	struct h2_probe *by_http2; /* of one that was sent by HTTP/2; else NULL */
	char answer[ANSWER_BYTES];
	struct buffer in;    /* `answer`, of no pool */
	unsigned slot;       /* and id, of the address that is probed: */
	uint32_t address_id; /* upstream/server_addresses.h */
	bool fresh;          /* prepared, not committed */
};

struct checks {
	struct loop *loop;
	struct stream_loop streams;
	struct site *site;
	struct check *first;
	const struct check_sharing *sharing; /* NULL: none is shared */
};

struct checks *checks_new(struct loop *loop)
{
	struct checks *checks = calloc(1, sizeof(*checks));

	if (!checks)
		return NULL;
	checks->loop = loop;
	stream_loop_init(&checks->streams, loop);
	return checks;
}

struct stream_loop *checks_streams(struct checks *checks)
{
	return &checks->streams;
}

/* Ends the probe that is under way, if one is. */
static void stop(struct check *check)
{
	stream_close(&check->stream);
#ifdef HAVE_HTTP2
	h2_probe_free(check->by_http2);
	check->by_http2 = NULL;
#endif
}

/* ---- what is found --------------------------------------------------------------------------- */

/* A server comes or goes. */
static void set_unhealthy(struct server *server, bool out, const char *why, const char *by)
{
	const char *name = server->upstream->conf->name, *address = server->conf->address.text;
	const char *front = *by ? " (probed by " : "", *end = *by ? ")" : "";

	server_set_unhealthy(server->state, out);
	if (out)
		log_warn("upstream %s: server %s is unhealthy: %s%s%s%s", name, address, why, front,
			by, end);
	else
		log_info("upstream %s: server %s is healthy again%s%s%s", name, address, front, by,
			end);
}

static bool is_mine(const struct check *check)
{
	const struct check_sharing *sharing = check->checks->sharing;

	return !sharing || sharing->is_mine(sharing->ctx, check->server);
}

/* Until it is probed next, or looked at whether it is to be. */
static void rest(struct check *check)
{
	uint64_t now_ms = clock_monotonic_ms();
	unsigned count = server_addresses_count(&check->server->state->addresses);
	uint64_t interval_ms = check->server->upstream->conf->health_interval_ms;

	deadline_set(&check->deadline, now_ms + interval_ms / (count > 0 ? count : 1), now_ms);
}

static void note(struct check *check, bool out, const char *saw)
{
	const struct check_sharing *sharing = check->checks->sharing;
	struct server_state *state = check->server->state;
	struct server_finding finding;

	server_state_read_finding(state, &finding);
	bool is_news = !finding.is_known || finding.is_up == out;
	if (is_news)
		finding.since_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
	finding.is_known = true;
	finding.is_up = !out;
	finding.checked_ms = clock_monotonic_ms();
	finding.by[0] = '\0';
	snprintf(finding.saw, sizeof(finding.saw), "%s", saw);
	server_state_note_finding(state, &finding);
	if (sharing)
		sharing->probed(sharing->ctx, check->server, is_news);
}

static void forget_probe_fails(struct server_state *state)
{
	for (unsigned i = 0; i < SERVER_ADDRESSES; i++)
		state->addresses.slots[i].probe_fails = 0;
}

static void set_addresses_unhealthy(struct server_state *state, bool out)
{
	forget_probe_fails(state);
	/* relaxed, here and below: hints for who picks an address */
	for (unsigned i = 0; i < SERVER_ADDRESSES; i++)
		atomic_store_explicit(
			&state->addresses.slots[i].unhealthy, out, memory_order_relaxed);
}

/* Another address serves in its place. */
static void log_address(const struct check *check, bool out, const char *why)
{
	struct server_addresses *addresses = &check->server->state->addresses;
	struct server_address address;
	char text[SERVER_ADDRESS_TEXT];

	if (server_addresses_count(addresses) < 2 ||
		!server_addresses_get(addresses, check->slot, &address))
		return;
	server_address_print(&address, text);
	log_info("upstream %s: server %s: address %s is %s%s", check->server->upstream->conf->name,
		check->server->conf->address.text, text, out ? "unhealthy: " : "healthy again",
		out ? why : "");
}

/* The address that was probed is in or out. Are all of the server's out? */
static bool judge_address(struct check *check, const char *why, bool all_were_out)
{
	struct server_addresses *addresses = &check->server->state->addresses;
	struct server_slot *slot = &addresses->slots[check->slot];
	bool was_out = all_were_out || atomic_load_explicit(&slot->unhealthy, memory_order_relaxed);

	slot->probe_fails = why ? slot->probe_fails + 1 : 0;
	bool out = why && (was_out || slot->probe_fails >= FAILS_TO_LEAVE_OUT);
	if (check->address_id != 0 &&
		!server_addresses_has(addresses, check->slot, check->address_id))
		return all_were_out; /* it has left meanwhile */
	atomic_store_explicit(&slot->unhealthy, out, memory_order_relaxed);
	if (out != was_out)
		log_address(check, out, why);
	for (unsigned i = 0, present = server_addresses_present(addresses); out && present >> i;
		i++)
		out = !(present >> i & 1) ||
		      atomic_load_explicit(&addresses->slots[i].unhealthy, memory_order_relaxed);
	return out;
}

/* `why`: it failed; else `saw` is how it went well. */
static void judge(struct check *check, const char *why, const char *saw)
{
	struct server *server = check->server;
	bool was_out = atomic_load_explicit(&server->state->unhealthy, memory_order_relaxed);

	stop(check);
	if (!is_mine(check)) {
		forget_probe_fails(server->state);
		rest(check); /* another node probes meanwhile: this came too late */
		return;
	}
	bool out = judge_address(check, why, was_out);
	if (out != was_out)
		set_unhealthy(server, out, why, "");
	if (!why) {
		server_addresses_succeeded(
			&server->state->addresses, check->slot, check->address_id);
		server_succeeded(server);
	}
	note(check, out, why ? why : saw);
	rest(check);
}

static void fail(struct check *check, const char *why)
{
	judge(check, why, NULL);
}

/* ---- a probe --------------------------------------------------------------------------------- */

/* The header of the PROXY protocol, which names no client; its length, 0: none is due. */
static size_t write_header(const struct check *check, char out[static PROXY_WRITTEN_BYTES])
{
	enum conf_send_proxy version = check->server->upstream->conf->send_proxy;

	if (version == CONF_SEND_PROXY_OFF)
		return 0;
	return proxy_header_write(version == CONF_SEND_PROXY_V1 ? PROXY_VERSION_1 : PROXY_VERSION_2,
		true, NULL, NULL, out);
}

static const char *host_of(const struct check *check)
{
	const char *host = check->server->upstream->conf->health_host;
	const struct conf_address *address = &check->server->conf->address;

	if (host)
		return host;
	return address->kind == CONF_ADDRESS_UNIX ? "localhost" : address->text;
}

#ifdef HAVE_HTTP2
static void send_by_http2(struct check *check)
{
	const char *path = check->server->upstream->conf->health_path;
	const char *protocol = check->server->tls ? stream_protocol(&check->stream) : "h2";

	if (!protocol || strcmp(protocol, "h2") != 0) {
		fail(check, "it does not speak HTTP/2");
		return;
	}
	check->by_http2 = h2_probe_new(host_of(check), path, check->server->tls != NULL);
	if (!check->by_http2 || !h2_probe_send(check->by_http2, &check->stream)) {
		fail(check, "the probe could not be sent");
		return;
	}
	check->sent = true;
}

static void judge_status(struct check *check, const char *status);

/* Bytes that have come are read, and their memory is free again. */
static void read_by_http2(struct check *check)
{
	struct buffer *in = &check->in;
	enum h2_probe_result result =
		h2_probe_receive(check->by_http2, buffer_head(in), buffer_used(in));

	in->start = in->end = 0;
	if (result == H2_PROBE_ANSWERED)
		judge_status(check, h2_probe_status(check->by_http2));
	else if (result == H2_PROBE_BROKEN)
		fail(check, "its answer was no HTTP/2");
	else if (!h2_probe_send(check->by_http2, &check->stream))
		fail(check, "it takes nothing");
}
#endif

static void send_probe(struct check *check)
{
	const struct conf_upstream *conf = check->server->upstream->conf;
	char request[PROXY_WRITTEN_BYTES + 2048];
	size_t header = check->server->tls ? 0 : write_header(check, request);

#ifdef HAVE_HTTP2
	if (conf->protocol == CONF_PROTOCOL_HTTP2) {
		send_by_http2(check);
		return;
	}
#endif
	int len = snprintf(request + header, sizeof(request) - header,
		"GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice-health\r\n"
		"Connection: close\r\n\r\n",
		conf->health_path, host_of(check));

	struct iovec piece = {request, header + (size_t)len};
	size_t written;
	if (header + (size_t)len >= sizeof(request) ||
		stream_write(&check->stream, &piece, 1, &written) != STREAM_OK) {
		fail(check, "the probe could not be sent");
		return;
	}
	check->sent = true;
}

static void judge_status(struct check *check, const char *status)
{
	char saw[16];

	if (status[0] != '2' && status[0] != '3') {
		fail(check, "its answer was not 2xx or 3xx");
		return;
	}
	snprintf(saw, sizeof(saw), "status %.3s", status);
	judge(check, NULL, saw);
}

static void read_answer(struct check *check)
{
	switch (stream_read(&check->stream, &check->in)) {
	case STREAM_OK:
		break;
	case STREAM_AGAIN:
		return;
	case STREAM_END:
		fail(check, "closed without an answer");
		return;
	case STREAM_FAILED:
		fail(check, "reset");
		return;
	}
#ifdef HAVE_HTTP2
	if (check->by_http2) {
		read_by_http2(check);
		return;
	}
#endif
	if (buffer_used(&check->in) < 12)
		return;
	bool is_http = strncmp(check->answer, "HTTP/1.", 7) == 0 && check->answer[8] == ' ';
	judge_status(check, is_http ? check->answer + 9 : "none");
}

static void on_event(struct stream *stream)
{
	struct check *check = CONTAINER_OF(stream, struct check, stream);

	if (!check->sent) {
		const char *why = NULL;
		int error = dial_progress(stream, &why);
		if (error == 0) {
			server_warn_of_expiry(check->server);
			send_probe(check);
		} else if (error != EINPROGRESS) {
			fail(check, why);
		}
	}
	while (stream->open && check->sent && stream_may_have_more(stream))
		read_answer(check);
}

static const struct stream_calls calls = {NULL, on_event};

static bool next_address(struct check *check, struct server_address *address)
{
	struct server_addresses *addresses = &check->server->state->addresses;
	unsigned present = server_addresses_present(addresses);

	check->address_id = 0;
	if (present == 0)
		return false;
	check->slot = server_addresses_next(present, check->slot);
	if (!server_addresses_get(addresses, check->slot, address))
		return false;
	check->slot = address->slot;
	check->address_id = address->id;
	return true;
}

static void begin_probe(struct check *check)
{
	const struct conf_upstream *conf = check->server->upstream->conf;
	struct server_address address;
	uint64_t now_ms = clock_monotonic_ms();

	if (!is_mine(check)) {
		forget_probe_fails(check->server->state);
		rest(check);
		return;
	}
	/* relaxed: a counter */
	atomic_fetch_add_explicit(
		&check->server->state->upstream->probes_sent, 1, memory_order_relaxed);
	check->sent = false;
	memset(check->answer, 0, sizeof(check->answer));
	check->in = (struct buffer){.at = check->answer, .capacity = sizeof(check->answer) - 1};
	if (!next_address(check, &address)) {
		fail(check, "its name has no address");
		return;
	}
	int error = dial(&check->stream, &check->checks->streams, check->server->tls,
		(const struct sockaddr *)&address.socket, address.len, &calls);
	char header[PROXY_WRITTEN_BYTES];
	size_t len = error == 0 && check->server->tls ? write_header(check, header) : 0;
	if (len > 0 && !tls_send_first(&check->stream, header, len))
		error = ENOMEM;
	if (error != 0) {
		fail(check, strerror(error));
		return;
	}
	check->deadline.is_patient = true;
	deadline_set(&check->deadline, now_ms + conf->health_timeout_ms, now_ms);
	stream_wake(&check->stream); /* it may be connected already */
}

static void on_deadline(struct deadline *deadline)
{
	struct check *check = CONTAINER_OF(deadline, struct check, deadline);

	if (check->stream.open)
		fail(check, "timeout");
	else
		begin_probe(check);
}

/* ---- which servers are checked --------------------------------------------------------------- */

static void free_check(struct deferred_free *item)
{
	free(CONTAINER_OF(item, struct check, deferred));
}

static void check_end(struct check *check)
{
	stop(check);
	deadline_end(&check->deadline);
	loop_free_later(check->checks->loop, &check->deferred, free_check);
}

static bool is_checked(const struct checks *checks, const struct server_state *state)
{
	for (const struct check *check = checks->first; check; check = check->next) {
		if (check->server->state == state)
			return true;
	}
	return false;
}

static bool watch_server(struct checks *checks, struct server *server)
{
	struct check *check = calloc(1, sizeof(*check));
	uint64_t now_ms = clock_monotonic_ms();

	if (!check)
		return false;
	check->checks = checks;
	check->server = server;
	check->fresh = true;
	deadline_init(&check->deadline, checks->loop->base, on_deadline);
	/* A timer that is pending can be moved without memory: checks_commit does. */
	deadline_set(&check->deadline, now_ms + PREPARED_MS, now_ms);
	check->next = checks->first;
	checks->first = check;
	return true;
}

bool checks_prepare(struct checks *checks, struct site *site)
{
	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; upstream->conf->health_path && j < upstream->server_count; j++) {
			struct server *server = &upstream->servers[j];
			if (!is_checked(checks, server->state) && !watch_server(checks, server))
				return false;
		}
	}
	return true;
}

void checks_discard(struct checks *checks)
{
	struct check **at = &checks->first;

	while (*at) {
		struct check *check = *at;
		if (!check->fresh) {
			at = &check->next;
			continue;
		}
		*at = check->next;
		check_end(check);
	}
}

/* A server that is not checked any more is judged by its traffic only. */
static void forget_verdicts(const struct site *site)
{
	const struct server_finding nothing = {0};

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; !upstream->conf->health_path && j < upstream->server_count;
			j++) {
			struct server_state *state = upstream->servers[j].state;
			server_set_unhealthy(state, false);
			set_addresses_unhealthy(state, false);
			server_state_note_finding(state, &nothing);
		}
	}
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool asks_alike(const struct server *a, const struct server *b)
{
	const struct conf_upstream *old = a->upstream->conf, *now = b->upstream->conf;

	return a->tls == b->tls && old->protocol == now->protocol &&
	       is_same_text(old->health_path, now->health_path) &&
	       is_same_text(old->health_host, now->health_host);
}

/* At once, and without what is under way and what was found; whether the server is out stays. */
static void begin_again(struct check *check)
{
	const struct server_finding nothing = {0};
	uint64_t now_ms = clock_monotonic_ms();

	stop(check);
	server_state_note_finding(check->server->state, &nothing);
	forget_probe_fails(check->server->state);
	check->fresh = false;
	deadline_set(&check->deadline, now_ms, now_ms);
}

void checks_commit(struct checks *checks, struct site *site)
{
	struct check **at = &checks->first;

	while (*at) {
		struct check *check = *at;
		const struct server *before = check->server;
		check->server = site ? site_server_of(site, check->server->state) : NULL;
		if (!check->server || !check->server->upstream->conf->health_path) {
			*at = check->next;
			check_end(check);
			continue;
		}
		if (check->fresh || !asks_alike(before, check->server))
			begin_again(check);
		at = &check->next;
	}
	if (site)
		forget_verdicts(site);
	if (checks->site)
		site_release(checks->site);
	checks->site = site ? site_hold(site) : NULL;
}

void checks_free(struct checks *checks)
{
	if (!checks)
		return;
	checks_commit(checks, NULL);
	tls_end_leaving(&checks->streams);
	stream_loop_end(&checks->streams);
	free(checks);
}

/* ---- probes of several nodes ----------------------------------------------------------------- */

void checks_share(struct checks *checks, const struct check_sharing *sharing)
{
	checks->sharing = sharing;
}

void checks_hurry(struct checks *checks, const struct upstream_state *upstream)
{
	uint64_t now_ms = clock_monotonic_ms();

	for (struct check *check = checks->first; check; check = check->next) {
		if (!check->fresh && check->server->state->upstream == upstream &&
			!check->stream.open)
			deadline_set(&check->deadline, now_ms, now_ms);
	}
}

void checks_take(struct server *server, const struct server_finding *finding)
{
	bool was_out = atomic_load_explicit(&server->state->unhealthy, memory_order_relaxed);

	set_addresses_unhealthy(server->state, !finding->is_up);
	server_state_note_finding(server->state, finding);
	if (was_out == finding->is_up)
		set_unhealthy(server, !finding->is_up, finding->saw, finding->by);
}
