/* Random histories against a simulated origin: does each read observe the last write that preceded
 * it in its client's order?
 *
 *   schedule(seed): clients, lanes, policy, bounds, and then steps at random:
 *     enter | deliver a message | touch the origin | answer | complete | leave | detach | time |
 *     close |
 *     enter before it is ready, or give the place back; and want one then
 *
 * The origin touches an account somewhere between dispatch and completion: a write sets it to its
 * own number, a read takes a copy. Messages are delivered late, so leaving crosses dispatching. At
 * the end every read is judged by the client's order, the order of queue_enter:
 *
 *   what it saw must not be older than the last write before it in its lane,
 *   and must not be a write after it in its lane, unless that one went when the head of the read's
 *   response had come, or read_hold had passed since its turn.
 *
 * Any failure prints the seed; QUEUE_SEED=n QUEUE_SCHEDULES=1 repeats it. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#define CLIENTS      5
#define TICKETS      160
#define NOTHING_SEEN UINT32_MAX

enum phase { UNUSED, WAITING, MAIL, IN_FLIGHT, UNREADY, TUNNEL, OVER };

struct exchange {
	struct job job; /* first */
	enum phase phase;
	unsigned position; /* in its client's order */
	bool touched;      /* the origin did its part */
	bool applied;      /* a write that the origin has done */
	uint32_t apply_index, seen;
	uint64_t went_ns, answered_ns; /* QUEUE_NEVER: has not */
};

struct account {
	unsigned entered;
	uint32_t applied; /* writes so far */
	uint32_t value;   /* index of the exchange that wrote last */
};

struct schedule {
	struct world world;
	struct run_queue_config config;
	struct exchange exchange[TICKETS];
	struct account account[CLIENTS];
	unsigned entered, clients, limit;
	unsigned leave_chance, close_chance, write_chance, high_chance, unready_chance;
	enum queue_ordering ordering;
	uint64_t seed, random;
};

static unsigned pick(struct schedule *schedule, unsigned below)
{
	return (unsigned)((random_next(&schedule->random) >> 33) % below);
}

static bool chance(struct schedule *schedule, unsigned percent)
{
	return pick(schedule, 100) < percent;
}

#define check(schedule, condition)                                                                 \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# QUEUE_SEED=%llu: %s\n", (unsigned long long)(schedule)->seed,    \
				#condition);                                                       \
			assert_true(condition);                                                    \
		}                                                                                  \
	} while (0)

static struct exchange *of(struct job *job)
{
	return (struct exchange *)job;
}

/* ---- the steps ------------------------------------------------------------------------------ */

static void check_bound(struct schedule *schedule)
{
	struct run_queue_counts counts;

	run_queue_count(schedule->world.upstream, &counts);
	check(schedule, schedule->limit == 0 || counts.in_flight <= schedule->limit);
}

static void fly(struct schedule *schedule, struct exchange *exchange)
{
	exchange->phase = IN_FLIGHT;
	exchange->went_ns = schedule->world.now_ns;
}

static void step_enter(struct schedule *schedule)
{
	struct exchange *exchange = &schedule->exchange[schedule->entered];
	unsigned client = pick(schedule, schedule->clients);
	const char *kinds = chance(schedule, schedule->high_chance) ? "RW" : "rw";
	enum queue_verdict verdict;

	job_init(&exchange->job, client, schedule->entered,
		kinds[chance(schedule, schedule->write_chance)]);
	exchange->job.ticket.weight = (uint16_t)(1 + client);
	exchange->position = schedule->account[client].entered++;
	exchange->seen = NOTHING_SEEN;
	exchange->went_ns = exchange->answered_ns = QUEUE_NEVER;
	exchange->phase = WAITING;
	exchange->job.ticket.unready = chance(schedule, schedule->unready_chance);
	schedule->entered++;
	verdict = world_enter(&schedule->world, &exchange->job);
	if (verdict == QUEUE_GO) {
		fly(schedule, exchange);
	} else if (verdict != QUEUE_WAIT) {
		exchange->phase = OVER;
	} else if (exchange->job.ticket.unready) {
		exchange->phase = UNREADY;
	}
}

static void step_deliver(struct schedule *schedule)
{
	struct job *job = world_next(&schedule->world);
	struct exchange *exchange;

	if (job == NULL)
		return;
	exchange = of(job);
	if (job->verdict == QUEUE_GO) {
		check(schedule, exchange->phase == WAITING);
		fly(schedule, exchange);
	} else if (job->verdict == QUEUE_ABORTED || job->verdict == QUEUE_ENDING) {
		check(schedule, job->verdict == QUEUE_ABORTED ||
					(exchange->phase == TUNNEL && job->ticket.hears_end));
		exchange->phase = OVER;
		queue_done(schedule->world.queue, &job->ticket, schedule->world.now_ns);
	} else {
		exchange->phase = OVER;
	}
}

/* Somebody in this phase at random, NULL if the dice find none. */
static struct exchange *somebody(struct schedule *schedule, enum phase phase)
{
	for (unsigned i = 0; i < 8 && schedule->entered > 0; i++) {
		struct exchange *exchange = &schedule->exchange[pick(schedule, schedule->entered)];
		if (exchange->phase == phase)
			return exchange;
	}
	return NULL;
}

static void touch(struct schedule *schedule, struct exchange *exchange)
{
	struct account *account = &schedule->account[exchange->job.client];

	if (exchange->touched)
		return;
	exchange->touched = true;
	if (!exchange->job.ticket.unsafe) {
		exchange->seen = account->value;
		return;
	}
	exchange->applied = true;
	exchange->apply_index = ++account->applied;
	account->value = exchange->job.id;
}

static void complete(struct schedule *schedule, struct exchange *exchange)
{
	enum queue_left left;

	/* some fail before the origin did anything */
	if (exchange->phase != UNREADY && !chance(schedule, 5))
		touch(schedule, exchange);
	left = queue_done(schedule->world.queue, &exchange->job.ticket, schedule->world.now_ns);
	exchange->phase = left == QUEUE_UNDER_WAY ? MAIL : OVER;
}

static void step_leave(struct schedule *schedule)
{
	struct exchange *exchange = somebody(schedule, WAITING);
	enum queue_left left;

	if (exchange == NULL)
		return;
	left = queue_leave(schedule->world.queue, &exchange->job.ticket, schedule->world.now_ns);
	check(schedule, left != QUEUE_IN_FLIGHT);
	exchange->phase = left == QUEUE_UNDER_WAY ? MAIL : OVER;
}

static void make_ready(struct schedule *schedule, struct exchange *exchange)
{
	if (queue_ready(schedule->world.queue, &exchange->job.ticket, schedule->world.now_ns) ==
		QUEUE_GO)
		fly(schedule, exchange);
	else
		exchange->phase = WAITING; /* or it is cut: that message is under way */
}

/* It waits for its limit before it goes, and leaves its place to others; or wants one. */
static void step_yield(struct schedule *schedule)
{
	struct exchange *exchange = somebody(schedule, IN_FLIGHT);
	struct queue *queue = schedule->world.queue;

	bool (*yield)(struct queue *, struct ticket *, uint64_t) =
		chance(schedule, 50) ? queue_yield : queue_yield_place;
	if (exchange != NULL && !exchange->touched &&
		yield(queue, &exchange->job.ticket, schedule->world.now_ns))
		exchange->phase = UNREADY;
	exchange = somebody(schedule, UNREADY);
	if (exchange == NULL)
		return;
	if (chance(schedule, 20))
		complete(schedule, exchange); /* its client left */
	else
		make_ready(schedule, exchange);
}

static void step_other(struct schedule *schedule)
{
	struct world *world = &schedule->world;
	struct exchange *exchange;

	if (chance(schedule, schedule->close_chance)) {
		const enum session_state states[] = {
			SESSION_DRAINING, SESSION_CLOSING, SESSION_ABORTED};
		queue_close_session(world->queue, key_of(pick(schedule, schedule->clients)),
			states[pick(schedule, 3)], world->now_ns);
	} else if (chance(schedule, 10)) {
		exchange = somebody(schedule, IN_FLIGHT);
		/* a tunnel: it touched the origin, now it orders nothing */
		if (exchange != NULL && !exchange->job.ticket.posted) {
			touch(schedule, exchange);
			exchange->job.ticket.hears_end = chance(schedule, 50);
			queue_detach(world->queue, &exchange->job.ticket, world->now_ns);
			exchange->phase = TUNNEL;
		}
	} else if (chance(schedule, 30)) {
		step_yield(schedule);
	} else if (chance(schedule, 10) && schedule->limit != 0) {
		schedule->config.max_in_flight = ++schedule->limit;
		run_queue_configure(world->upstream, &schedule->config, world->now_ns);
	} else {
		world->now_ns += pick(schedule, 100) * MS;
		queue_expire(world->queue, world->now_ns);
	}
}

static void step(struct schedule *schedule)
{
	unsigned dice = pick(schedule, 100);
	struct exchange *exchange;

	schedule->world.now_ns += pick(schedule, 1000) * 1000;
	if (dice < 25 && schedule->entered < TICKETS) {
		step_enter(schedule);
	} else if (dice < 50) {
		step_deliver(schedule);
	} else if (dice < 65) {
		exchange = somebody(schedule, IN_FLIGHT);
		if (exchange != NULL && exchange->answered_ns == QUEUE_NEVER &&
			!exchange->job.ticket.posted && chance(schedule, 30)) {
			queue_answered(schedule->world.queue, &exchange->job.ticket,
				schedule->world.now_ns);
			exchange->answered_ns = schedule->world.now_ns;
		} else if (exchange != NULL) {
			touch(schedule, exchange);
		}
	} else if (dice < 88) {
		exchange = somebody(schedule, chance(schedule, 5) ? TUNNEL : IN_FLIGHT);
		if (exchange != NULL)
			complete(schedule, exchange);
	} else if (dice < 88 + schedule->leave_chance) {
		step_leave(schedule);
	} else {
		step_other(schedule);
	}
	check_bound(schedule);
}

/* ---- judging -------------------------------------------------------------------------------- */

/* Might a write that went then have passed the read? A turn that came later than the message of it
 * can't be told from outside, so it is the ticket that says when that was. */
static bool held_no_more(const struct exchange *read, uint64_t at_ns)
{
	const struct ticket *ticket = &read->job.ticket;

	return read->answered_ns <= at_ns || ticket->turn_ns + ticket->read_hold_ms * MS <= at_ns;
}

static void judge_read(struct schedule *schedule, const struct exchange *read)
{
	const struct exchange *before = NULL, *seen;
	unsigned client = read->job.client, lane = read->job.ticket.lane;

	for (unsigned i = 0; i < schedule->entered; i++) {
		const struct exchange *other = &schedule->exchange[i];
		if (other->job.client == client && other->applied &&
			other->job.ticket.lane == lane && other->position < read->position)
			before = other;
	}
	if (read->seen == NOTHING_SEEN) {
		check(schedule, before == NULL);
		return;
	}
	seen = &schedule->exchange[read->seen];
	check(schedule, seen->applied && seen->job.client == client);
	check(schedule, before == NULL || seen->apply_index >= before->apply_index);
	check(schedule,
		seen->job.ticket.lane != lane || seen == before ||
			(schedule->ordering == QUEUE_WRITES && seen->position > read->position &&
				held_no_more(read, seen->went_ns)));
}

/* Writes of a lane are done in the order in which they came. */
static void judge_writes(struct schedule *schedule)
{
	for (unsigned client = 0; client < CLIENTS; client++) {
		uint32_t last[QUEUE_LANES] = {0, 0};
		for (unsigned i = 0; i < schedule->entered; i++) {
			const struct exchange *write = &schedule->exchange[i];
			unsigned lane = write->job.ticket.lane;
			if (write->job.client != client || !write->applied)
				continue;
			check(schedule, write->apply_index > last[lane]);
			last[lane] = write->apply_index;
		}
	}
}

static void begin(struct schedule *schedule, uint64_t seed)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->seed = seed;
	schedule->random = (seed + 1) * 0x9e3779b97f4a7c15ull;
	schedule->ordering = chance(schedule, 70) ? QUEUE_WRITES : QUEUE_STRICT;
	schedule->clients = 1 + pick(schedule, CLIENTS);
	schedule->limit = chance(schedule, 60) ? 1 + pick(schedule, 6) : 0;
	schedule->leave_chance = pick(schedule, 8);
	schedule->close_chance = chance(schedule, 30) ? 10 : 0;
	schedule->write_chance = 5 + pick(schedule, 90);
	schedule->high_chance = chance(schedule, 50) ? pick(schedule, 60) : 0;
	schedule->unready_chance = chance(schedule, 50) ? pick(schedule, 60) : 0;
	schedule->config = (struct run_queue_config){.max_in_flight = schedule->limit,
		.shed_target_ms = chance(schedule, 20) ? 1 + pick(schedule, 200) : 0};
	world_open_with(&schedule->world, schedule->ordering,
		&(struct queue_config){.shards = 2, .max_queued = chance(schedule, 20) ? 10 : 0},
		&schedule->config);
	schedule->world.policy.depth = chance(schedule, 20) ? 4 : 1000;
	schedule->world.policy.high_burst = pick(schedule, 6);
	schedule->world.policy.session_in_flight = chance(schedule, 30) ? 1 + pick(schedule, 4) : 0;
	if (chance(schedule, 50))
		schedule->world.policy.read_hold_ms = pick(schedule, 100);
	schedule->world.policy.session_idle_ms = chance(schedule, 20) ? 0 : pick(schedule, 50);
	for (unsigned i = 0; i < CLIENTS; i++)
		schedule->account[i].value = NOTHING_SEEN;
}

/* Nothing comes any more: everything that waits must go by deliveries and completions alone. */
static void drain(struct schedule *schedule)
{
	bool moved = true;

	while (moved) {
		moved = false;
		while (schedule->world.mail != NULL) {
			step_deliver(schedule);
			moved = true;
		}
		for (unsigned i = 0; i < schedule->entered; i++) {
			struct exchange *exchange = &schedule->exchange[i];
			if (exchange->phase == UNREADY) {
				make_ready(schedule, exchange);
				moved = true;
			}
			if (exchange->phase == IN_FLIGHT || exchange->phase == TUNNEL) {
				complete(schedule, exchange);
				moved = true;
				break;
			}
		}
	}
	for (unsigned i = 0; i < schedule->entered; i++)
		check(schedule, schedule->exchange[i].phase == OVER);
}

static unsigned run_schedule(struct schedule *schedule, uint64_t seed)
{
	unsigned steps = 0;

	begin(schedule, seed);
	while (schedule->entered < TICKETS && steps++ < 20 * TICKETS)
		step(schedule);
	drain(schedule);
	for (unsigned i = 0; i < schedule->entered; i++) {
		if (!schedule->exchange[i].job.ticket.unsafe && schedule->exchange[i].touched)
			judge_read(schedule, &schedule->exchange[i]);
	}
	judge_writes(schedule);
	world_close(&schedule->world);
	return schedule->entered;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);
	return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

static void reads_observe_the_last_write_before_them(void **state)
{
	struct schedule *schedule = test_calloc(1, sizeof(*schedule));
	uint64_t seed = number("QUEUE_SEED", 1), schedules = number("QUEUE_SCHEDULES", 1000);
	uint64_t exchanges = 0;

	(void)state;
	for (uint64_t i = 0; i < schedules; i++)
		exchanges += run_schedule(schedule, seed + i);
	printf("# %llu schedules from seed %llu, %llu exchanges\n", (unsigned long long)schedules,
		(unsigned long long)seed, (unsigned long long)exchanges);
	test_free(schedule);
}

UNIT_SUITE(test_history)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_observe_the_last_write_before_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
