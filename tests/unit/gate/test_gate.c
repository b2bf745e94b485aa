/* The whole gate over a table of throttles in memory, by a clock of its own. */
#include "gate/gate.h"

#include <errno.h>
#include <unistd.h>

#include "gate/gate_connection.h"
#include "gate_fixture.h"
#include "input_of.h"
#include "tests/unit/suite.h"

static const struct conf_route *route_named(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->route_count; i++) {
		if (strcmp(conf->routes[i].name, name) == 0)
			return &conf->routes[i];
	}
	fail();
	return NULL;
}

/* What is explained is what is judged the moment after, and takes nothing: asked twice. */
static void explain(const struct fixture *f, const struct conf_route *route,
	const struct gate_identity *identity, struct gate_verdict *explained)
{
	struct gate_verdict again;

	memset(explained, 0xa5, sizeof(*explained));
	gate_explain(f->gate, route, identity, f->now_ns, &again);
	gate_explain(f->gate, route, identity, f->now_ns, explained);
	assert_int_equal(again.outcome, explained->outcome);
	assert_int_equal(again.retry_after_ms, explained->retry_after_ms);
}

static void same_verdicts(const struct gate_verdict *a, const struct gate_verdict *b)
{
	assert_int_equal(a->outcome, b->outcome);
	assert_int_equal(a->retry_after_ms, b->retry_after_ms);
	assert_ptr_equal(a->plan, b->plan);
	assert_int_equal(a->limit_count, b->limit_count);
	assert_int_equal(a->exempt, b->exempt);
	assert_int_equal(a->shadowed, b->shadowed);
	assert_memory_equal(&a->caller, &b->caller, sizeof(a->caller));
	assert_memory_equal(&a->session, &b->session, sizeof(a->session));
	for (unsigned i = 0; i < a->limit_count; i++) {
		assert_ptr_equal(a->limits[i].limit, b->limits[i].limit);
		assert_int_equal(a->limits[i].violated, b->limits[i].violated);
		assert_int_equal(a->limits[i].banned, b->limits[i].banned);
		assert_int_equal(a->limits[i].remaining, b->limits[i].remaining);
	}
}

/* Asks on the route `name`, from 192.0.2.1, with these fields. */
static enum gate_outcome ask_waited(
	struct fixture *f, const char *name, const char *fields, uint64_t waited_ns)
{
	struct http_head head;
	const struct conf_route *route = route_named(f->conf, name);
	struct identity_input input = input_of(&head, name, fields);

	memset(&f->verdict, 0xa5, sizeof(f->verdict));
	memset(&f->receipt, 0xa5, sizeof(f->receipt));
	struct gate_identity identity;
	struct gate_verdict explained;
	gate_identify(f->gate, route, &input, &identity);
	explain(f, route, &identity, &explained);
	gate_judge(f->gate, route, &identity, NULL, f->now_ns, waited_ns, &f->verdict, &f->receipt);
	if (waited_ns == 0)
		same_verdicts(&explained, &f->verdict);
	assert_true(f->verdict.outcome == GATE_ADMIT || f->receipt.throttle.count == 0);
	return f->verdict.outcome;
}

static enum gate_outcome ask(struct fixture *f, const char *name, const char *fields)
{
	return ask_waited(f, name, fields, 0);
}

static void finish(struct fixture *f, const char *name, struct gate_end how)
{
	gate_finish(f->gate, route_named(f->conf, name), &f->receipt, &how, f->now_ns);
	assert_int_equal(f->receipt.throttle.count, 0);
}

static void one_limit(void **state)
{
	struct fixture f = begin("[limit l]\nkey = header:K | ip\nrate = 2 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	assert_int_equal(ask(&f, "r", "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 1);
	assert_int_equal(f.verdict.limits[0].remaining, 1);
	assert_int_equal(f.verdict.limits[0].quota, 2);
	assert_int_equal(f.verdict.weight, 1);
	assert_false(f.verdict.violated);
	f.now_ns += 3 * S;
	assert_int_equal(ask(&f, "r", "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 0);
	assert_int_equal(ask(&f, "r", "K: a\n"), GATE_REFUSE);
	assert_true(f.verdict.violated && f.verdict.limits[0].violated);
	assert_in_range(f.verdict.retry_after_ms, 7000, 7001);
	assert_int_equal(f.verdict.limits[0].reset_ms, f.verdict.retry_after_ms);
	/* Others are others. */
	assert_int_equal(ask(&f, "r", "K: b\n"), GATE_ADMIT);
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	f.now_ns += 7 * S + 1000000;
	assert_int_equal(ask(&f, "r", "K: a\n"), GATE_ADMIT);
	end(&f);
}

/* A refusal takes nothing: the limits that it did not violate still have all they had. */
static void refused_by_another(void **state)
{
	struct fixture f =
		begin("[limit a]\nkey = ip\nrate = 10 per 10s\n"
		      "[limit b]\nkey = ip\nrate = 3 per 10s\n"
		      "[limit c]\nkey = ip\nrate = 5 per 100s\nalgorithm = gcra\nburst = 4\n"
		      "[limit d]\nkey = ip\nrate = 900 per day\n"
		      "[limit e]\nkey = ip\nconcurrency = 9\n"
		      "[limit f]\nkey = ip\nrate = 1000 per 10s\n"
		      "[route r]\nupstream = u\nlimits = a, b, c, d, e, f\n");

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
		f.now_ns += S;
	}
	struct gate_verdict last = f.verdict;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
		assert_true(f.verdict.limits[1].violated);
		for (unsigned n = 0; n < 6; n++) {
			if (n == 1)
				continue;
			assert_false(f.verdict.limits[n].violated);
			assert_int_equal(f.verdict.limits[n].remaining, last.limits[n].remaining);
			/* f is in slots, and its reset may be that of the slot now. */
			assert_true(
				n == 5 || f.verdict.limits[n].reset_ms <= last.limits[n].reset_ms);
		}
	}
	end(&f);
}

/* The time that a refused request is told is enough, also where it is no whole number of ms. */
static void what_is_told_is_enough(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 3 per 1s\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	for (uint64_t i = 0; i < 200; i++) {
		if (ask(&f, "r", "") != GATE_ADMIT) {
			f.now_ns += f.verdict.retry_after_ms * 1000000;
			assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
		}
		f.now_ns += i * 123457;
	}
	end(&f);
}

static void all_or_nothing(void **state)
{
	struct fixture f = begin("[limit wide]\nkey = ip\nrate = 10 per 10s\n"
				 "[limit tight]\nkey = ip\nrate = 1 per 10s\n"
				 "[route both]\npath = /b\nupstream = u\nlimits = wide, tight\n"
				 "[route wide]\nupstream = u\nlimits = wide\n");

	(void)state;
	assert_int_equal(ask(&f, "both", ""), GATE_ADMIT);
	assert_int_equal(ask(&f, "both", ""), GATE_REFUSE);
	assert_false(f.verdict.limits[0].violated);
	assert_true(f.verdict.limits[1].violated);
	assert_int_equal(ask(&f, "wide", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 8);
	end(&f);
}

static void shadow_limits_never_refuse(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 1 per 10s\nmode = shadow\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_false(f.verdict.shadowed);
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_true(f.verdict.shadowed);
	assert_false(f.verdict.violated);
	assert_true(f.verdict.limits[0].violated);
	end(&f);
}

static char folder[] = "/tmp/sluice-gate-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_file(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
}

static void plans(void **state)
{
	assert_non_null(mkdtemp(folder));
	write_file("gold.keys", "# the best\ng1\ng2\n");
	struct fixture f = begin_in(folder,
		"[limit few]\nkey = header:K | ip\nrate = 1 per 10s\n"
		"[limit many]\nkey = header:K | ip\nrate = 3 per 10s\n"
		"[limit all]\nkey = route\nrate = 100 per 10s\n"
		"[plans]\nkey = header:K\n"
		"[plan gold]\nlimits = many\nlane = high\nweight = 7\ncallers = file:gold.keys\n"
		"[plan default]\nlimits = few\n"
		"[route r]\nupstream = u\nlimits = all, plan\n"
		"[route s]\npath = /s\nupstream = u\nlimits = plan, many\n");

	(void)state;
	assert_int_equal(ask(&f, "r", "K: g1\n"), GATE_ADMIT);
	assert_string_equal(f.verdict.plan->name, "gold");
	assert_int_equal(f.verdict.weight, 7);
	assert_int_equal(f.verdict.lane, CONF_LANE_HIGH);
	assert_int_equal(f.verdict.limit_count, 2);
	assert_string_equal(f.verdict.limits[0].limit->name, "all");
	assert_string_equal(f.verdict.limits[1].limit->name, "many");
	assert_int_equal(f.verdict.limits[1].remaining, 2);
	assert_int_equal(ask(&f, "r", "K: x\n"), GATE_ADMIT);
	assert_string_equal(f.verdict.plan->name, "default");
	assert_int_equal(f.verdict.lane, CONF_LANE_NORMAL);
	assert_int_equal(ask(&f, "r", "K: x\n"), GATE_REFUSE);
	assert_string_equal(f.verdict.limits[1].limit->name, "few");
	/* Named by the route and by the plan: charged once. */
	assert_int_equal(ask(&f, "s", "K: g1\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 1);
	assert_int_equal(f.verdict.limits[0].remaining, 1);
	end(&f);
	remove_file("gold.keys");
	rmdir(folder);
}

static void lists(void **state)
{
	struct fixture f = begin("[limit l]\nkey = header:K | ip\nrate = 1 per 10s\n"
				 "[route open]\npath = /o\nupstream = u\nlimits = l\n"
				 "allow = 192.0.2.0/24\n"
				 "[route shut]\npath = /s\nupstream = u\nlimits = l\n"
				 "deny = 192.0.2.1\n");

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(ask(&f, "open", ""), GATE_ADMIT);
		assert_true(f.verdict.exempt);
		assert_int_equal(f.verdict.limit_count, 0);
	}
	assert_int_equal(ask(&f, "shut", ""), GATE_DENY);
	end(&f);
}

static void delays(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 1 per 1s\non_exceed = delay 2s\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(ask(&f, "r", ""), GATE_DELAY);
	assert_in_range(f.verdict.delay_until_ns, f.now_ns + S, f.now_ns + S + S / 100);
	assert_int_equal(ask_waited(&f, "r", "", S / 2), GATE_DELAY);
	assert_int_equal(ask_waited(&f, "r", "", 2 * S), GATE_REFUSE);
	assert_int_equal(ask_waited(&f, "r", "", 3 * S), GATE_REFUSE);
	f.now_ns = f.now_ns + S + S / 100;
	assert_int_equal(ask_waited(&f, "r", "", S + S / 100), GATE_ADMIT);
	end(&f);
}

static void bans(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 1 per 1s\nban = 2 per 10s for 60s\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	assert_true(f.verdict.limits[0].banned);
	f.now_ns += 5 * S;
	assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	f.now_ns += 60 * S;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	end(&f);
}

static void refunds(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 1 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\nrefund = 5xx, 404\n");

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	finish(&f, "r", (struct gate_end){.status = 503});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	finish(&f, "r", (struct gate_end){.status = 404});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	finish(&f, "r", (struct gate_end){.never_forwarded = true});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	finish(&f, "r", (struct gate_end){.status = 200});
	assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	end(&f);
}

static void costs(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 10 per 10s\n"
				 "[route three]\npath = /3\nupstream = u\nlimits = l\ncost = 3\n"
				 "[route told]\nupstream = u\nlimits = l\n"
				 "cost = response:X-Cost\n");

	(void)state;
	assert_int_equal(ask(&f, "three", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 7);
	finish(&f, "three", (struct gate_end){.status = 200});
	assert_int_equal(ask(&f, "told", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 6);
	finish(&f, "told", (struct gate_end){.status = 200, .has_cost = true, .cost = 5});
	assert_int_equal(ask(&f, "told", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 1);
	finish(&f, "told", (struct gate_end){.status = 200, .has_cost = true, .cost = 0});
	assert_int_equal(ask(&f, "told", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 1);
	end(&f);
}

static void bytes(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 1000B per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\n");

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	gate_charge_bytes(f.gate, &f.receipt, 600, f.now_ns);
	gate_charge_bytes(f.gate, &f.receipt, 600, f.now_ns);
	finish(&f, "r", (struct gate_end){.status = 200, .bytes = 700});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 300);
	finish(&f, "r", (struct gate_end){.status = 200, .bytes = 5000});
	assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	assert_true(f.verdict.retry_after_ms >= 9000);
	end(&f);
}

/* A receipt needs no time at the end unless something is given back or charged then. */
static void most_finish_without_the_time(void **state)
{
	static const struct {
		const char *limit, *route;
		struct gate_end end;
		bool plain;
	} cases[] = {
		{"rate = 2 per 10s", "", {.status = 200}, true},
		{"rate = 2 per 10s", "", {.status = 200, .bytes = 9}, true},
		{"rate = 2 per 10s", "", {.never_forwarded = true}, false},
		{"rate = 2 per 10s", "refund = 5xx\n", {.status = 200}, true},
		{"rate = 2 per 10s", "refund = 5xx\n", {.status = 503}, false},
		{"rate = 9 per 10s", "", {.status = 200, .has_cost = true, .cost = 3}, false},
		{"rate = 1MB per 10s", "", {.status = 200, .bytes = 9}, false},
		{"concurrency = 2", "", {.status = 200}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		snprintf(text, sizeof(text),
			"[limit l]\nkey = ip\n%s\n[route r]\nupstream = u\nlimits = l\n%s",
			cases[i].limit, cases[i].route);
		struct fixture f = begin(text);
		const struct conf_route *route = route_named(f.conf, "r");
		assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
		assert_int_equal(f.receipt.throttle.count, 1);
		assert_int_equal(
			gate_finish_plain(route, &f.receipt, &cases[i].end), cases[i].plain);
		assert_int_equal(f.receipt.throttle.count, cases[i].plain ? 0 : 1);
		finish(&f, "r", cases[i].end);
		assert_true(gate_finish_plain(route, &f.receipt, &cases[i].end));
		end(&f);
	}
}

static void concurrency(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nconcurrency = 2\n"
				 "[route r]\nupstream = u\nlimits = l\ncost = 1\n");
	struct gate_receipt first;

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	first = f.receipt;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	assert_true(f.verdict.retry_after_ms >= 1);
	f.receipt = first;
	finish(&f, "r", (struct gate_end){.status = 0, .has_cost = true, .cost = 9});
	finish(&f, "r", (struct gate_end){.status = 0});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(ask(&f, "r", ""), GATE_REFUSE);
	end(&f);
}

static void sessions_and_callers(void **state)
{
	struct fixture f = begin("[limit l]\nkey = header:K | ip\nrate = 100 per 10s\n"
				 "[route r]\npath = /r\nupstream = u\nlimits = l\n"
				 "[route s]\npath = /s\nupstream = u\nlimits = l\n"
				 "[route n]\nupstream = u\n");

	(void)state;
	ask(&f, "r", "K: a\n");
	struct throttle_key caller = f.verdict.caller, session = f.verdict.session;
	ask(&f, "s", "K: a\n");
	assert_memory_equal(&caller, &f.verdict.caller, sizeof(caller));
	assert_memory_not_equal(&session, &f.verdict.session, sizeof(session));
	ask(&f, "r", "K: b\n");
	assert_memory_not_equal(&session, &f.verdict.session, sizeof(session));
	ask(&f, "r", "K: a\n");
	assert_memory_equal(&session, &f.verdict.session, sizeof(session));
	assert_int_equal(ask(&f, "n", "K: a\n"), GATE_ADMIT);
	assert_int_equal(f.verdict.limit_count, 0);

	struct throttle_key found;
	uint32_t number;
	assert_true(gate_find_caller(f.gate, &f.conf->limits[0], SLICE("a"), &found, &number));
	assert_memory_equal(&found, &caller, sizeof(found));
	struct throttle_outcome outcome;
	assert_true(throttle_explain(f.table, number, found, f.now_ns, &outcome));
	assert_int_equal(outcome.remaining, 97);
	end(&f);
}

/* What was admitted under one snapshot counts under the next. */
static void reload(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 5 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\n");
	struct gate_receipt old_receipt;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	old_receipt = f.receipt;
	const struct conf *conf = conf_of("[limit other]\nkey = ip\nrate = 1 per 1s\n"
					  "[limit l]\nkey = ip\nrate = 6 per 10s\n"
					  "[route q]\npath = /q\nupstream = u\nlimits = other\n"
					  "[route r]\nupstream = u\nlimits = l\n");
	assert_null(gate_new(conf, f.table));
	assert_int_equal(errno, ENOENT);
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	assert_int_equal(
		throttle_table_apply(f.table, limits, conf->limit_count, 0, f.now_ns, NULL), 0);
	free(limits);
	gate_free(f.gate);
	conf_release(f.conf);
	f.conf = conf;
	f.gate = gate_new(conf, f.table);
	assert_non_null(f.gate);
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 1);
	f.receipt = old_receipt;
	/* Of a limit that has changed, what was taken before is not given back. */
	finish(&f, "r", (struct gate_end){.never_forwarded = true});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 0);
	finish(&f, "r", (struct gate_end){.never_forwarded = true});
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_int_equal(f.verdict.limits[0].remaining, 0);
	throttle_table_collect(f.table);
	end(&f);
}

/* A request that began before a reload is judged after it, by the gate it began with, when what the
 * reload left behind has been freed. */
static void old_gate_after_a_reload(void **state)
{
	struct fixture f = begin("[limit l]\nkey = ip\nrate = 5 per 10s\n"
				 "[route r]\nupstream = u\nlimits = l\n");
	struct throttle_key caller, caller_before;
	uint32_t number;

	(void)state;
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	caller_before = f.verdict.caller;
	for (unsigned quota = 6; quota < 9; quota++) {
		char ini[200];
		snprintf(ini, sizeof(ini),
			"[limit l]\nkey = ip\nrate = %u per 10s\n"
			"[route r]\nupstream = u\nlimits = l\n",
			quota);
		const struct conf *conf = conf_of(ini);
		struct throttle_limit *limits = gate_throttle_limits(conf, 0);
		assert_int_equal(
			throttle_table_apply(f.table, limits, conf->limit_count, 0, f.now_ns, NULL),
			0);
		free(limits);
		throttle_table_collect(f.table);
		conf_release(conf);
	}
	assert_int_equal(ask(&f, "r", ""), GATE_ADMIT);
	assert_memory_equal(&f.verdict.caller, &caller_before, sizeof(caller_before));
	assert_int_equal(f.verdict.limits[0].remaining, 6);
	assert_true(gate_find_caller(
		f.gate, f.verdict.limits[0].limit, SLICE("192.0.2.1"), &caller, &number));
	assert_memory_equal(&caller, &caller_before, sizeof(caller));
	end(&f);
}

/* A connection that comes while a reload makes its limit one of concurrency is judged by the
 * table's new limit and the gate's old one: its place goes back all the same. */
static void connection_while_its_limit_changes(void **state)
{
	struct fixture f = begin("[limit l]\nunit = connections\nkey = all\nrate = 5 per 10s\n"
				 "[listener main]\nbind = 127.0.0.1:80\nlimits = l\n"
				 "[route r]\nupstream = u\n");
	static const uint8_t address[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct throttle_receipt receipt;
	struct gate_verdict verdict;

	(void)state;
	const struct conf *conf =
		conf_of("[limit l]\nunit = connections\nkey = all\nconcurrency = 2\n"
			"[listener main]\nbind = 127.0.0.1:80\nlimits = l\n"
			"[route r]\nupstream = u\n");
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	assert_int_equal(
		throttle_table_apply(f.table, limits, conf->limit_count, 0, f.now_ns, NULL), 0);
	free(limits);
	for (unsigned i = 0; i < 4; i++) {
		gate_judge_connection(f.gate, &f.conf->listeners[1].limits, address, f.now_ns,
			&verdict, &receipt);
		assert_int_equal(verdict.outcome, GATE_ADMIT);
		gate_keep_places(f.gate, &verdict, &receipt, f.now_ns);
		throttle_release(f.table, &receipt, f.now_ns);
	}
	throttle_table_collect(f.table);
	conf_release(conf);
	end(&f);
}

UNIT_SUITE(test_gate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_limit),
		cmocka_unit_test(refused_by_another),
		cmocka_unit_test(what_is_told_is_enough),
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(shadow_limits_never_refuse),
		cmocka_unit_test(plans),
		cmocka_unit_test(lists),
		cmocka_unit_test(delays),
		cmocka_unit_test(bans),
		cmocka_unit_test(refunds),
		cmocka_unit_test(costs),
		cmocka_unit_test(bytes),
		cmocka_unit_test(most_finish_without_the_time),
		cmocka_unit_test(concurrency),
		cmocka_unit_test(sessions_and_callers),
		cmocka_unit_test(reload),
		cmocka_unit_test(old_gate_after_a_reload),
		cmocka_unit_test(connection_while_its_limit_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
