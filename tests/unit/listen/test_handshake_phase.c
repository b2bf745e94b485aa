/* Connections whose transport has a handshake: when they become clients, and how they end before
 * that. The transport is in memory, and the listening socket a fake. */
#include "listen/handshake_phase.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "fake_acceptor.h"
#include "http/forwarded.h"
#include "listen/accepted.h"
#include "listen/give_way.h"
#include "listen/listener.h"
#include "tests/unit/exchange/fakes/stage.h"
#include "tests/unit/net/memory_stream.h"
#include "tests/unit/suite.h"

#define ROOM       64
#define TIMEOUT_MS 10000
#define MOST       50

struct world {
	struct stage *stage;
	struct worker *worker;
	struct binding binding;
	struct connection_bound bound;
	struct listener *listeners[1], *listener;
	struct stream_export export;
};

static unsigned first_taken, second_taken;
static struct stream_export client;

static struct client_entry *entries[4];
static struct accepted accepted; /* the last one taken */

static void take_first(struct worker *worker, struct listener *listener, struct accepted *taken)
{
	assert_ptr_equal(listener->worker, worker);
	entries[first_taken++ % 4] = taken->entry;
	accepted = *taken;
	client = taken->stream;
}

static void take_second(struct worker *worker, struct listener *listener, struct accepted *taken)
{
	take_first(worker, listener, taken);
	first_taken--;
	second_taken++;
}

static void none_notified(struct stream *stream)
{
	(void)stream;
}

static bool none_lingers(struct listener *listener)
{
	(void)listener;
	return false;
}

static struct idle_link *none_is_idle(struct worker *worker, const struct connection_bound *bound)
{
	(void)worker;
	(void)bound;
	return NULL;
}

static const struct protocol first = {.name = "http/1.1",
	.bit = CONF_PROTOCOL_HTTP1,
	.plain_answer = "plain answer",
	.take_client = take_first,
	.give_way = none_lingers,
	.find_idle = none_is_idle};
static const struct protocol second = {.name = "h2",
	.bit = CONF_PROTOCOL_HTTP2,
	.take_client = take_second,
	.give_way = none_lingers,
	.find_idle = none_is_idle};
static const struct protocol *const protocols[] = {&first, &second, NULL};

static void begin(struct world *w, const struct stage_conf *conf)
{
	static int sockets[1];

	fake = (struct fake_acceptor){.handshakes = HANDSHAKES_NONE};
	first_taken = second_taken = 0;
	*w = (struct world){.stage = stage_begin(conf)};
	w->worker = w->stage->worker;
	/* Both, whatever this build speaks. */
	struct conf_listener *conf_listener =
		(struct conf_listener *)(uintptr_t)w->stage->daemon.site->conf->listeners;
	conf_listener->protocols = CONF_PROTOCOL_HTTP1 | CONF_PROTOCOL_HTTP2;
	w->listeners[0] = w->listener = calloc(1, sizeof(struct listener));
	assert_non_null(w->listener);
	sockets[0] = FAKE_DESCRIPTOR;
	w->binding = (struct binding){.text = (char[]){"127.0.0.1:1"},
		.sockets = sockets,
		.listeners = w->listeners,
		.workers = 1,
		.bound = &w->bound};
	w->stage->daemon.listening.bindings = &w->binding;
	pthread_mutex_init(&w->stage->daemon.listening.lock, NULL);
	listeners_update(w->worker, protocols);
}

static void end(struct world *w)
{
	w->stage->daemon.listening.bindings = NULL;
	listeners_close(w->worker);
	assert_null(listen_part(w->worker)->listeners);
	assert_int_equal(w->bound.connections, 0);
	assert_int_equal(w->stage->daemon.listening.descriptors.connections, 0);
	pthread_mutex_destroy(&w->stage->daemon.listening.lock);
	stage_turn(w->stage);
	stage_end(w->stage);
}

static struct memory_peer *come_with_room(
	struct world *w, size_t room, unsigned bytes, const char *protocol)
{
	struct memory_peer *peer = memory_handshake_new(&w->export, room, bytes, protocol);

	fake.next = &w->export;
	fake.waiting = 1;
	fake.ready(&w->listener->acceptor);
	stage_turn(w->stage);
	return peer;
}

static struct memory_peer *come(struct world *w, unsigned bytes, const char *protocol)
{
	return come_with_room(w, ROOM, bytes, protocol);
}

static void leave(struct world *w, struct memory_peer *peer)
{
	stream_export_close(&client);
	listener_connection_closed(w->listener, accepted.entry);
	memory_peer_close(peer);
}

static bool is_closed(struct memory_peer *peer)
{
	char text[ROOM];

	return memory_peer_receive(peer, text, sizeof(text)) == -1;
}

static const struct stage_conf plain = {0};

/* ---- what comes of it ------------------------------------------------------------------------ */

static void a_client_is_one_after_its_handshake(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL);
	assert_int_equal(w.listener->handshakes.count, 1);
	assert_int_equal(w.listener->connections, 1); /* it has its place already */
	assert_int_equal(w.bound.connections, 1);
	memory_peer_send(peer, "ab", 2);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 0);
	memory_peer_send(peer, "cGET", 4);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 1);
	assert_int_equal(w.listener->handshakes.count, 0);
	assert_int_equal(w.listener->connections, 1);
	assert_false(stream_export_is_silent(&client)); /* the request is still to be read */
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_DONE), 1);
	leave(&w, peer);
	end(&w);
}

/* Others get their turn between them. */
static void few_continue_in_one_turn(void **state)
{
	struct memory_peer *peers[3 * HANDSHAKES_A_TURN];
	struct world w;

	(void)state;
	begin(&w, &plain);
	for (unsigned i = 0; i < 3 * HANDSHAKES_A_TURN; i++)
		peers[i] = come(&w, 3, NULL);
	for (unsigned i = 0; i < 3 * HANDSHAKES_A_TURN; i++)
		memory_peer_close(peers[i]); /* each fails when it continues */
	for (unsigned turns = 1; turns <= 3; turns++) {
		stage_turn(w.stage);
		assert_int_equal(w.listener->handshakes.count, (3 - turns) * HANDSHAKES_A_TURN);
	}
	end(&w);
}

static void the_handshake_chooses_the_protocol(void **state)
{
	static const char *const names[] = {NULL, "http/1.1", "h2", "spdy/1"};
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 0, names[i]);
		assert_int_equal(first_taken, i != 2);
		assert_int_equal(second_taken, i == 2);
		leave(&w, peer);
		end(&w);
	}
}

static void a_failed_one_is_no_client(void **state)
{
	struct world w;

	(void)state;
	for (unsigned ends = 0; ends < 3; ends++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 3, NULL);
		if (ends == 0)
			memory_peer_send(peer, "aX", 2);
		else if (ends == 1)
			memory_peer_end_output(peer);
		else
			memory_peer_reset(peer);
		stage_turn(w.stage);
		assert_int_equal(w.listener->connections, 0);
		assert_int_equal(first_taken, 0);
		assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_FAILED), 1);
		memory_peer_close(peer);
		end(&w);
	}
}

static void one_that_speaks_without_it_is_told(void **state)
{
	struct world w;
	char text[ROOM];

	(void)state;
	for (unsigned leaves = 0; leaves < 2; leaves++) {
		begin(&w, &plain);
		struct memory_peer *peer = come(&w, 3, NULL);
		memory_peer_send(peer, "HEAD / and more", 15);
		stage_turn(w.stage);
		assert_int_equal(memory_peer_receive(peer, text, sizeof(text)), 12);
		assert_memory_equal(text, "plain answer", 12);
		assert_true(is_closed(peer));
		assert_int_equal(w.listener->connections, 1); /* it may still send */
		memory_peer_send(peer, "yet more", 8);
		stage_turn(w.stage);
		assert_int_equal(w.listener->connections, 1);
		if (leaves) {
			memory_peer_end_output(peer);
			stage_turn(w.stage);
		} else {
			assert_int_equal(w.listener->handshakes.deadline.at_ms,
				STAGE_START_MS + HANDSHAKE_ANSWER_MS);
			stage_pass(w.stage, &w.listener->handshakes.deadline);
		}
		assert_int_equal(w.listener->connections, 0);
		assert_int_equal(first_taken, 0);
		memory_peer_close(peer);
		end(&w);
	}
}

/* It sends faster than it is read. */
static void what_it_sends_has_its_turn_only(void **state)
{
	static char much[1024 * 1024] = "HEAD / and more";
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come_with_room(&w, sizeof(much), 3, NULL);
	assert_int_equal(memory_peer_send(peer, much, sizeof(much)), sizeof(much));
	stage_turn(w.stage);
	assert_in_range(memory_peer_send(peer, much, sizeof(much)), 1, 128 * 1024);
	for (unsigned turn = 0; turn < 64; turn++)
		stage_turn(w.stage);
	assert_int_equal(memory_peer_send(peer, much, sizeof(much)), sizeof(much));
	assert_int_equal(w.listener->connections, 1);
	memory_peer_close(peer);
	for (unsigned turn = 0; turn < 64; turn++)
		stage_turn(w.stage);
	assert_int_equal(w.listener->connections, 0);
	end(&w);
}

/* ---- its bounds ------------------------------------------------------------------------------ */

static void it_has_a_deadline_that_bytes_do_not_move(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL);
	stage_at(w.stage, TIMEOUT_MS - 1);
	memory_peer_send(peer, "a", 1);
	stage_turn(w.stage);
	assert_int_equal(w.listener->handshakes.count, 1);
	handshakes_drain(w.listener); /* which moves it to nearer ones only */
	assert_int_equal(w.listener->handshakes.deadline.at_ms, STAGE_START_MS + TIMEOUT_MS);
	stage_pass(w.stage, &w.listener->handshakes.deadline);
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_LATE), 1);
	assert_true(is_closed(peer));
	memory_peer_close(peer);
	end(&w);
}

static void the_oldest_leaves_beyond_the_bound(void **state)
{
	struct memory_peer *peers[MOST + 1];
	const struct stage_conf conf = {.listener = "max_handshakes = 50"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	unsigned most = (MOST + w.worker->node->worker_count - 1) / w.worker->node->worker_count;
	for (unsigned i = 0; i <= most; i++)
		peers[i] = come(&w, 3, NULL);
	assert_int_equal(w.listener->handshakes.count, most);
	assert_int_equal(w.listener->connections, most);
	assert_true(is_closed(peers[0]));
	assert_false(is_closed(peers[1]));
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_DISPLACED), 1);
	listeners_close(w.worker);
	for (unsigned i = 0; i <= most; i++)
		memory_peer_close(peers[i]);
	end(&w);
}

static void a_silent_one_makes_room(void **state)
{
	const struct stage_conf conf = {.listener = "max_connections = 2"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	struct memory_peer *silent = come(&w, 3, NULL), *slow = come(&w, 3, NULL);
	assert_false(handshake_give_way(w.listener));
	stage_at(w.stage, HANDSHAKE_SILENT_MS);
	memory_peer_send(silent, "a", 1);
	stage_turn(w.stage);
	assert_true(give_way(w.listener, &w.bound));
	assert_int_equal(w.listener->connections, 1);
	assert_true(is_closed(slow));
	assert_false(is_closed(silent));
	assert_false(handshake_give_way(w.listener));
	memory_peer_close(slow);
	listeners_close(w.worker);
	memory_peer_close(silent);
	end(&w);
}

/* ---- the end of its listener ----------------------------------------------------------------- */

static void a_drain_waits_for_it_a_moment(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL), *silent = come(&w, 3, NULL);
	w.worker->draining = true;
	fake.waiting = 0;
	listeners_retire(w.worker);
	while (!w.listener->closed)
		stage_pass(w.stage, &w.listener->quiet);
	assert_false(listeners_are_closed(w.worker));
	memory_peer_send(peer, "abc", 3);
	stage_turn(w.stage);
	assert_int_equal(first_taken, 1);
	assert_false(listeners_are_closed(w.worker));
	assert_int_equal(
		w.listener->handshakes.deadline.at_ms, STAGE_START_MS + HANDSHAKE_SILENT_MS);
	stage_pass(w.stage, &w.listener->handshakes.deadline);
	assert_true(listeners_are_closed(w.worker));
	leave(&w, peer); /* and frees the listener */
	memory_peer_close(silent);
	end(&w);
}

static void a_stop_ends_those_of_a_closed_listener(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &plain);
	struct memory_peer *peer = come(&w, 3, NULL), *other = come(&w, 3, NULL);
	w.binding.handed_over = true;
	listeners_hand_over(w.worker);
	assert_true(w.listener->closed);
	listeners_close(w.worker);
	assert_null(listen_part(w.worker)->listeners);
	memory_peer_close(peer);
	memory_peer_close(other);
	end(&w);
}

/* ---- headers of proxies ---------------------------------------------------------------------- */

static const struct stage_conf with_header = {
	.listener = "trusted_proxies = 192.0.2.0/24\nproxy_protocol = on"};
static const struct stage_conf needs_header = {
	.listener = "trusted_proxies = 192.0.2.0/24\nproxy_protocol = required"};

/* A connection from that address, with a transport that has no handshake. */
static struct memory_peer *come_from(struct world *w, const char *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct memory_peer *peer = memory_export_new(&w->export, 4096);

	inet_pton(AF_INET, address, &in.sin_addr);
	memcpy(&fake.peer, &in, sizeof(in));
	fake.peer_len = sizeof(in);
	fake.next = &w->export;
	fake.waiting = 1;
	fake.ready(&w->listener->acceptor);
	stage_turn(w->stage);
	return peer;
}

static void send_bytes(struct world *w, struct memory_peer *peer, struct slice bytes)
{
	assert_int_equal(memory_peer_send(peer, bytes.at, bytes.len), bytes.len);
	stage_turn(w->stage);
}

/* The address of the client that was taken last. */
static const char *taken_from(const struct world *w)
{
	static char text[FORWARDED_ADDRESS_BYTES + 1];
	struct forwarded_peer peer;

	forwarded_peer_init(&peer, (const struct sockaddr *)&accepted.peer, accepted.peer_len,
		&w->listener->conf->trusted_proxies);
	snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(forwarded_peer_text(&peer)));
	return text;
}

#define V2_HEADER                                                                                  \
	"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"                                                       \
	"\xcb\0\x71\7\xc6\x33\x64\1\1\2\0\x50"

static void a_header_names_the_client_at_every_cut(void **state)
{
	static const struct slice headers[] = {
		SLICE("PROXY TCP4 203.0.113.7 198.51.100.1 258 80\r\n"), SLICE(V2_HEADER)};
	struct world w;

	(void)state;
	for (size_t i = 0; i < 2 * headers[0].len; i++) {
		struct slice header = headers[i % 2];
		size_t cut = i / 2 < header.len ? i / 2 : header.len;
		begin(&w, &with_header);
		struct memory_peer *peer = come_from(&w, "192.0.2.1");
		if (cut > 0)
			send_bytes(&w, peer, (struct slice){header.at, cut});
		assert_int_equal(first_taken, cut == header.len);
		assert_int_equal(w.listener->connections, 1);
		send_bytes(&w, peer, (struct slice){header.at + cut, header.len - cut});
		send_bytes(&w, peer, SLICE("GET /"));
		assert_int_equal(first_taken, 1);
		assert_int_equal(w.listener->handshakes.count, 0);
		assert_string_equal(taken_from(&w), "203.0.113.7");
		assert_null(accepted.entry);
		assert_int_equal(stage_count(w.stage, STATS_PROXY_HEADERS_READ), 1);
		leave(&w, peer);
		end(&w);
	}
}

/* What is behind it is the client's, to the byte. */
static void what_follows_a_header_is_left(void **state)
{
	static const struct stream_calls none = {NULL, none_notified};
	struct world w;
	struct stream stream;
	char bytes[64];
	struct buffer buffer = {.at = bytes, .capacity = sizeof(bytes)};

	(void)state;
	begin(&w, &with_header);
	struct memory_peer *peer = come_from(&w, "192.0.2.1");
	send_bytes(&w, peer, SLICE(V2_HEADER "GET / HTTP/1.1\r\n"));
	assert_int_equal(first_taken, 1);
	assert_true(stream_import(&stream, &w.worker->streams, &client, &none));
	assert_int_equal(stream_read(&stream, &buffer), STREAM_OK);
	assert_int_equal(buffer.end, 16);
	assert_memory_equal(bytes, "GET / HTTP/1.1\r\n", 16);
	stage_turn(w.stage);
	client = stream_export(&stream);
	leave(&w, peer);
	end(&w);
}

static void who_may_come_without_a_header(void **state)
{
	struct world w;

	(void)state;
	for (unsigned required = 0; required < 2; required++) {
		for (unsigned trusted = 0; trusted < 2; trusted++) {
			begin(&w, required ? &needs_header : &with_header);
			struct memory_peer *peer =
				come_from(&w, trusted ? "192.0.2.1" : "198.51.100.9");
			send_bytes(&w, peer, SLICE("P"));
			assert_int_equal(first_taken, 0);
			send_bytes(&w, peer, SLICE("OST / HTTP/1.1\r\n"));
			assert_int_equal(first_taken, !required);
			assert_int_equal(
				stage_count(w.stage, STATS_PROXY_HEADERS_MISSING), required);
			if (required) {
				assert_true(is_closed(peer));
				memory_peer_close(peer);
			} else {
				assert_string_equal(
					taken_from(&w), trusted ? "192.0.2.1" : "198.51.100.9");
				leave(&w, peer);
			}
			end(&w);
		}
	}
}

/* As soon as it can be nothing else. */
static void a_strangers_header_ends_it_with_a_line(void **state)
{
	struct world w;

	(void)state;
	for (unsigned v2 = 0; v2 < 2; v2++) {
		begin(&w, &with_header);
		lines_clear();
		struct memory_peer *peer = come_from(&w, "198.51.100.9");
		send_bytes(&w, peer, v2 ? (struct slice){V2_HEADER, 12} : SLICE("PROXY "));
		assert_true(is_closed(peer));
		assert_int_equal(w.listener->connections, 0);
		assert_int_equal(stage_count(w.stage, STATS_PROXY_HEADERS_UNTRUSTED), 1);
		memory_peer_close(peer);
		peer = come_from(&w, "198.51.100.10");
		send_bytes(&w, peer, SLICE(V2_HEADER));
		assert_true(is_closed(peer));
		memory_peer_close(peer);
		assert_has(lines.text,
			"listener l: connection from 198.51.100.9 refused: it begins "
			"with a PROXY header and is not among trusted_proxies");
		assert_null(strstr(lines.text, "198.51.100.10")); /* one line a minute */
		end(&w);
	}
}

static void a_malformed_header_ends_it(void **state)
{
	static const char *const bad[] = {"PROXY TCP4 1 2 3 4\r\n", "PROXY TCP4 x", "PROX"};
	struct world w;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin(&w, &with_header);
		struct memory_peer *peer = come_from(&w, "192.0.2.1");
		send_bytes(&w, peer, slice_of(bad[i]));
		if (i > 0) { /* not malformed yet, but there is no more of it */
			assert_int_equal(w.listener->connections, 1);
			memory_peer_end_output(peer);
			stage_turn(w.stage);
		}
		assert_true(is_closed(peer));
		assert_int_equal(first_taken, 0);
		assert_int_equal(stage_count(w.stage, STATS_PROXY_HEADERS_MALFORMED), 1);
		memory_peer_close(peer);
		end(&w);
	}
}

static void one_that_never_comes_is_late(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &needs_header);
	struct memory_peer *peer = come_from(&w, "192.0.2.1");
	send_bytes(&w, peer, SLICE("PROXY"));
	assert_int_equal(w.listener->handshakes.deadline.at_ms, STAGE_START_MS + TIMEOUT_MS);
	stage_pass(w.stage, &w.listener->handshakes.deadline);
	assert_true(is_closed(peer));
	assert_int_equal(stage_count(w.stage, STATS_PROXY_HEADERS_LATE), 1);
	assert_int_equal(stage_count(w.stage, STATS_HANDSHAKES_LATE), 0);
	memory_peer_close(peer);
	end(&w);
}

/* Where no address of a client is known, fields about others are a client's. */
static void a_client_without_address_is_never_trusted(void **state)
{
	static const struct slice unknown = SLICE("PROXY UNKNOWN\r\n"),
				  local = SLICE("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
	struct forwarded_peer peer;
	struct stream stream;
	struct world w;
	static const struct stream_calls none = {NULL, none_notified};

	(void)state;
	for (unsigned is_local = 0; is_local < 2; is_local++) {
		begin(&w, &with_header);
		struct memory_peer *wire = come_from(&w, "192.0.2.1");
		send_bytes(&w, wire, is_local ? local : unknown);
		assert_int_equal(first_taken, 1);
		assert_true(stream_import(&stream, &w.worker->streams, &client, &none));
		accepted_init_peer(&accepted, &stream, &peer, &w.listener->conf->trusted_proxies);
		assert_string_equal(peer.text, "192.0.2.1");
		assert_int_equal(peer.trusted, is_local);
		forwarded_peer_judge(&peer, &w.listener->conf->trusted_proxies);
		assert_int_equal(peer.trusted, is_local);
		stage_turn(w.stage);
		client = stream_export(&stream);
		leave(&w, wire);
		end(&w);
	}
}

static void a_header_tells_of_tls(void **state)
{
	static const struct stream_calls none = {NULL, none_notified};
	struct forwarded_peer peer;
	struct stream stream;
	struct world w;

	(void)state;
	begin(&w, &with_header);
	struct memory_peer *wire = come_from(&w, "192.0.2.1");
	send_bytes(&w, wire,
		SLICE("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x38"
		      "\xcb\0\x71\7\xc6\x33\x64\1\1\2\0\x50"
		      "\2\0\x08"
		      "Api.Test\x20\0\x1e\3\0\0\0\0\x21\0\7TLSv1.3\x22\0\x0c"
		      "alice,O=evil"));
	assert_int_equal(first_taken, 1);
	assert_true(stream_import(&stream, &w.worker->streams, &client, &none));
	accepted_init_peer(&accepted, &stream, &peer, &w.listener->conf->trusted_proxies);
	assert_true(peer.is_https);
	const struct tls_identity *tls = tls_facts_identify(accepted_tls(&accepted, &stream));
	assert_true(slice_equal(tls->facts[TLS_FACT_VERSION], SLICE("1.3")));
	assert_true(slice_equal(tls->facts[TLS_FACT_NAME], SLICE("api.test")));
	assert_true(slice_equal(tls->facts[TLS_FACT_SUBJECT], SLICE("CN=alice\\,O\\=evil")));
	assert_int_equal(tls->facts[TLS_FACT_FINGERPRINT].len, 0);
	assert_false(tls_facts_is_misdirected(accepted_tls(&accepted, &stream), SLICE("other")));
	stage_turn(w.stage);
	client = stream_export(&stream);
	leave(&w, wire);
	end(&w);
}

/* ---- limits of connections ------------------------------------------------------------------- */

static const struct stage_conf with_limits = {
	.listener = "limits = few, slow\ntrusted_proxies = 192.0.2.0/24\nproxy_protocol = on",
	.more = "[limit few]\nunit = connections\nkey = ip\nconcurrency = 2\n"
		"[limit slow]\nunit = connections\nkey = ip/24\nrate = 4 per 1h\n"
		"refuse_by = close\n"};

static void send_header(struct world *w, struct memory_peer *peer, const char *address)
{
	char line[128];

	snprintf(line, sizeof(line), "PROXY TCP4 %s 198.51.100.1 1 2\r\n", address);
	send_bytes(w, peer, slice_of(line));
}

static bool is_reset(struct memory_peer *peer)
{
	char text[ROOM];

	return memory_peer_receive(peer, text, sizeof(text)) == -2;
}

/* By the address of the header, and a place goes back with its connection. */
static void connections_have_limits(void **state)
{
	struct memory_peer *peers[4];
	struct accepted one, two;
	struct world w;

	(void)state;
	begin(&w, &with_limits);
	for (unsigned i = 0; i < 2; i++) {
		peers[i] = come_from(&w, "192.0.2.1");
		send_header(&w, peers[i], "203.0.113.7");
		assert_int_equal(first_taken, i + 1);
		assert_non_null(accepted.entry);
		*(i == 0 ? &one : &two) = accepted;
	}
	peers[2] = come_from(&w, "192.0.2.1"); /* a third one of that address */
	send_header(&w, peers[2], "203.0.113.7");
	assert_int_equal(first_taken, 2);
	assert_true(is_reset(peers[2]));
	memory_peer_close(peers[2]);
	peers[2] = come_from(&w, "192.0.2.1"); /* another one, the third of its network */
	send_header(&w, peers[2], "203.0.113.8");
	assert_int_equal(first_taken, 3);
	leave(&w, peers[2]);
	stream_export_close(&one.stream);
	listener_connection_closed(w.listener, one.entry);
	memory_peer_close(peers[0]);
	peers[0] = come_from(&w, "192.0.2.1"); /* its place is free: the fourth of the network */
	send_header(&w, peers[0], "203.0.113.7");
	assert_int_equal(first_taken, 4);
	leave(&w, peers[0]);
	peers[3] = come_from(&w, "192.0.2.1"); /* which may open no fifth */
	send_header(&w, peers[3], "203.0.113.9");
	assert_int_equal(first_taken, 4);
	assert_true(is_closed(peers[3]));
	assert_int_equal(w.listener->connections, 1);
	memory_peer_close(peers[3]);
	stream_export_close(&two.stream);
	listener_connection_closed(w.listener, two.entry);
	memory_peer_close(peers[1]);
	end(&w);
}

/* Each has its own place, also of those that are accepted in one go. */
static void connections_of_one_batch_have_their_own_places(void **state)
{
	static const struct stage_conf conf = {.listener = "limits = few",
		.more = "[limit few]\nunit = connections\nkey = ip\nconcurrency = 2\n"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	fake.waiting = 2;
	fake.ready(&w.listener->acceptor);
	assert_int_equal(first_taken, 2);
	assert_non_null(entries[0]);
	assert_non_null(entries[1]);
	assert_ptr_not_equal(entries[0], entries[1]);
	for (unsigned i = 0; i < 2; i++)
		listener_connection_closed(w.listener, entries[i]);
	fake.waiting = 2;
	fake.ready(&w.listener->acceptor);
	assert_int_equal(first_taken, 4);
	for (unsigned i = 2; i < 4; i++)
		listener_connection_closed(w.listener, entries[i]);
	end(&w);
}

/* Before the handshake has cost anything. */
static void limits_are_asked_before_a_handshake(void **state)
{
	static const struct stage_conf conf = {.listener = "limits = few",
		.more = "[limit few]\nunit = connections\nkey = ip\nconcurrency = 1\n"};
	struct world w;

	(void)state;
	begin(&w, &conf);
	struct memory_peer *peer = come(&w, 3, NULL), *other = come(&w, 3, NULL);
	assert_int_equal(w.listener->handshakes.count, 1);
	assert_true(is_reset(other));
	memory_peer_send(peer, "abX", 3); /* it fails, and its place is free */
	stage_turn(w.stage);
	assert_int_equal(w.listener->connections, 0);
	memory_peer_close(peer);
	memory_peer_close(other);
	peer = come(&w, 0, NULL);
	assert_int_equal(first_taken, 1);
	leave(&w, peer);
	end(&w);
}

UNIT_SUITE(test_handshake_phase)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_is_one_after_its_handshake),
		cmocka_unit_test(few_continue_in_one_turn),
		cmocka_unit_test(the_handshake_chooses_the_protocol),
		cmocka_unit_test(a_failed_one_is_no_client),
		cmocka_unit_test(one_that_speaks_without_it_is_told),
		cmocka_unit_test(what_it_sends_has_its_turn_only),
		cmocka_unit_test(it_has_a_deadline_that_bytes_do_not_move),
		cmocka_unit_test(the_oldest_leaves_beyond_the_bound),
		cmocka_unit_test(a_silent_one_makes_room),
		cmocka_unit_test(a_drain_waits_for_it_a_moment),
		cmocka_unit_test(a_stop_ends_those_of_a_closed_listener),
		cmocka_unit_test(a_header_names_the_client_at_every_cut),
		cmocka_unit_test(what_follows_a_header_is_left),
		cmocka_unit_test(who_may_come_without_a_header),
		cmocka_unit_test(a_strangers_header_ends_it_with_a_line),
		cmocka_unit_test(a_malformed_header_ends_it),
		cmocka_unit_test(one_that_never_comes_is_late),
		cmocka_unit_test(a_client_without_address_is_never_trusted),
		cmocka_unit_test(a_header_tells_of_tls),
		cmocka_unit_test(connections_have_limits),
		cmocka_unit_test(connections_of_one_batch_have_their_own_places),
		cmocka_unit_test(limits_are_asked_before_a_handshake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
