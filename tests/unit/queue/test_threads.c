/* Four workers and a timer thread on one queue: order across workers, bounds, races.
 *
 *   worker 0..3:  enter | take mail | touch the account | complete | leave     any client, any time
 *   timer:        queue_expire with an idle time of nothing, sessions drained and closed
 *
 * The account of a client is plain memory without a lock: reads and writes to it are kept apart by
 * the queue alone, so under the thread sanitizer a missing order is a reported race, too. The order
 * of a client is fixed by entering under a mutex of the client; what each read saw is judged at the
 * end. QUEUE_EXCHANGES sets how many exchanges each worker makes. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define WORKERS 4
#define CLIENTS 6
#define OPEN    24 /* exchanges that a worker has open */

enum fate { PENDING, APPLIED, NOT_APPLIED };

struct entry { /* one exchange in its client's history, written by its owner, read at the end */
	bool write, saw;
	uint8_t fate;
	uint32_t seen;
};

struct client {
	pthread_mutex_t mutex;
	unsigned entered;
	uint32_t account; /* position of the last write + 1; guarded by the queue only */
	struct entry *history;
};

enum phase { FREE, WAITING, IN_FLIGHT, MAIL };

/* Stands for a session's connection: plain memory, as one exchange at a time has it. */
struct pin {
	unsigned uses;
	bool in_use;
};

/* An upstream of one configuration: who has an exchange for it holds it, as does the arena. */
struct upstream {
	struct run_queue *run_queue;
	_Atomic unsigned holders;
};

struct exchange {
	struct ticket ticket; /* first */
	struct pin *pin;
	struct upstream *upstream;
	enum phase phase;
	bool touched, tunnel;
	struct client *client;
	unsigned position;
};

struct arena;

struct worker {
	struct arena *arena;
	unsigned index;
	uint64_t random;
	pthread_mutex_t mutex;
	struct message *mail, **tail;
	struct exchange exchange[OPEN];
	unsigned open;
	uint64_t went, waited, refused;
};

struct arena {
	struct queue *queue;
	struct upstream *upstream; /* guarded by swap */
	pthread_mutex_t swap;
	uint64_t swaps;
	struct queue_policy policy;
	struct client client[CLIENTS];
	struct worker worker[WORKERS];
	unsigned exchanges, limit, open;
	bool closing, eager, pinning, reloading;
	_Atomic uint64_t pins_made, pins_closed, pin_reuses;
	_Atomic unsigned in_flight, running;
	_Atomic uint64_t over_limit;
	uint64_t paced_ns, charged; /* guarded by the run queue's lock, as pace is called with it */
};

#define PACE_NS 20000 /* one each 20 us */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * SEC + (uint64_t)time.tv_nsec;
}

static void on_dispatch(void *ctx, unsigned index, struct ticket *ticket)
{
	struct arena *arena = ctx;
	struct worker *worker = &arena->worker[index];

	pthread_mutex_lock(&worker->mutex);
	ticket->message.next = NULL;
	*worker->tail = &ticket->message;
	worker->tail = &ticket->message.next;
	pthread_mutex_unlock(&worker->mutex);
}

static uint64_t pace(void *ctx, uint64_t now_ns)
{
	struct arena *arena = ctx;

	if (now_ns < arena->paced_ns + PACE_NS)
		return arena->paced_ns + PACE_NS - now_ns;
	arena->paced_ns = now_ns;
	arena->charged++;
	return 0;
}

static unsigned pick(struct worker *worker, unsigned below)
{
	return (unsigned)((random_next(&worker->random) >> 33) % below);
}

static void on_unpin(void *ctx, void *pin)
{
	struct arena *arena = ctx;

	assert_false(((struct pin *)pin)->in_use);
	free(pin);
	atomic_fetch_add(&arena->pins_closed, 1);
}

static void take_pin(struct worker *worker, struct exchange *exchange)
{
	struct arena *arena = worker->arena;
	struct pin *pin = queue_take_pin(arena->queue, &exchange->ticket);

	if (pin != NULL) {
		atomic_fetch_add(&arena->pin_reuses, 1);
	} else {
		pin = calloc(1, sizeof(*pin));
		atomic_fetch_add(&arena->pins_made, 1);
	}
	assert_false(pin->in_use);
	pin->in_use = true;
	pin->uses++;
	exchange->pin = pin;
}

/* Back to its session, or closed: now and then, and when the session does not take it. */
static void leave_pin(struct worker *worker, struct exchange *exchange, bool clean)
{
	struct arena *arena = worker->arena;
	struct pin *pin = exchange->pin;

	if (pin == NULL)
		return;
	exchange->pin = NULL;
	pin->in_use = false;
	if (!clean || pick(worker, 10) == 0 || !queue_pin(arena->queue, &exchange->ticket, pin))
		on_unpin(arena, pin);
}

static void release_upstream(struct upstream *upstream)
{
	if (atomic_fetch_sub(&upstream->holders, 1) > 1)
		return;
	run_queue_destroy(upstream->run_queue);
	free(upstream);
}

static struct upstream *hold_upstream(struct arena *arena)
{
	struct upstream *upstream;

	pthread_mutex_lock(&arena->swap);
	upstream = arena->upstream;
	atomic_fetch_add(&upstream->holders, 1);
	pthread_mutex_unlock(&arena->swap);
	return upstream;
}

/* A reload: what comes from now on is for another run queue, the old one goes with its last. */
static void swap_upstream(struct arena *arena, const struct run_queue_config *config)
{
	struct upstream *new = calloc(1, sizeof(*new)), *old;

	new->run_queue = run_queue_create(arena->queue, config);
	atomic_init(&new->holders, 1);
	pthread_mutex_lock(&arena->swap);
	old = arena->upstream;
	arena->upstream = new;
	pthread_mutex_unlock(&arena->swap);
	arena->swaps++;
	if (old != NULL)
		release_upstream(old);
}

static void launched(struct worker *worker, struct exchange *exchange)
{
	struct arena *arena = worker->arena;

	exchange->phase = IN_FLIGHT;
	if (arena->pinning)
		take_pin(worker, exchange);
	if (arena->limit != 0 && atomic_fetch_add(&arena->in_flight, 1) >= arena->limit)
		atomic_fetch_add(&arena->over_limit, 1);
}

static void landing(struct worker *worker)
{
	if (worker->arena->limit != 0)
		atomic_fetch_sub(&worker->arena->in_flight, 1);
}

static void over(struct worker *worker, struct exchange *exchange, enum fate fate)
{
	exchange->client->history[exchange->position].fate = (uint8_t)fate;
	exchange->phase = FREE;
	release_upstream(exchange->upstream);
	worker->open--;
}

static void enter(struct worker *worker)
{
	struct arena *arena = worker->arena;
	struct exchange *exchange = worker->exchange;
	struct client *client;
	enum queue_verdict verdict;
	unsigned number;

	while (exchange->phase != FREE)
		exchange++;
	number = pick(worker, CLIENTS);
	client = &arena->client[number];
	memset(exchange, 0, sizeof(*exchange));
	ticket_init(&exchange->ticket, worker->index);
	exchange->ticket.unsafe = pick(worker, 100) < 30;
	exchange->ticket.bytes = pick(worker, 3);
	exchange->client = client;
	exchange->phase = WAITING;
	exchange->upstream = hold_upstream(arena);
	worker->open++;

	pthread_mutex_lock(&client->mutex);
	exchange->position = client->entered++;
	client->history[exchange->position].write = exchange->ticket.unsafe;
	verdict = queue_enter(arena->queue, &arena->policy, exchange->upstream->run_queue,
		key_of(number), &exchange->ticket, now());
	pthread_mutex_unlock(&client->mutex);

	if (verdict == QUEUE_GO) {
		worker->went++;
		launched(worker, exchange);
	} else if (verdict == QUEUE_WAIT) {
		worker->waited++;
	} else {
		worker->refused++;
		over(worker, exchange, NOT_APPLIED);
	}
}

static void touch(struct exchange *exchange)
{
	struct entry *entry = &exchange->client->history[exchange->position];

	if (exchange->touched)
		return;
	exchange->touched = true;
	if (exchange->ticket.unsafe) {
		exchange->client->account = exchange->position + 1;
	} else {
		entry->seen = exchange->client->account;
		entry->saw = true;
	}
}

static void complete(struct worker *worker, struct exchange *exchange)
{
	enum fate fate = exchange->touched ? APPLIED : NOT_APPLIED;

	if (exchange->touched && !exchange->tunnel && pick(worker, 2) == 0)
		queue_answered(worker->arena->queue, &exchange->ticket, now());
	if (!exchange->tunnel)
		landing(worker);
	leave_pin(worker, exchange, !exchange->tunnel);
	if (queue_done(worker->arena->queue, &exchange->ticket, now()) == QUEUE_UNDER_WAY) {
		exchange->client->history[exchange->position].fate = (uint8_t)fate;
		exchange->phase = MAIL;
	} else {
		over(worker, exchange, fate);
	}
}

/* Takes the oldest message; false if there is none. */
static bool take_mail(struct worker *worker)
{
	enum queue_verdict verdict;
	struct exchange *exchange;
	struct ticket *ticket;

	pthread_mutex_lock(&worker->mutex);
	ticket = worker->mail ? ticket_of(worker->mail) : NULL;
	if (ticket != NULL) {
		worker->mail = ticket->message.next;
		if (worker->mail == NULL)
			worker->tail = &worker->mail;
	}
	pthread_mutex_unlock(&worker->mutex);
	if (ticket == NULL)
		return false;

	exchange = (struct exchange *)ticket;
	verdict = queue_arrive(worker->arena->queue, ticket, now());
	if (verdict == QUEUE_GO) {
		launched(worker, exchange);
		return true;
	}
	if (verdict == QUEUE_ABORTED || verdict == QUEUE_ENDING) {
		if (exchange->phase == IN_FLIGHT && !exchange->tunnel)
			landing(worker);
		leave_pin(worker, exchange, false);
		queue_done(worker->arena->queue, ticket, now());
	}
	/* refused, shed or closed ones have not touched anything */
	over(worker, exchange, exchange->touched ? APPLIED : NOT_APPLIED);
	return true;
}

static void act(struct worker *worker, struct exchange *exchange)
{
	unsigned dice = pick(worker, 100);
	enum queue_left left;

	if (exchange->phase == WAITING && dice < 3) {
		left = queue_leave(worker->arena->queue, &exchange->ticket, now());
		if (left == QUEUE_LEFT)
			over(worker, exchange, NOT_APPLIED);
		else if (left == QUEUE_UNDER_WAY)
			exchange->phase = MAIL;
	} else if (exchange->phase == IN_FLIGHT && dice < 40) {
		touch(exchange);
	} else if (exchange->phase == IN_FLIGHT && dice < 42 && !exchange->tunnel) {
		touch(exchange);
		landing(worker);
		exchange->tunnel = true;
		exchange->ticket.hears_end = dice == 40;
		queue_detach(worker->arena->queue, &exchange->ticket, now());
	} else if (exchange->phase == IN_FLIGHT && dice < 80) {
		if (dice > 43)
			touch(exchange);
		complete(worker, exchange);
	}
}

static void *work(void *ctx)
{
	struct worker *worker = ctx;
	unsigned made = 0, idle = 0;

	while (made < worker->arena->exchanges || worker->open > 0) {
		if (made < worker->arena->exchanges && worker->open < worker->arena->open &&
			pick(worker, 3) == 0) {
			enter(worker);
			made++;
		}
		idle = take_mail(worker) ? 0 : idle + 1;
		act(worker, &worker->exchange[pick(worker, OPEN)]);
		if (idle > 200) {
			nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
			idle = 0;
		}
	}
	atomic_fetch_sub(&worker->arena->running, 1);
	return NULL;
}

static void *keep_time(void *ctx)
{
	struct arena *arena = ctx;
	uint64_t random = 99;

	while (atomic_load(&arena->running) > 0) {
		/* eager: whatever is idle is over, so that firing meets arrivals all the time */
		queue_expire(arena->queue, arena->eager ? now() + SEC : now());
		if (arena->reloading)
			swap_upstream(arena,
				&(struct run_queue_config){
					.max_in_flight = (uint32_t)(random_next(&random) % 3) + 1});
		if (arena->closing) {
			const enum session_state states[] = {
				SESSION_DRAINING, SESSION_CLOSING, SESSION_ABORTED};
			queue_close_session(arena->queue,
				key_of((unsigned)(random_next(&random) % CLIENTS)),
				states[random_next(&random) % 3], now());
		}
		nanosleep(&(struct timespec){.tv_nsec = arena->eager ? 1000 : 50000}, NULL);
	}
	return NULL;
}

static void judge(const struct client *client)
{
	uint32_t last = 0;

	for (unsigned i = 0; i < client->entered; i++) {
		const struct entry *entry = &client->history[i];
		if (entry->saw)
			assert_int_equal(entry->seen, last);
		if (entry->write && entry->fate == APPLIED)
			last = i + 1;
	}
}

enum { CLOSING = 1, EAGER = 2, PACED = 4, PINNED = 8, RELOADING = 16 };

static void run(const char *name, enum queue_ordering ordering, unsigned limit, unsigned how)
{
	bool closing = (how & CLOSING) != 0;
	struct arena *arena = test_calloc(1, sizeof(*arena));
	const char *exchanges = getenv("QUEUE_EXCHANGES");
	struct queue_counts counts;
	pthread_t thread[WORKERS + 1];
	uint64_t went = 0, waited = 0, refused = 0;

	arena->exchanges = exchanges != NULL ? (unsigned)strtoul(exchanges, NULL, 10) : 10000;
	if ((how & PACED) != 0)
		arena->exchanges /= 4;
	arena->limit = limit;
	arena->closing = closing;
	arena->eager = (how & EAGER) != 0;
	arena->pinning = (how & PINNED) != 0;
	arena->reloading = (how & RELOADING) != 0;
	pthread_mutex_init(&arena->swap, NULL);
	arena->open = arena->eager ? 1 : OPEN;
	arena->policy = (struct queue_policy){.ordering = ordering,
		.depth = 1000,
		.high_burst = 4,
		.read_hold_ms = 3600 * 1000,
		.session_in_flight = arena->pinning ? 1 : 0,
		.session_idle_ms = closing ? 0 : 1};
	arena->queue = queue_create(&(struct queue_config){.shards = 2,
		.callbacks = {.ctx = arena, .dispatch = on_dispatch, .unpin = on_unpin}});
	swap_upstream(arena, &(struct run_queue_config){.max_in_flight = limit,
				     .pace = (how & PACED) != 0 ? pace : NULL,
				     .pace_ctx = arena});
	atomic_store(&arena->running, WORKERS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		pthread_mutex_init(&arena->client[i].mutex, NULL);
		arena->client[i].history =
			calloc((size_t)arena->exchanges * WORKERS, sizeof(struct entry));
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *worker = &arena->worker[i];
		worker->arena = arena;
		worker->index = i;
		worker->random = i + 1;
		worker->tail = &worker->mail;
		pthread_mutex_init(&worker->mutex, NULL);
		pthread_create(&thread[i], NULL, work, worker);
	}
	pthread_create(&thread[WORKERS], NULL, keep_time, arena);
	for (unsigned i = 0; i <= WORKERS; i++)
		pthread_join(thread[i], NULL);

	assert_int_equal(atomic_load(&arena->over_limit), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		went += arena->worker[i].went;
		waited += arena->worker[i].waited;
		refused += arena->worker[i].refused;
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		judge(&arena->client[i]);
		free(arena->client[i].history);
	}
	queue_expire(arena->queue, QUEUE_NEVER - 1);
	queue_count(arena->queue, &counts);
	printf("# %s: %llu went at once, %llu waited, %llu refused, %llu sessions rolled, "
	       "%llu closed\n",
		name, (unsigned long long)went, (unsigned long long)waited,
		(unsigned long long)refused, (unsigned long long)counts.rolled,
		(unsigned long long)counts.closed);
	assert_int_equal(counts.queued + counts.in_flight + counts.detached, 0);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.pinned, 0);
	assert_int_equal(atomic_load(&arena->pins_made), atomic_load(&arena->pins_closed));
	if (arena->pinning) {
		printf("# %llu pins, used again %llu times\n",
			(unsigned long long)atomic_load(&arena->pins_made),
			(unsigned long long)atomic_load(&arena->pin_reuses));
		assert_true(atomic_load(&arena->pin_reuses) > 0);
	}
	assert_int_equal(counts.opened, counts.rolled + counts.closed);
	if (arena->reloading)
		printf("# %llu run queues, one after the other\n",
			(unsigned long long)arena->swaps);
	release_upstream(arena->upstream);
	queue_destroy(arena->queue);
	test_free(arena);
}

static void writes_over_four_workers(void **state)
{
	(void)state;
	run("writes", QUEUE_WRITES, 0, 0);
}

static void writes_within_a_bound(void **state)
{
	(void)state;
	run("writes, 5 in flight", QUEUE_WRITES, 5, 0);
}

static void strict_over_four_workers(void **state)
{
	(void)state;
	run("strict", QUEUE_STRICT, 0, 0);
}

static void strict_within_a_bound(void **state)
{
	(void)state;
	run("strict, 2 in flight", QUEUE_STRICT, 2, 0);
}

static void closed_while_at_work(void **state)
{
	(void)state;
	run("sessions closed", QUEUE_WRITES, 5, CLOSING);
}

/* Nobody but the timer thread lets the next one go when pace has said wait. */
static void paced_over_four_workers(void **state)
{
	(void)state;
	run("paced", QUEUE_WRITES, 0, PACED);
}

static void idle_sessions_rolled_as_requests_come(void **state)
{
	(void)state;
	run("sessions rolled", QUEUE_WRITES, 3, EAGER);
}

static void pins_have_one_user(void **state)
{
	(void)state;
	run("pinned", QUEUE_WRITES, 5, PINNED);
}

static void pins_of_closed_sessions(void **state)
{
	(void)state;
	run("pinned, sessions closed", QUEUE_NONE, 0, PINNED | CLOSING);
}

static void pins_of_rolled_sessions(void **state)
{
	(void)state;
	run("pinned, sessions rolled", QUEUE_WRITES, 0, PINNED | EAGER);
}

/* Each run queue ends with its last exchange, while any thread is about to serve it. */
static void run_queues_come_and_go(void **state)
{
	(void)state;
	run("reloads", QUEUE_WRITES, 0, RELOADING);
	run("reloads, strict, sessions closed", QUEUE_STRICT, 0, RELOADING | CLOSING);
}

UNIT_SUITE(test_threads)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_over_four_workers),
		cmocka_unit_test(writes_within_a_bound),
		cmocka_unit_test(strict_over_four_workers),
		cmocka_unit_test(strict_within_a_bound),
		cmocka_unit_test(closed_while_at_work),
		cmocka_unit_test(paced_over_four_workers),
		cmocka_unit_test(idle_sessions_rolled_as_requests_come),
		cmocka_unit_test(run_queues_come_and_go),
		cmocka_unit_test(pins_have_one_user),
		cmocka_unit_test(pins_of_closed_sessions),
		cmocka_unit_test(pins_of_rolled_sessions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
