/* Connections to peers that answer what no Redis answers: each ends, and its owner hears why. By
 * real sockets, so that hiredis reads what they sent. */
#include "store/redis_peer.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <hiredis/async.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/container.h"
#include "store/redis_events.h"
#include "tests/unit/suite.h"

struct world {
	struct loop loop;
	struct redis_peer peer;
	int listener, accepted;
	unsigned asks;     /* commands at the beginning */
	bool subscribes;   /* the last of them is SUBSCRIBE */
	unsigned answered; /* with something */
	unsigned lost;
};

static struct world world;

static void on_answered(struct redisAsyncContext *redis, void *reply, void *arg)
{
	(void)redis;
	(void)arg;
	world.answered += reply != NULL;
}

static void on_entering(struct redis_peer *peer)
{
	for (unsigned i = 0; i < world.asks; i++)
		redisAsyncCommand(peer->redis, on_answered, NULL,
			world.subscribes && i + 1 == world.asks ? "SUBSCRIBE c" : "PING");
	redis_events_flush(peer->redis);
}

static void on_lost(struct redis_peer *peer)
{
	assert_ptr_equal(peer, &world.peer);
	world.lost++;
}

static const struct redis_peer_calls calls = {on_entering, on_lost};

static void listen_here(struct sockaddr_in *here)
{
	socklen_t len = sizeof(*here);

	*here = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	world.listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(world.listener >= 0);
	assert_int_equal(bind(world.listener, (const struct sockaddr *)here, len), 0);
	assert_int_equal(listen(world.listener, 1), 0);
	assert_int_equal(getsockname(world.listener, (struct sockaddr *)here, &len), 0);
}

static void begin(unsigned asks, bool subscribes)
{
	struct sockaddr_in here;

	world = (struct world){.asks = asks, .subscribes = subscribes};
	listen_here(&here);
	assert_int_equal(loop_init(&world.loop), 0);
	redis_peer_init(&world.peer, &calls, &world.loop, NULL);
	redis_peer_open(&world.peer, "127.0.0.1", ntohs(here.sin_port), NULL, NULL);
	redis_peer_entered(&world.peer);
	world.accepted = accept(world.listener, NULL, NULL);
	assert_true(world.accepted >= 0);
}

static void end(void)
{
	redis_peer_end(&world.peer);
	loop_end(&world.loop);
	close(world.accepted);
	close(world.listener);
}

/* Sends it, in turns of the loop, and the end of the connection behind it. */
static void send_bytes(const char *bytes, size_t len)
{
	while (len > 0 && world.lost == 0) {
		ssize_t sent = send(world.accepted, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			bytes += sent;
			len -= (size_t)sent;
		}
		event_base_loop(world.loop.base, EVLOOP_NONBLOCK);
	}
	shutdown(world.accepted, SHUT_WR);
	while (world.lost == 0)
		event_base_loop(world.loop.base, EVLOOP_ONCE);
	assert_int_equal(world.lost, 1);
}

static void expect(
	unsigned asks, bool subscribes, const char *bytes, unsigned answered, const char *why)
{
	begin(asks, subscribes);
	send_bytes(bytes, strlen(bytes));
	if (world.answered != answered || !strstr(world.peer.why, why))
		print_message("of %s: %u answers, %s\n", bytes, world.answered, world.peer.why);
	assert_int_equal(world.answered, answered);
	assert_non_null(strstr(world.peer.why, why));
	end();
}

#define UNASKED "it sent an answer without a question"
#define MESSAGE "it sends an invalid message of a channel"
#define CLOSED  "Server closed the connection"

static void what_was_not_asked_ends_it(void **state)
{
	static const char *const replies[] = {"+OK\r\n", ":1\r\n", "$2\r\nhi\r\n", "$-1\r\n",
		"*-1\r\n", "*0\r\n", "*1\r\n:1\r\n"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		expect(0, false, replies[i], 0, UNASKED);
		snprintf(text, sizeof(text), "+PONG\r\n%s+PONG\r\n", replies[i]);
		expect(1, false, text, 1, UNASKED);
	}
	expect(2, false, "+PONG\r\n*1\r\n+PONG\r\n", 2, CLOSED);
	expect(0, false, "-ERR max number of clients reached\r\n", 0, "max number of clients");
}

static void a_channel_sends_messages_only(void **state)
{
	static const char *const wrong[] = {"*0\r\n", "*-1\r\n", "*1\r\n$7\r\nmessage\r\n",
		"*3\r\n:1\r\n$1\r\nc\r\n$1\r\na\r\n", "*3\r\n$7\r\nmessage\r\n:1\r\n$1\r\na\r\n",
		"*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\na\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*0\r\n",
		"*4\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\na\r\n$1\r\na\r\n"};
	static const char good[] = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
				   "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\na\r\n";

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect(1, true, wrong[i], 0, MESSAGE);
	expect(1, true, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n$1\r\na\r\n", 0,
		"ends a subscription");
	expect(1, true, "*3\r\n$12\r\nPUNSUBSCRIBE\r\n$1\r\nc\r\n:0\r\n", 0, "ends a subscription");
	expect(1, true, "+OK\r\n", 0, UNASKED);
	expect(1, true, good, 2, CLOSED);
	expect(2, true, "+PONG\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\na\r\n", 2, CLOSED);
	expect(2, true, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", 1, CLOSED);
}

static void a_reply_is_no_larger_than_it_may_be(void **state)
{
	size_t len = 2 * REDIS_BYTES_MOST;
	char *bytes = malloc(len);

	(void)state;
	assert_non_null(bytes);
	expect(1, false, "*2000000000\r\n", 0, "too many elements");
	expect(1, false, "*2\r\n*1048575\r\n", 0, "too many elements");
	memset(bytes, 'a', len);
	memcpy(bytes, "$99999999999\r\n", 14);
	for (unsigned asks = 0; asks < 2; asks++) {
		begin(asks, false);
		send_bytes(bytes, len);
		assert_string_equal(world.peer.why, "a reply has too many bytes");
		assert_int_equal(world.answered, 0);
		end();
	}
	free(bytes);
}

UNIT_SUITE(test_redis_peer)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_asked_ends_it),
		cmocka_unit_test(a_channel_sends_messages_only),
		cmocka_unit_test(a_reply_is_no_larger_than_it_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
