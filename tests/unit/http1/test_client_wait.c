/* How long a client may take: its deadlines over several bodies and responses of one connection,
 * with the time, what was sent and what came put there by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "exchange/exchange.h"
#include "http1/client_wait.h"
#include "http1/downstream.h"
#include "listen/listener.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define START_MS 1000000

/* One client's connection: what it is asked for is one exchange, which changes. */
struct world {
	struct worker worker;
	struct stats *stats;
	struct conf_listener conf;
	struct listener listener;
	struct conf_route route;
	struct downstream client;
	struct exchange exchange;
	struct flow up;
	struct http1_sink sink;
	char bytes[4];
};

/* All that was sent is taken at once. */
static size_t untaken(const struct stream *stream)
{
	(void)stream;
	return 0;
}

static void reset_at_close(struct stream *stream)
{
	(void)stream;
}

static const struct transport transport = {.untaken = untaken, .reset_at_close = reset_at_close};

static void passed(struct deadline *deadline)
{
	(void)deadline;
}

static void at(struct world *w, uint64_t ms)
{
	w->worker.loop.now_known = true;
	w->worker.loop.now_ms = START_MS + ms;
	w->worker.loop.now_ns = w->worker.loop.now_ms * CLOCK_NS_PER_MS;
}

static struct world *begin(void)
{
	static struct world world;
	struct world *w = &world;

	memset(w, 0, sizeof(*w));
	w->worker.loop.base = event_base_new();
	w->stats = stats_new(1);
	w->worker.stats = stats_block(w->stats, 0);
	w->conf.body_timeout_ms = w->conf.send_timeout_ms = 60000;
	w->listener.conf = &w->conf;
	w->route.min_rate = 100000;
	w->route.min_rate_grace_ms = 10000;
	w->client.worker = &w->worker;
	w->client.client.listener = &w->listener;
	w->client.state = DOWNSTREAM_OPEN;
	w->client.stream.transport = &transport;
	w->client.client.first = w->client.last = &w->exchange;
	w->client.begun = w->client.exchange_count = 1;
	w->exchange.client = &w->client.client;
	w->exchange.worker = &w->worker;
	w->exchange.route = &w->route;
	w->exchange.answer.progress = ANSWER_BEGUN;
	wait_init(&w->client.wait, w->worker.loop.base, passed);
	at(w, 0);
	return w;
}

static void end(struct world *w)
{
	client_wait_end(&w->client);
	wait_end(&w->client.wait);
	event_base_free(w->worker.loop.base);
	stats_free(w->stats);
}

/* There is something for the client, or nothing. */
static void has_unsent(struct world *w, bool has)
{
	w->client.out.body = (struct slice){w->bytes, has ? sizeof(w->bytes) : 0};
}

/* As the connection does whenever something has happened on it. */
static void look(struct world *w)
{
	if (!client_wait(&w->client))
		wait_none(&w->client.wait);
}

static bool is_cut(struct world *w)
{
	const char *why;

	return w->client.wait.deadline.at_ms <= worker_now_ms(&w->worker) &&
	       client_wait_is_over(&w->client, &why);
}

/* The client takes so many bytes in a second, for so long. */
static bool takes(struct world *w, uint64_t *now_ms, uint64_t per_second, uint64_t for_ms)
{
	for (uint64_t ms = 0; ms < for_ms; ms += 100) {
		*now_ms += 100;
		at(w, *now_ms);
		w->client.stream.sent += per_second / 10;
		if (is_cut(w))
			return false;
		look(w);
	}
	return true;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Takes so many bytes a second for 5 s; then nothing is there for it. False: cut meanwhile. */
static bool takes_and_rests(
	struct world *w, uint64_t *now_ms, uint64_t per_second, uint64_t rest_ms)
{
	has_unsent(w, true);
	look(w);
	bool goes_on = takes(w, now_ms, per_second, 5000);
	has_unsent(w, false);
	look(w);
	*now_ms += rest_ms;
	at(w, *now_ms);
	return goes_on;
}

static void a_response_in_stretches_has_one_grace(void **state)
{
	struct world *w = begin();
	uint64_t now_ms = 0;
	unsigned stretch = 0;
	bool goes_on = true;

	(void)state;
	/* A twentieth of the rate; each stretch alone is shorter than the grace. */
	for (; goes_on && stretch < 100; stretch++)
		goes_on = takes_and_rests(w, &now_ms, 5000, 2000);
	assert_false(goes_on);
	assert_int_equal(stretch, 3);
	end(w);
}

static void time_without_anything_for_it_costs_nothing(void **state)
{
	struct world *w = begin();
	uint64_t now_ms = 0;

	(void)state;
	for (unsigned stretch = 0; stretch < 100; stretch++)
		assert_true(takes_and_rests(w, &now_ms, 110000, 50000));
	end(w);
}

static void the_next_response_has_a_grace_of_its_own(void **state)
{
	struct world *w = begin();
	uint64_t now_ms = 0;

	(void)state;
	for (unsigned n = 0; n < 10; n++) {
		has_unsent(w, true);
		look(w);
		assert_true(takes(w, &now_ms, 0, 9000));
		w->client.begun++; /* the next request, and nothing between the responses */
		w->client.stream.sent++;
		look(w);
	}
	assert_false(takes(w, &now_ms, 0, 11000));
	end(w);
}

/* What a unix socket says that it holds is more than the bytes, so the count may go down. */
static void a_count_that_goes_down_pays_nothing(void **state)
{
	struct world *w = begin();
	uint64_t now_ms = 0;
	bool goes_on = true;

	(void)state;
	has_unsent(w, true);
	look(w);
	while (goes_on && now_ms < 60000) {
		now_ms += 100;
		at(w, now_ms);
		w->client.stream.sent = now_ms / 100 % 2 == 0 ? 100000 : 200000;
		goes_on = !is_cut(w);
		if (goes_on)
			look(w);
	}
	assert_false(goes_on);
	assert_in_range(now_ms, 10000, 13000);
	end(w);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void reads_body(struct world *w)
{
	w->client.input = INPUT_BODY;
	w->client.reading = &w->exchange;
	w->exchange.answer.progress = ANSWER_AWAITED;
	w->exchange.up.source = &w->client.source.source;
	http1_sink_init(&w->sink, NULL, &w->up, NULL);
	w->exchange.up.sink = &w->sink.sink;
	w->exchange.framing.body = HTTP_BODY_LENGTH;
}

static void the_next_body_at_the_same_byte_has_its_own_time(void **state)
{
	struct world *w = begin();

	(void)state;
	w->route.min_rate = 0;
	reads_body(w);
	w->exchange.up.content_bytes = 5;
	assert_true(client_wait(&w->client));
	at(w, 59000);
	w->client.begun++; /* what was left of it, and five bytes of the next one */
	assert_true(client_wait(&w->client));
	assert_int_equal(w->client.wait.deadline.at_ms, START_MS + 59000 + 60000);
	at(w, 60000);
	assert_true(client_wait(&w->client));
	assert_int_equal(w->client.wait.deadline.at_ms, START_MS + 59000 + 60000);
	end(w);
}

static void it_may_wait_for_a_100_that_the_server_owes(void **state)
{
	struct world *w = begin();

	(void)state;
	reads_body(w);
	w->exchange.framing.expects_continue = true;
	assert_false(client_wait(&w->client));
	w->exchange.interim.to_continue = CONTINUE_SENT;
	assert_true(client_wait(&w->client));
	assert_int_equal(w->client.wait.reason, WAIT_BODY);
	end(w);
}

static void it_may_not_stop_in_a_body_that_it_began_without_the_100(void **state)
{
	struct world *w = begin();

	(void)state;
	reads_body(w);
	w->exchange.framing.expects_continue = true;
	w->exchange.up.content_bytes = 1;
	assert_true(client_wait(&w->client));
	assert_int_equal(w->client.wait.reason, WAIT_BODY);
	end(w);
}

UNIT_SUITE(test_client_wait)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_response_in_stretches_has_one_grace),
		cmocka_unit_test(time_without_anything_for_it_costs_nothing),
		cmocka_unit_test(the_next_response_has_a_grace_of_its_own),
		cmocka_unit_test(a_count_that_goes_down_pays_nothing),
		cmocka_unit_test(the_next_body_at_the_same_byte_has_its_own_time),
		cmocka_unit_test(it_may_wait_for_a_100_that_the_server_owes),
		cmocka_unit_test(it_may_not_stop_in_a_body_that_it_began_without_the_100),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
