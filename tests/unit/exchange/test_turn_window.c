/*
 * What a limit that delays has promised of the server's side: no window of its length ever gets
 * more than its amount, whatever a request waited for between its verdict and its leaving. First
 * each kind of waiting, then many at random:
 *
 *   SEED=7 HISTORIES=1 tests/unit/exchange/test_turn_window
 */
#include "exchange/turn.h"

#include "conf/conf.h"
#include "exchange/forward.h"
#include "fakes/stage.h"
#include "stats/stats.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define POST "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

#define DELAYING(rate, most)                                                                       \
	"[limit slow]\nkey = ip\nrate = " rate "\non_exceed = delay " most "\nprecision = exact\n"
#define ROUTE "limits = slow\nqueue_timeout = 1h\n"

static void pass(struct stage *stage, uint64_t ms)
{
	stage->daemon.node.anchor.offset_ns += ms * CLOCK_NS_PER_MS;
	stage_at(stage, worker_now_ms(stage->worker) - STAGE_START_MS + ms);
}

static uint64_t limit_count(const struct stage *stage, enum stats_limit_verdict verdict)
{
	uint64_t slots[STATS_LIMIT_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_LIMIT, stage->daemon.site->rows.limits[0], slots);
	return slots[STATS_LIMIT_VERDICT + verdict];
}

static void answered(struct stage *stage, struct exchange *x)
{
	exchange_end(x);
	stage_turn(stage);
}

/* ---- what it waited for ---------------------------------------------------------------------- */

static const struct stage_conf one_place = {
	.upstream = "max_in_flight = 1", .route = ROUTE, .more = DELAYING("2 per 10s", "1m")};

static void it_is_charged_when_it_gets_its_place(void **state)
{
	struct stage *stage = stage_begin(&one_place);
	struct exchange *first = stage_ask(stage, POST), *x = stage_other_asks(stage, POST);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_true(gate_receipt_is_empty(&x->gate->receipt)); /* what waits has nothing */
	pass(stage, 20000);
	answered(stage, first);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_false(gate_receipt_is_empty(&x->gate->receipt));
	answered(stage, x);
	x = stage_ask(stage, POST);
	assert_int_equal(x->state, EXCHANGE_FORWARDING); /* the second of this window */
	answered(stage, x);
	x = stage_ask(stage, POST);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	pass(stage, 10100);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	answered(stage, x);
	assert_int_equal(limit_count(stage, STATS_LIMIT_ADMITTED), 4); /* each once */
	stage_end(stage);
}

static void what_waits_behind_a_delayed_one_leaves_it_the_budget(void **state)
{
	const struct stage_conf conf = {.route = ROUTE "ordering = strict\nsession = query:s\n",
		.more = DELAYING("1 per 10s", "1m")};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x, *behind;

	(void)state;
	answered(stage, stage_ask(stage, POST));
	x = stage_ask(stage, POST);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	pass(stage, 10100); /* its deadline has not passed yet, and another one comes */
	behind = stage_other_asks(stage, POST);
	assert_int_equal(behind->state, EXCHANGE_QUEUED);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	answered(stage, x);
	assert_int_equal(behind->state, EXCHANGE_DELAYED);
	pass(stage, 10100);
	stage_pass(stage, &behind->turn.deadline);
	assert_int_equal(behind->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void it_is_refused_when_its_time_is_over(void **state)
{
	const struct stage_conf conf = {.upstream = "max_in_flight = 1",
		.route = ROUTE,
		.more = DELAYING("2 per 10s", "5s")};
	struct stage *stage = stage_begin(&conf);
	struct exchange *first = stage_ask(stage, POST), *x = stage_other_asks(stage, POST), *late;

	(void)state;
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	late = stage_other_asks(stage, POST);
	pass(stage, 4000);
	answered(stage, first);
	answered(stage, x); /* two of two, and this one has waited for 4 s of 5 */
	exchange_next(late);
	assert_int_equal(late->answer.status, 429);
	assert_in_range(late->gate->verdict.retry_after_ms, 5000, 6001);
	assert_int_equal(limit_count(stage, STATS_LIMIT_REFUSED), 1);
	stage_end(stage);
}

/* While its connection was made, others had the budget. */
static void it_is_judged_again_when_its_connection_is_made(void **state)
{
	const struct stage_conf conf = {.route = ROUTE, .more = DELAYING("1 per 10s", "1m")};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x, *other;

	(void)state;
	stage->connects_later = true;
	x = stage_ask(stage, POST);
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	pass(stage, 10100);
	stage->connects_later = false;
	other = stage_other_asks(stage, POST);
	assert_int_equal(other->state, EXCHANGE_FORWARDING);
	stage_server_connected(stage, 0);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	answered(stage, other);
	pass(stage, 10100);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void it_keeps_its_charge_while_its_connection_is_made(void **state)
{
	const struct stage_conf conf = {.route = ROUTE, .more = DELAYING("1 per 10s", "1m")};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x, *other;

	(void)state;
	stage->connects_later = true;
	x = stage_ask(stage, POST);
	pass(stage, 5000);
	other = stage_other_asks(stage, POST);
	assert_int_equal(other->state, EXCHANGE_DELAYED);
	stage_server_connected(stage, 0);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	answered(stage, x);
	pass(stage, 5100); /* since it was admitted first, but not since it left */
	stage_pass(stage, &other->turn.deadline);
	assert_int_equal(other->state, EXCHANGE_DELAYED);
	stage_end(stage);
}

static void it_is_charged_when_a_connection_is_free(void **state)
{
	const struct stage_conf conf = {.route = ROUTE, .more = DELAYING("1 per 10s", "1m")};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x, *other;

	(void)state;
	atomic_store(&stage->daemon.site->upstreams[0]->servers[0].state->max_connections, 1);
	x = stage_ask(stage, POST);
	pass(stage, 10100);
	other = stage_other_asks(stage, POST);
	assert_int_equal(other->state, EXCHANGE_QUEUED);
	assert_true(gate_receipt_is_empty(&other->gate->receipt));
	pass(stage, 20000);
	stage_server_got(stage, 0);
	stage_server_sends(stage, 0, DONE);
	if (stage->client.client.first == x)
		answered(stage, x);
	assert_int_equal(other->state, EXCHANGE_FORWARDING);
	assert_false(gate_receipt_is_empty(&other->gate->receipt));
	x = stage_ask(stage, POST);
	assert_int_equal(x->state, EXCHANGE_DELAYED);
	stage_end(stage);
}

/* Where nothing delays, it counts from when it was admitted, as before. */
static void without_a_delay_it_keeps_its_charge(void **state)
{
	const struct stage_conf conf = {.upstream = "max_in_flight = 1",
		.route = ROUTE,
		.more = "[limit slow]\nkey = ip\nrate = 2 per 10s\n"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage_ask(stage, POST);
	struct exchange *x = stage_other_asks(stage, POST);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_false(gate_receipt_is_empty(&x->gate->receipt));
	stage_end(stage);
}

/* ---- many, at random ------------------------------------------------------------------------- */

#define WINDOW_MS 10000
#define ASKED     60
/* The throttles' clock is the system's with an offset: between a verdict and the test's look at the
 * clock this process may have had no processor. */
#define CLOCK_SLACK_MS 500

struct life {
	struct stage *stage;
	struct random random;
	unsigned amount, asked, left;
	uint64_t left_ns[ASKED];
	bool busy[STAGE_SERVERS];
};

static uint64_t below(struct life *life, uint64_t bound)
{
	return random_below(&life->random, bound);
}

static void note_requests(struct life *life)
{
	struct stage *stage = life->stage;

	for (unsigned i = 0; i < stage->server_count; i++) {
		if (life->busy[i] || stage_server_got(stage, i)[0] == '\0')
			continue;
		assert_true(life->left < ASKED);
		life->busy[i] = true;
		life->left_ns[life->left++] = worker_throttle_ns(stage->worker);
	}
}

/* As its connection does. */
static bool run_client(struct stage_client *c)
{
	struct exchange *first = c->client.first;
	enum exchange_state before = first ? first->state : EXCHANGE_ENDED;

	c->trace[0] = '\0';
	if (before == EXCHANGE_HELD)
		exchange_next(first);
	else if (before == EXCHANGE_FORWARDING || before == EXCHANGE_RELAYING ||
		 before == EXCHANGE_REPLYING)
		exchange_run(first);
	return first && (c->client.first != first || first->state != before);
}

static void settle(struct life *life)
{
	struct stage *stage = life->stage;
	bool goes_on = true;

	while (goes_on) {
		goes_on = run_client(&stage->client);
		goes_on |= run_client(&stage->other);
		stage_turn(stage);
		note_requests(life);
	}
}

static struct deadline *earliest(struct stage_client *c, struct deadline *found)
{
	for (struct exchange *x = c->client.first; x; x = x->next) {
		if (x->turn.has_deadline && x->turn.deadline.at_ms != DEADLINE_NEVER &&
			(!found || x->turn.deadline.at_ms < found->at_ms))
			found = &x->turn.deadline;
	}
	return found;
}

static void let_pass(struct life *life, uint64_t ms)
{
	struct stage *stage = life->stage;
	uint64_t until_ms = worker_now_ms(stage->worker) + ms;

	for (;;) {
		struct deadline *next = earliest(&stage->other, earliest(&stage->client, NULL));
		uint64_t now_ms = worker_now_ms(stage->worker);
		if (!next || next->at_ms > until_ms) {
			pass(stage, until_ms - now_ms);
			return;
		}
		pass(stage, next->at_ms > now_ms ? next->at_ms - now_ms : 0);
		stage_pass(stage, next);
		settle(life);
	}
}

static void connect_one(struct life *life)
{
	struct stage *stage = life->stage;
	const struct exchange *x = stage->client.client.first;

	if (!x || x->state != EXCHANGE_CONNECTING || below(life, 2))
		x = stage->other.client.first;
	if (!x || x->state != EXCHANGE_CONNECTING)
		return;
	for (unsigned i = stage->server_count; i-- > 0;) {
		if (stage->servers[i].stream == &x->connection->stream) {
			stage_server_connected(stage, i);
			return;
		}
	}
}

static void answer_one(struct life *life)
{
	unsigned first = (unsigned)below(life, STAGE_SERVERS);

	for (unsigned i = 0; i < STAGE_SERVERS; i++) {
		unsigned n = (first + i) % STAGE_SERVERS;
		if (!life->busy[n])
			continue;
		life->busy[n] = false;
		stage_server_sends(life->stage, n, DONE);
		return;
	}
}

static void ask_one(struct life *life)
{
	static const char *const requests[] = {POST, "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /?s=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"GET /?s=1 HTTP/1.1\r\nHost: h\r\n\r\n"};
	const char *request = requests[below(life, 4)];

	if (life->asked == ASKED)
		return;
	life->asked++;
	if (below(life, 2))
		stage_ask(life->stage, request);
	else
		stage_other_asks(life->stage, request);
}

static void step(struct life *life)
{
	switch (below(life, 6)) {
	case 0:
		let_pass(life, below(life, WINDOW_MS / 2));
		break;
	case 1:
		life->stage->connects_later = below(life, 2);
		connect_one(life);
		break;
	case 2:
		answer_one(life);
		break;
	default:
		ask_one(life);
		break;
	}
	settle(life);
}

static void check_windows(const struct life *life, unsigned long long seed)
{
	for (unsigned i = life->amount; i < life->left; i++) {
		uint64_t in_ms =
			(life->left_ns[i] - life->left_ns[i - life->amount]) / CLOCK_NS_PER_MS;
		if (in_ms + CLOCK_SLACK_MS < WINDOW_MS)
			fail_msg("SEED=%llu: %u of %u left in %llu ms", seed, life->amount + 1,
				life->amount, (unsigned long long)in_ms);
	}
}

static void live(struct random random)
{
	static const char *const orders[] = {"strict", "writes", "none"};
	unsigned long long seed = random.state;
	struct life life = {.random = random};
	char upstream[64], route[128], more[160];

	life.amount = 1 + (unsigned)below(&life, 4);
	snprintf(upstream, sizeof(upstream), "max_in_flight = %u\nretries = 2\n",
		1 + (unsigned)below(&life, 3));
	snprintf(route, sizeof(route), ROUTE "session = query:s\nordering = %s\n",
		orders[below(&life, 3)]);
	snprintf(more, sizeof(more), DELAYING("%u per 10s", "%us"), life.amount,
		below(&life, 2) ? 20 : 600);
	const struct stage_conf conf = {.upstream = upstream, .route = route, .more = more};
	life.stage = stage_begin(&conf);
	for (unsigned i = 0; i < 400; i++)
		step(&life);
	life.stage->connects_later = false;
	for (unsigned i = 0; i < 2000; i++) {
		connect_one(&life);
		answer_one(&life);
		settle(&life);
		let_pass(&life, 500);
	}
	check_windows(&life, seed);
	assert_null(life.stage->client.client.first);
	assert_null(life.stage->other.client.first);
	/* Nothing is lost: forwarded, or told when to come back. */
	assert_int_equal(life.left + limit_count(life.stage, STATS_LIMIT_REFUSED), life.asked);
	stage_end(life.stage);
}

static void no_window_gets_more_than_its_limit(void **state)
{
	const char *count = getenv("HISTORIES");
	unsigned long most = count ? strtoul(count, NULL, 10) : 60;
	struct random random = random_begin("histories");

	(void)state;
	for (unsigned long i = 0; i < most; i++) {
		live(random);
		random_next(&random);
	}
}

UNIT_SUITE(test_turn_window)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_charged_when_it_gets_its_place),
		cmocka_unit_test(what_waits_behind_a_delayed_one_leaves_it_the_budget),
		cmocka_unit_test(it_is_refused_when_its_time_is_over),
		cmocka_unit_test(it_is_judged_again_when_its_connection_is_made),
		cmocka_unit_test(it_keeps_its_charge_while_its_connection_is_made),
		cmocka_unit_test(it_is_charged_when_a_connection_is_free),
		cmocka_unit_test(without_a_delay_it_keeps_its_charge),
		cmocka_unit_test(no_window_gets_more_than_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
