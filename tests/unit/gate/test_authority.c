/* The seam between the gate and an authority: numbers of questions, replies that find theirs or
 * not, verdicts from what an authority judged, and receipts that go to the one that gave them. */
#include "gate/authority.h"

#include <unistd.h>

#include "../random.h"
#include "fake_authority.h"
#include "input_of.h"
#include "loop/loop.h"
#include "tests/unit/suite.h"

#define S UINT64_C(1000000000)

/* ---- numbers --------------------------------------------------------------------------------- */

static void nobody_answers(
	void *whose, enum authority_answer answer, const struct authority_judgement *judgement)
{
	(void)whose;
	(void)answer;
	(void)judgement;
	fail();
}

/* A number is of one question, and closed once; any other is of none. */
static void numbers_are_used_once(void **state)
{
	enum { MOST = 300, STEPS = 60000 };
	struct random random = random_begin("numbers");
	struct questions questions;
	struct {
		uint64_t number;
		bool open;
	} *all = calloc(STEPS, sizeof(*all));
	size_t count = 0, open[MOST], open_count = 0;

	(void)state;
	assert_non_null(all);
	questions_init(&questions, NULL, nobody_answers);
	for (size_t step = 0; step < STEPS; step++) {
		if (open_count < MOST && random_below(&random, 5) < 3) {
			all[count].number = questions_open(&questions, &all[count]);
			all[count].open = true;
			assert_true(all[count].number != 0);
			assert_true(count == 0 || all[count].number != all[count - 1].number);
			open[open_count++] = count++;
		} else if (open_count > 0) {
			size_t at = random_below(&random, open_count), i = open[at];
			assert_ptr_equal(questions_close(&questions, all[i].number), &all[i]);
			all[i].open = false;
			open[at] = open[--open_count];
		}
		size_t i = count ? random_below(&random, count) : 0;
		if (count && !all[i].open)
			assert_null(questions_close(&questions, all[i].number));
		assert_null(questions_close(&questions, random_next(&random)));
		assert_null(questions_close(&questions, 0));
		assert_int_equal(questions.open, open_count);
	}
	while (open_count > 0)
		assert_non_null(questions_close(&questions, all[open[--open_count]].number));
	questions_end(&questions);
	free(all);
}

/* ---- a gate with a fake beside its table ----------------------------------------------------- */

struct fixture {
	const struct conf *conf;
	struct throttle_table *table;
	struct gate *gate;
	struct fake_authority fake;
	struct loop loop;
	struct questions questions;
	struct gate_identity identity;
	struct gate_verdict verdict;
	struct gate_receipt receipt;
	uint64_t now_ns;
	unsigned answers;
	enum authority_answer answer;
};

static enum fake_word pending(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	(void)question;
	return FAKE_PENDING;
}

static void answered(
	void *whose, enum authority_answer answer, const struct authority_judgement *judgement)
{
	struct fixture *f = whose;

	f->answers++;
	f->answer = answer;
	if (answer == AUTHORITY_JUDGED)
		gate_conclude(
			&f->identity, judgement, NULL, f->now_ns, 0, &f->verdict, &f->receipt);
}

static const struct throttle_seed seed = {1, 2};

static void begin(struct fixture *f, const char *ini)
{
	*f = (struct fixture){.conf = conf_of(ini), .now_ns = 1795000000 * S};
	struct throttle_limit *limits = gate_throttle_limits(f->conf, 0);
	const struct throttle_table_options options = {
		.callers = 4000, .now_ns = f->now_ns, .seed = &seed};
	struct throttle_report report;

	assert_non_null(limits);
	f->table = throttle_table_open(&options, limits, f->conf->limit_count, &report);
	assert_non_null(f->table);
	free(limits);
	f->gate = gate_new(f->conf, f->table);
	assert_non_null(f->gate);
	fake_init(&f->fake, AUTHORITY_TIMEOUT_MS);
	f->fake.plan = pending;
	assert_int_equal(loop_init(&f->loop), 0);
	loop_enter(&f->loop);
	questions_init(&f->questions, &f->loop, answered);
}

static void end(struct fixture *f)
{
	questions_end(&f->questions);
	loop_enter(NULL);
	loop_end(&f->loop);
	fake_end(&f->fake);
	gate_free(f->gate);
	throttle_table_close(f->table);
	conf_release(f->conf);
}

static const struct conf_route *route_named(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->conf->route_count; i++) {
		if (strcmp(f->conf->routes[i].name, name) == 0)
			return &f->conf->routes[i];
	}
	fail();
	return NULL;
}

static void identify(struct fixture *f, const char *name, const char *fields)
{
	struct http_head head;
	struct identity_input input = input_of(&head, name, fields);

	memset(&f->verdict, 0xa5, sizeof(f->verdict));
	memset(&f->receipt, 0xa5, sizeof(f->receipt));
	gate_identify(f->gate, route_named(f, name), &input, &f->identity);
}

/* Asks the fake, which leaves it pending. */
static struct fake_question *ask(struct fixture *f, const char *name, const char *fields)
{
	struct authority_judgement judgement;
	struct authority_question question = {
		.route = route_named(f, name),
		.identity = &f->identity,
		.now_ns = f->now_ns,
		.questions = &f->questions,
	};

	identify(f, name, fields);
	assert_ptr_equal(f->identity.authority, &f->fake.authority);
	assert_true(gate_begin(f->gate, question.route, &f->identity, &f->verdict, &f->receipt));
	assert_true(gate_receipt_is_empty(&f->receipt));
	question.number = questions_open(&f->questions, f);
	assert_int_equal(f->fake.authority.calls->ask(&f->fake.authority, &question, &judgement),
		AUTHORITY_PENDING);
	return fake_find(&f->fake, &f->questions, question.number);
}

static void use_fake(struct fixture *f)
{
	for (size_t i = 0; i < f->conf->limit_count; i++)
		assert_true(gate_use_authority(f->gate, &f->conf->limits[i], &f->fake.authority));
}

#define ONE_LIMIT                                                                                  \
	"[limit l]\nkey = header:K\nrate = 5 per 10s\n[route r]\nupstream = u\nlimits = l\n"

static void reply(struct fixture *f, struct fake_question *question, enum fake_word word)
{
	fake_reply(&f->fake, question, word);
	loop_finish_turn(&f->loop);
}

static void a_reply_finds_its_question(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, ONE_LIMIT);
	use_fake(&f);
	struct fake_question *question = ask(&f, "r", "K: a\n");
	reply(&f, question, FAKE_ADMIT);
	assert_int_equal(f.answers, 1);
	assert_int_equal(f.verdict.outcome, GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 1);
	assert_int_equal(f.verdict.limits[0].remaining, 5);
	assert_ptr_equal(f.receipt.authority, &f.fake.authority);
	assert_int_equal(fake_held(&f.fake), 1);
	/* A second time: what that took goes back, the first stays. */
	reply(&f, question, FAKE_ADMIT);
	reply(&f, question, FAKE_REFUSE);
	reply(&f, question, FAKE_UNAVAILABLE);
	assert_int_equal(f.answers, 1);
	assert_int_equal(fake_held(&f.fake), 1);
	gate_finish(f.gate, route_named(&f, "r"), &f.receipt,
		&(struct gate_end){.never_forwarded = true}, f.now_ns);
	assert_int_equal(fake_held(&f.fake), 0);
	end(&f);
}

static void a_late_reply_finds_none(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, ONE_LIMIT);
	use_fake(&f);
	struct fake_question *first = ask(&f, "r", "K: a\n");
	assert_ptr_equal(questions_close(&f.questions, first->number), &f);
	struct fake_question *second = ask(&f, "r", "K: a\n"); /* in the same slot */
	reply(&f, first, FAKE_ADMIT);
	reply(&f, first, FAKE_UNAVAILABLE);
	assert_int_equal(f.answers, 0);
	assert_int_equal(fake_held(&f.fake), 0);
	reply(&f, second, FAKE_REFUSE);
	assert_int_equal(f.answers, 1);
	assert_int_equal(f.verdict.outcome, GATE_REFUSE);
	assert_true(gate_receipt_is_empty(&f.receipt));
	struct fake_question *third = ask(&f, "r", "K: a\n");
	reply(&f, third, FAKE_UNAVAILABLE);
	assert_int_equal(f.answer, AUTHORITY_UNAVAILABLE);
	gate_conclude_unavailable(700, &f.verdict);
	assert_int_equal(f.verdict.outcome, GATE_UNAVAILABLE);
	assert_int_equal(f.verdict.retry_after_ms, 700);
	end(&f);
}

/* What stands without the limits is said without asking. */
static void gate_begin_says_what_stands(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "[limit l]\nkey = header:K\nrate = 5 per 10s\n"
		  "[limit m]\nkey = header:K\nrate = 5 per 10s\n"
		  "[route denied]\npath = /d\nupstream = u\nlimits = l\ndeny = 192.0.2.1\n"
		  "[route exempt]\npath = /e\nupstream = u\nlimits = l\nallow = 192.0.2.1\n"
		  "[route none]\npath = /n\nupstream = u\n"
		  "[route table]\nupstream = u\nlimits = m\n");
	assert_true(gate_use_authority(f.gate, &f.conf->limits[0], &f.fake.authority));
	static const struct {
		const char *route;
		enum gate_outcome outcome;
		bool asks;
	} cases[] = {{"denied", GATE_DENY, true}, {"exempt", GATE_ADMIT, true},
		{"none", GATE_ADMIT, false}, {"table", GATE_ADMIT, false}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		identify(&f, cases[i].route, "K: a\n");
		assert_int_equal(f.identity.authority != NULL, cases[i].asks);
		bool asks_limits = gate_begin(f.gate, route_named(&f, cases[i].route), &f.identity,
			&f.verdict, &f.receipt);
		assert_int_equal(asks_limits, strcmp(cases[i].route, "table") == 0);
		assert_int_equal(f.verdict.outcome, cases[i].outcome);
	}
	end(&f);
}

static void two_authorities_share_no_request(void **state)
{
	struct fixture f;
	struct authority other = {0};

	(void)state;
	begin(&f, "[limit l]\nkey = ip\nrate = 5 per 10s\n[limit m]\nkey = ip\nrate = 6 per 10s\n"
		  "[limit n]\nkey = ip\nrate = 7 per 10s\n"
		  "[route r]\npath = /r\nupstream = u\nlimits = l, m\n"
		  "[route s]\nupstream = u\nlimits = n\n");
	assert_true(gate_use_authority(f.gate, &f.conf->limits[0], &f.fake.authority));
	assert_true(gate_use_authority(f.gate, &f.conf->limits[0], &f.fake.authority));
	assert_true(gate_use_authority(f.gate, &f.conf->limits[1], &f.fake.authority));
	assert_false(gate_use_authority(f.gate, &f.conf->limits[1], &other));
	assert_true(gate_use_authority(f.gate, &f.conf->limits[2], &other));
	identify(&f, "r", "");
	assert_ptr_equal(f.identity.authority, &f.fake.authority);
	identify(&f, "s", "");
	assert_ptr_equal(f.identity.authority, &other);
	end(&f);
}

/* ---- the same verdict by either way ---------------------------------------------------------- */

/* As an authority that has a table of its own would judge. */
static void judge_elsewhere(struct fixture *f, struct authority_judgement *judgement)
{
	struct throttle_charge charges[GATE_LIMITS_MAX], left[GATE_LIMITS_MAX];
	struct throttle_verdict found;
	unsigned count = gate_charges(&f->identity, charges);

	throttle_take(f->table, charges, count, f->now_ns, &judgement->limits,
		&judgement->receipt.throttle);
	if (judgement->limits.admitted)
		return;
	memcpy(left, charges, sizeof(left[0]) * count);
	for (unsigned i = 0; i < count; i++)
		left[i].cost = 0;
	throttle_peek(f->table, left, count, f->now_ns, &found);
	for (unsigned i = 0; i < count; i++) {
		if (judgement->limits.outcome[i].violated)
			continue;
		judgement->limits.outcome[i] = found.outcome[i];
		judgement->limits.outcome[i].violated = false;
	}
}

static void same_verdict(const struct gate_verdict *a, const struct gate_verdict *b)
{
	assert_int_equal(a->outcome, b->outcome);
	assert_int_equal(a->weight, b->weight);
	assert_int_equal(a->lane, b->lane);
	assert_int_equal(a->retry_after_ms, b->retry_after_ms);
	if (a->outcome == GATE_DELAY)
		assert_int_equal(a->delay_until_ns, b->delay_until_ns);
	assert_int_equal(a->violated, b->violated);
	assert_int_equal(a->shadowed, b->shadowed);
	assert_int_equal(a->exempt, b->exempt);
	assert_memory_equal(&a->session, &b->session, sizeof(a->session));
	assert_int_equal(a->limit_count, b->limit_count);
	for (unsigned i = 0; i < a->limit_count; i++) {
		assert_string_equal(a->limits[i].limit->name, b->limits[i].limit->name);
		assert_int_equal(a->limits[i].caller, b->limits[i].caller);
		assert_int_equal(a->limits[i].quota, b->limits[i].quota);
		assert_int_equal(a->limits[i].remaining, b->limits[i].remaining);
		assert_int_equal(a->limits[i].reset_ms, b->limits[i].reset_ms);
		assert_int_equal(a->limits[i].violated, b->limits[i].violated);
	}
}

/* Two gates with the same limits see the same requests; one judges at once, the other in steps. */
static void steps_give_the_same_verdict(void **state)
{
	static const char ini[] =
		"[limit a]\nkey = header:K\nrate = 4 per 1s\n"
		"[limit b]\nkey = ip\nrate = 9 per 2s\non_exceed = delay 1s\n"
		"[limit c]\nkey = header:K\nconcurrency = 3\n"
		"[limit d]\nkey = header:K\nrate = 2 per 1s\nmode = shadow\n"
		"[route one]\npath = /1\nupstream = u\nlimits = a\n"
		"[route two]\npath = /2\nupstream = u\nlimits = b, d\nlane = high\n"
		"[route all]\nupstream = u\nlimits = a, b, c, d\n";
	static const char *const routes[] = {"one", "two", "all"};
	struct random random = random_begin("steps");
	struct fixture at_once, steps;
	unsigned outcomes[GATE_UNAVAILABLE + 1] = {0};

	(void)state;
	begin(&at_once, ini);
	begin(&steps, ini);
	use_fake(&steps);
	for (int i = 0; i < 3000; i++) {
		const char *name = routes[random_below(&random, 3)];
		char fields[16];
		snprintf(fields, sizeof(fields), "K: %c\n", 'a' + (int)random_below(&random, 3));
		uint64_t waited_ns = random_below(&random, 3) * S / 2;
		struct authority_judgement judgement = {0};

		identify(&at_once, name, fields);
		gate_judge(at_once.gate, route_named(&at_once, name), &at_once.identity, NULL,
			at_once.now_ns, waited_ns, &at_once.verdict, &at_once.receipt);
		identify(&steps, name, fields);
		assert_true(gate_begin(steps.gate, route_named(&steps, name), &steps.identity,
			&steps.verdict, &steps.receipt));
		judge_elsewhere(&steps, &judgement);
		gate_conclude(&steps.identity, &judgement, NULL, steps.now_ns, waited_ns,
			&steps.verdict, &steps.receipt);
		same_verdict(&at_once.verdict, &steps.verdict);
		outcomes[steps.verdict.outcome]++;
		assert_int_equal(gate_receipt_is_empty(&at_once.receipt),
			gate_receipt_is_empty(&steps.receipt));
		assert_int_equal(at_once.receipt.throttle.count, steps.receipt.throttle.count);
		if (steps.verdict.outcome == GATE_ADMIT) {
			assert_int_equal(at_once.receipt.in_flight, steps.receipt.in_flight);
			assert_int_equal(at_once.receipt.by_cost, steps.receipt.by_cost);
			throttle_release(at_once.table, &at_once.receipt.throttle, at_once.now_ns);
			throttle_release(steps.table, &steps.receipt.throttle, steps.now_ns);
		}
		at_once.now_ns = steps.now_ns += random_below(&random, S / 5);
	}
	assert_true(
		outcomes[GATE_ADMIT] > 0 && outcomes[GATE_REFUSE] > 0 && outcomes[GATE_DELAY] > 0);
	end(&steps);
	end(&at_once);
}

/* ---- receipts -------------------------------------------------------------------------------- */

static void a_receipt_goes_to_its_authority(void **state)
{
	static const struct {
		const char *route;
		struct gate_end end;
		bool settles; /* else refunds */
	} cases[] = {
		{"", {.status = 200}, true},
		{"", {.status = 200, .has_cost = true, .cost = 4}, true},
		{"", {.status = 503, .bytes = 50}, true},
		{"", {.never_forwarded = true}, false},
		{"refund = 5xx\n", {.status = 200}, true},
		{"refund = 5xx\n", {.status = 503, .bytes = 50}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct fixture f, later;
		snprintf(text, sizeof(text),
			"[limit l]\nkey = ip\nrate = 9 per 10s\n"
			"[limit m]\nkey = ip\nrate = 1MB per 10s\n"
			"[route r]\nupstream = u\nlimits = l, m\n%s",
			cases[i].route);
		begin(&f, text);
		use_fake(&f);
		reply(&f, ask(&f, "r", ""), FAKE_ADMIT);
		assert_false(gate_keeps_all(route_named(&f, "r"), &f.receipt, 200));
		assert_false(gate_finish_plain(route_named(&f, "r"), &f.receipt, &cases[i].end));
		gate_charge_bytes(f.gate, &f.receipt, 20, f.now_ns);
		gate_charge_bytes(f.gate, &f.receipt, 20, f.now_ns);
		assert_int_equal(f.fake.accounts[0].bytes, 20);
		/* A reload has put a gate in force that judges by its table. */
		begin(&later, text);
		gate_finish(
			later.gate, route_named(&later, "r"), &f.receipt, &cases[i].end, f.now_ns);
		assert_int_equal(
			f.fake.accounts[0].state, cases[i].settles ? FAKE_SETTLED : FAKE_REFUNDED);
		assert_int_equal(f.fake.accounts[0].bytes, cases[i].end.bytes ? 50 : 20);
		assert_int_equal(f.fake.accounts[0].cost, cases[i].end.cost);
		assert_true(gate_receipt_is_empty(&f.receipt));
		/* Once: the fake fails at a second time. */
		gate_finish(
			later.gate, route_named(&later, "r"), &f.receipt, &cases[i].end, f.now_ns);
		assert_true(gate_finish_plain(route_named(&f, "r"), &f.receipt, &cases[i].end));
		end(&later);
		end(&f);
	}
}

UNIT_SUITE(test_authority)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_used_once),
		cmocka_unit_test(a_reply_finds_its_question),
		cmocka_unit_test(a_late_reply_finds_none),
		cmocka_unit_test(gate_begin_says_what_stands),
		cmocka_unit_test(two_authorities_share_no_request),
		cmocka_unit_test(steps_give_the_same_verdict),
		cmocka_unit_test(a_receipt_goes_to_its_authority),
	};
	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
