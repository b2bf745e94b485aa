/* Runs a scenario: processes that open the table, threads that do their programs, kills, and the
 * oracle told of all. */
#include <stdio.h>
#include <string.h>

#include "tests/stress/explore/engine.h"
#include "tests/stress/explore/scenario.h"

#define SECOND     UINT64_C(1000000000)
#define START      (UINT64_C(1700000000) * SECOND)
#define OPENING_NS (10 * UINT64_C(1000000)) /* of each thing done while a table is opened */
#define HELD       8
#define FILLERS    15
#define KEY_SHIFT  12 /* of a key, 64 - KEY_BITS are not looked at */

struct held {
	struct throttle_receipt receipt;
	struct event *events[ORACLE_LIMITS];
	unsigned limits[ORACLE_LIMITS], caller;
};

struct process {
	unsigned number;
	struct throttle_table *table;
	bool is_busy; /* somebody applies or collects */
	bool is_known_killed;
	uint64_t retired_at; /* stamp of what awaits collection; 0: nothing */
};

struct worker {
	struct process *process;
	const struct program *program;
	uint64_t in_call;         /* since this stamp; 0: in none */
	uint64_t synchronized_at; /* with what other threads did before this stamp */
	unsigned holds;
	struct held held[HELD];
};

static struct {
	const struct scenario *scenario;
	const struct life *life;
	struct oracle *oracle;
	struct process processes[2];
	struct worker workers[SCENARIO_PROGRAMS];
	struct throttle_table *table;   /* of the one process, without a file */
	unsigned next_version, opening; /* processes that are opening the table */
	uint64_t fillers;
	uint64_t fingerprints[ORACLE_CALLERS];
} run;

static struct throttle_key key_of(unsigned caller)
{
	return (struct throttle_key){.lo = run.fingerprints[caller] << KEY_SHIFT};
}

static void fail(const char *what)
{
	if (run.oracle->wrong[0] == '\0')
		snprintf(run.oracle->wrong, sizeof(run.oracle->wrong), "%s", what);
}

static void trace(
	const struct worker *w, const char *what, unsigned limit, const struct throttle_outcome *o)
{
	if (!engine_tracing())
		return;
	printf("# thread of process %u: %s %c at +%llu", w->process->number, what, 'a' + limit,
		(unsigned long long)(run.oracle->now - START));
	if (o != NULL)
		printf(" %s, quota %llu, remaining %llu, recorded +%llu, retry %llu",
			o->violated ? "refused" : "fits", (unsigned long long)o->quota,
			(unsigned long long)o->remaining, (unsigned long long)(o->at_ns - START),
			(unsigned long long)o->retry_after_ns);
	printf("\n");
}

/* Tells the oracle of a kill since the last time. */
static void note_kills(void)
{
	for (unsigned p = 0; p < run.life->processes; p++) {
		struct process *process = &run.processes[p];

		if (process->is_known_killed || !engine_is_killed(process->number))
			continue;
		process->is_known_killed = true;
		oracle_process_killed(run.oracle, process->number);
	}
}

/* ---- what a thread does ---- */

static void take(struct worker *w, const struct operation *op, uint64_t now)
{
	struct throttle_charge charges[ORACLE_LIMITS];
	struct throttle_verdict verdict;
	struct held held = {.caller = op->caller};
	struct event **events = held.events;
	unsigned count = 0;

	for (unsigned l = 0; l < ORACLE_LIMITS; l++) {
		if (!(op->limits >> l & 1))
			continue;
		charges[count] = (struct throttle_charge){
			.limit = l, .caller = key_of(op->caller), .cost = op->cost[l]};
		held.limits[count] = l;
		events[count] = oracle_call(run.oracle, l, op->caller, op->cost[l],
			(op->limits & (op->limits - 1)) == 0, now, w->process->number);
		if (events[count++] == NULL)
			return;
	}
	throttle_take(w->process->table, charges, count, now, &verdict, &held.receipt);
	note_kills();
	for (unsigned i = 0; i < count; i++) {
		const struct throttle_outcome *o = &verdict.outcome[i];

		trace(w, "take", held.limits[i], o);
		if (verdict.admitted)
			oracle_admitted(run.oracle, held.limits[i], op->caller, events[i], now, o);
		else
			oracle_refused(run.oracle, held.limits[i], op->caller, events[i],
				count == 1, now, o->violated && o->quota > 0 ? o : NULL);
	}
	if (!verdict.admitted && verdict.outcome[0].quota == 0 && run.life->processes == 1)
		fail("refused as if another process had moved the table on");
	if (verdict.admitted && w->holds < HELD)
		w->held[w->holds++] = held;
}

static struct held drop(struct worker *w, unsigned which)
{
	struct held held = w->held[which];

	w->held[which] = w->held[--w->holds];
	return held;
}

static void refund(struct worker *w, const struct operation *op, uint64_t now)
{
	struct held h = drop(w, op->which % w->holds);

	for (unsigned i = 0; i < h.receipt.count; i++) {
		struct event *e = h.events[i];

		if (e->cost == 0)
			continue;
		trace(w, "refund", h.limits[i], NULL);
		e = oracle_refund(run.oracle, h.limits[i], h.caller, e, e->cost);
		throttle_refund(w->process->table, &h.receipt, i, now);
		oracle_refunded(run.oracle, h.limits[i], e, now);
	}
}

static void force(struct worker *w, struct held *h, unsigned i, uint64_t cost, uint64_t now)
{
	struct event *e = oracle_call(
		run.oracle, h->limits[i], h->caller, cost, true, now, w->process->number);

	if (e == NULL)
		return;
	trace(w, "charge", h->limits[i], NULL);
	throttle_charge(w->process->table, &h->receipt, i, cost, now);
	oracle_forced(run.oracle, h->limits[i], h->caller, e, now);
}

static bool is_in_flight(unsigned limit)
{
	const struct oracle *o = run.oracle;

	for (unsigned v = o->done; v <= o->begun; v++)
		if (o->rules[v][limit].kind == THROTTLE_CONCURRENCY)
			return true;
	return false;
}

static void settle(struct worker *w, const struct operation *op, uint64_t now)
{
	struct held *h = &w->held[op->which % w->holds];
	struct event *e = h->events[0];

	if (is_in_flight(h->limits[0]) || e->cost < 2)
		return;
	trace(w, "settle down", h->limits[0], NULL);
	e = oracle_refund(run.oracle, h->limits[0], h->caller, e, 1);
	throttle_settle(w->process->table, &h->receipt, 0, h->receipt.held[0].cost - 1, now);
	oracle_refunded(run.oracle, h->limits[0], e, now);
}

static void release(struct worker *w, const struct operation *op, uint64_t now)
{
	struct held h = drop(w, op->which % w->holds);
	struct event *parts[ORACLE_LIMITS] = {NULL, NULL};
	unsigned count = h.receipt.count;

	for (unsigned i = 0; i < count; i++)
		if (is_in_flight(h.limits[i]) && h.events[i]->cost > 0)
			parts[i] = oracle_refund(
				run.oracle, h.limits[i], h.caller, h.events[i], h.events[i]->cost);
	trace(w, "release", h.limits[0], NULL);
	throttle_release(w->process->table, &h.receipt, now);
	for (unsigned i = 0; i < count; i++)
		if (parts[i] != NULL)
			oracle_refunded(run.oracle, h.limits[i], parts[i], now);
}

static void reset(struct worker *w, const struct operation *op, uint64_t now)
{
	if (is_in_flight(0))
		return;
	trace(w, "reset", 0, NULL);
	oracle_reset_called(run.oracle, 0, op->caller);
	throttle_reset(w->process->table, 0, key_of(op->caller), now);
	oracle_reset_returned(run.oracle, 0, op->caller);
}

/* Callers that are not looked at: the i-th is somewhere in the table. */
static struct throttle_key filler_of(uint64_t i)
{
	return (struct throttle_key){
		.lo = (i * UINT64_C(0x9e3779b97f4a7) & ((UINT64_C(1) << 52) - 1)) << KEY_SHIFT};
}

static void take_filler(struct throttle_table *table, uint64_t i, uint64_t now)
{
	for (uint32_t limit = 0; limit < ORACLE_LIMITS; limit++) {
		struct throttle_charge charge = {.limit = limit, .caller = filler_of(i), .cost = 1};
		struct throttle_verdict verdict;

		throttle_take(table, &charge, 1, now, &verdict, NULL);
	}
}

/* Some more callers come. */
static void crowd(struct worker *w, const struct operation *op, uint64_t now)
{
	for (unsigned i = 0; i < op->cost[0]; i++)
		take_filler(w->process->table, 100 + run.fillers++, now);
}

static void grow(struct worker *w)
{
	struct process *p = w->process;

	p->is_busy = true;
	files_fill_disk(true);
	throttle_table_grow(p->table);
	files_fill_disk(false);
	if (engine_tracing())
		printf("# grown\n");
	p->retired_at = run.oracle->stamp++;
	p->is_busy = false;
}

static void apply(struct worker *w, uint64_t capacity, uint64_t now)
{
	const struct scenario *s = run.scenario;
	const struct throttle_limit *limits = s->version[++run.next_version % s->versions];
	struct throttle_report report;

	w->process->is_busy = true;
	if (engine_tracing())
		printf("# apply: version %u\n", run.next_version % s->versions);
	oracle_begin_version(run.oracle, limits);
	if (throttle_table_apply(
		    w->process->table, limits, ORACLE_LIMITS, capacity, now, &report) != 0)
		fail("limits could not be changed");
	oracle_end_version(run.oracle);
	w->process->retired_at = run.oracle->stamp++;
	w->process->is_busy = false;
	if (engine_tracing())
		printf("# applied\n");
}

/* When nobody is in a call any more that began before its thread knew that the last change of
 * limits is done. */
static void collect(struct process *p)
{
	if (p->is_busy || p->retired_at == 0)
		return;
	for (unsigned i = 0; i < run.life->programs; i++)
		if (run.workers[i].process == p && run.workers[i].in_call != 0 &&
			run.workers[i].synchronized_at < p->retired_at)
			return;
	p->is_busy = true;
	p->retired_at = 0;
	memory_settle();
	throttle_table_collect(p->table);
	p->is_busy = false;
}

static void operate(struct worker *w, const struct operation *op)
{
	struct throttle_charge charge = {.limit = 0, .caller = key_of(op->caller), .cost = 1};
	struct throttle_verdict verdict;
	uint64_t now;

	run.oracle->now += run.opening > 0 ? op->advance % OPENING_NS : op->advance;
	now = run.oracle->now - op->behind;
	switch (op->what) {
	case WHAT_TAKE:
		take(w, op, now);
		break;
	case WHAT_PEEK:
		throttle_peek(w->process->table, &charge, 1, now, &verdict);
		break;
	case WHAT_REFUND:
		if (w->holds > 0)
			refund(w, op, now);
		break;
	case WHAT_SETTLE:
		if (w->holds > 0)
			settle(w, op, now);
		break;
	case WHAT_CHARGE:
		if (w->holds > 0 && !is_in_flight(w->held[0].limits[0]))
			force(w, &w->held[0], 0, op->cost[0], now);
		break;
	case WHAT_RELEASE:
		if (w->holds > 0)
			release(w, op, now);
		break;
	case WHAT_RESET:
		reset(w, op, now);
		break;
	case WHAT_APPLY:
		if (!w->process->is_busy)
			apply(w, op->capacity, run.oracle->now);
		break;
	case WHAT_GROW:
		if (!w->process->is_busy)
			grow(w);
		break;
	case WHAT_CROWD:
		crowd(w, op, now);
		break;
	}
}

static void work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i < w->program->count; i++) {
		collect(w->process);
		if (engine_random(2) == 0) {
			engine_synchronize();
			w->synchronized_at = run.oracle->stamp++;
		}
		w->in_call = run.oracle->stamp++;
		operate(w, &w->program->operations[i]);
		w->in_call = 0;
		if (run.oracle->wrong[0] != '\0')
			return;
	}
}

/* ---- processes ---- */

static struct throttle_table *open_table(void)
{
	struct throttle_table_options options = {
		.folder = run.scenario->in_file ? "state" : NULL,
		.callers = run.scenario->grows ? 2 * FILLERS : 1,
		.now_ns = run.oracle->now,
		.grows = run.scenario->grows,
	};
	struct throttle_report report;
	struct throttle_table *table = throttle_table_open(
		&options, run.oracle->rules[run.oracle->begun], ORACLE_LIMITS, &report);

	if (table == NULL || report.found >= THROTTLE_FOUND_SET_ASIDE)
		fail(report.text);
	return table;
}

/* Others than those that are looked at: so many that the bucket is full. */
static void fill(struct throttle_table *table)
{
	for (uint64_t i = 1; run.scenario->is_full && i <= run.scenario->fillers; i++)
		take_filler(table, i, run.oracle->now);
	if (run.scenario->fillers < FILLERS)
		throttle_table_grow(table);
}

static void begin_process(void *argument)
{
	struct process *p = argument;

	run.opening++;
	p->table = run.scenario->in_file ? open_table() : run.table;
	run.opening--;
	if (p->table == NULL)
		return;
	oracle_end_version(run.oracle);
	for (unsigned i = 0; i < run.life->programs; i++)
		if (run.workers[i].process == p)
			engine_spawn(p->number, work, &run.workers[i]);
}

static void look(struct throttle_table *table)
{
	for (unsigned limit = 0; limit < ORACLE_LIMITS; limit++)
		for (unsigned c = 0; c < run.scenario->callers; c++) {
			struct throttle_outcome outcome;

			throttle_explain(table, limit, key_of(c), run.oracle->now, &outcome);
			if (engine_tracing())
				printf("# explain %c%u: quota %llu, remaining %llu\n", 'a' + limit,
					c, (unsigned long long)outcome.quota,
					(unsigned long long)outcome.remaining);
			oracle_explained(run.oracle, limit, c, &outcome);
		}
}

static void live(const struct life *life, unsigned number)
{
	run.life = life;
	for (unsigned p = 0; p < life->processes; p++) {
		run.processes[p] = (struct process){.number = 1 + 2 * number + p};
		engine_spawn(run.processes[p].number, begin_process, &run.processes[p]);
	}
	for (unsigned i = 0; i < life->programs; i++) {
		memset(&run.workers[i], 0, sizeof(run.workers[i]));
		run.workers[i].process = &run.processes[life->program[i].process];
		run.workers[i].program = &life->program[i];
	}
	if (engine_run() == ENDED_HANGS)
		fail("a thread hangs");
	run.opening = 0; /* also of who was killed in it */
	for (unsigned p = 0; p < life->processes; p++) {
		struct process *process = &run.processes[p];

		if (!engine_is_killed(process->number) && process->table != NULL &&
			run.oracle->wrong[0] == '\0')
			look(process->table);
	}
	for (unsigned p = 0; run.scenario->in_file && p < life->processes; p++) {
		oracle_process_ended(run.oracle, run.processes[p].number);
		files_kill(run.processes[p].number);
	}
}

/* When all is over: each caller has its whole quota, and no more. */
static void finish(struct throttle_table *table)
{
	const struct throttle_limit *rules = run.oracle->rules[run.oracle->begun];

	for (unsigned limit = 0; limit < ORACLE_LIMITS; limit++) {
		const struct throttle_limit *l = &rules[limit];
		uint64_t quota = l->kind == THROTTLE_GCRA ? l->burst : l->quota;

		/* What is in flight has no end by itself. */
		if (l->kind == THROTTLE_CONCURRENCY && !run.scenario->in_file)
			continue;
		/* A debt may be of several quotas. */
		run.oracle->now += (SCENARIO_OPERATIONS * SCENARIO_PROGRAMS + 1) * l->window_ns +
				   oracle_slack(run.oracle, limit) + 3 * SECOND;
		for (unsigned c = 0; c < run.scenario->callers; c++)
			for (uint64_t i = 0; i <= quota; i++) {
				struct throttle_charge charge = {
					.limit = limit, .caller = key_of(c), .cost = 1};
				struct throttle_verdict verdict;

				throttle_take(table, &charge, 1, run.oracle->now, &verdict, NULL);
				if (verdict.admitted != (i < quota))
					fail(i < quota ? "refused after all was over"
						       : "admitted beyond the limit");
			}
	}
}

bool scenario_run(const struct scenario *s, const struct schedule *schedules, struct oracle *oracle,
	uint64_t length[SCENARIO_LIVES])
{
	struct throttle_table *table;
	uint64_t random = s->seed;

	run.scenario = s;
	run.oracle = oracle;
	run.next_version = run.opening = 0;
	run.fillers = 0;
	engine_reset(schedules[0].seed, schedules[0].is_weak);
	files_reset();
	oracle_reset(oracle);
	oracle->now = START + scenario_random(&random, 3 * SECOND);
	oracle->is_shared = s->is_full;
	oracle->is_weak = schedules[0].is_weak;
	for (unsigned c = 0; c < ORACLE_CALLERS; c++)
		run.fingerprints[c] = 1 + scenario_random(&random, UINT64_C(1) << 52);
	oracle_begin_version(oracle, s->version[0]);
	oracle_end_version(oracle);
	memset(run.processes, 0, sizeof(run.processes));
	table = open_table();
	oracle->now += s->age;
	fill(table);
	run.table = table;
	if (s->in_file)
		throttle_table_close(table);
	for (unsigned i = 0; i < s->lives && oracle->wrong[0] == '\0'; i++) {
		uint64_t begin = engine_now();

		if (s->life[i].changes_limits)
			oracle_begin_version(oracle, s->version[++run.next_version % s->versions]);
		engine_schedule(&schedules[i]);
		live(&s->life[i], i);
		length[i] = engine_now() - begin;
	}
	if (oracle->wrong[0] != '\0')
		return false;
	table = s->in_file ? open_table() : run.table;
	if (s->in_file)
		oracle_end_version(oracle);
	if (table != NULL) {
		look(table);
		finish(table);
	}
	return oracle->wrong[0] == '\0';
}
