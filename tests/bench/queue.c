/* queue: what a ticket costs. `make bench-queue` prints ns an exchange, for the ways through a
 * session, and memory and time for many sessions.
 *
 *   warm       enter + done, one session, nothing else: the common path
 *   spread     the same over 100,000 sessions, one after the other: cache misses included
 *   bounded    the same with max_in_flight: a place is taken and given back
 *   waiting    strict, 16 deep: everything goes through lane, dispatch() and queue_arrive
 *   in line    64 sessions at an upstream with 4 places: everything goes through the run queue
 *   threads    enter + done on 2 threads, sessions of their own
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "queue/queue.h"
#include "queue/run_queue.h"

#define SESSIONS 100000u

struct bench {
	struct queue *queue;
	struct run_queue *upstream;
	struct queue_policy policy;
	struct message *mail, **tail;
	unsigned long rounds;
};

static void on_dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct bench *bench = ctx;

	(void)worker;
	ticket->message.next = NULL;
	*bench->tail = &ticket->message;
	bench->tail = &ticket->message.next;
}

static struct ticket *take(struct bench *bench, uint64_t now_ns)
{
	struct message *message = bench->mail;
	struct ticket *ticket = message ? ticket_of(message) : NULL;

	if (ticket == NULL)
		return NULL;
	bench->mail = ticket->message.next;
	if (bench->mail == NULL)
		bench->tail = &bench->mail;
	return queue_arrive(bench->queue, ticket, now_ns) == QUEUE_GO ? ticket : NULL;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static struct session_key key_of(uint64_t client)
{
	uint64_t x = (client + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return (struct session_key){{x ^ (x >> 31), (x << 32) ^ (x >> 17)}};
}

static void start(struct bench *bench, enum queue_ordering ordering, uint32_t max_in_flight)
{
	bench->tail = &bench->mail;
	bench->mail = NULL;
	bench->policy = (struct queue_policy){.ordering = ordering,
		.depth = 1000,
		.high_burst = 10,
		.session_idle_ms = 60000,
		.read_hold_ms = 1000};
	bench->queue = queue_create(
		&(struct queue_config){.callbacks = {.ctx = bench, .dispatch = on_dispatch}});
	if (bench->queue == NULL)
		abort();
	bench->upstream = run_queue_create(
		bench->queue, &(struct run_queue_config){.max_in_flight = max_in_flight});
	if (bench->upstream == NULL)
		abort();
}

static void stop(struct bench *bench)
{
	run_queue_destroy(bench->upstream);
	queue_destroy(bench->queue);
}

static void report(const char *name, uint64_t began_ns, unsigned long exchanges)
{
	double each = (double)(now() - began_ns) / (double)exchanges;
	printf("%-10s %8.1f ns an exchange, %6.2f million/s\n", name, each, 1000 / each);
}

/* Round and round over so many sessions, one exchange at a time. */
static void pass(struct bench *bench, uint64_t first, unsigned sessions, unsigned long rounds)
{
	struct ticket ticket;
	uint64_t now_ns = now();

	ticket_init(&ticket, 0);
	for (unsigned long i = 0; i < rounds; i++) {
		struct session_key key = key_of(first + i % sessions);
		queue_enter(bench->queue, &bench->policy, bench->upstream, key, &ticket, now_ns);
		queue_done(bench->queue, &ticket, now_ns);
		now_ns += 100;
	}
}

static void bench_pass(
	const char *name, unsigned sessions, uint32_t max_in_flight, unsigned long rounds)
{
	struct bench bench;
	uint64_t began;

	start(&bench, QUEUE_WRITES, max_in_flight);
	pass(&bench, 0, sessions, sessions);
	began = now();
	pass(&bench, 0, sessions, rounds);
	report(name, began, rounds);
	stop(&bench);
}

/* Keeps `each` exchanges of every session in the queue. */
static void bench_waiting(const char *name, unsigned sessions, unsigned each,
	uint32_t max_in_flight, unsigned long rounds)
{
	struct bench bench;
	unsigned tickets = sessions * each, flying = 0, head = 0;
	struct ticket *ticket = calloc(tickets, sizeof(*ticket)), **flight;
	uint64_t now_ns = now(), began;

	flight = calloc(tickets, sizeof(struct ticket *));
	if (ticket == NULL || flight == NULL)
		abort();
	start(&bench, QUEUE_STRICT, max_in_flight);
	for (unsigned i = 0; i < tickets; i++) {
		ticket_init(&ticket[i], 0);
		if (queue_enter(bench.queue, &bench.policy, bench.upstream, key_of(i % sessions),
			    &ticket[i], now_ns) == QUEUE_GO)
			flight[flying++] = &ticket[i];
	}
	began = now();
	for (unsigned long i = 0; i < rounds; i++) {
		struct ticket *done = flight[head], *next;
		uint64_t session = (uint64_t)(done - ticket) % sessions;
		unsigned slot = head;

		now_ns += 100;
		queue_done(bench.queue, done, now_ns);
		next = take(&bench, now_ns);
		/* the same client asks again at once */
		if (queue_enter(bench.queue, &bench.policy, bench.upstream, key_of(session), done,
			    now_ns) == QUEUE_GO)
			next = done;
		if (next == NULL)
			next = take(&bench, now_ns);
		if (next == NULL)
			abort();
		flight[slot] = next;
		head = (head + 1) % flying;
	}
	report(name, began, rounds);
	queue_close_all(bench.queue, SESSION_CLOSING, now_ns);
	for (unsigned i = 0; i < flying; i++)
		queue_done(bench.queue, flight[i], now_ns);
	stop(&bench);
	free(flight);
	free(ticket);
}

static void *pass_alone(void *ctx)
{
	pass(ctx, (uint64_t)(uintptr_t)pthread_self(), 100, ((struct bench *)ctx)->rounds);
	return NULL;
}

static void bench_threads(unsigned long rounds)
{
	struct bench bench;
	pthread_t thread[2];
	uint64_t began;

	start(&bench, QUEUE_WRITES, 0);
	bench.rounds = rounds;
	began = now();
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, pass_alone, &bench);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	report("threads", began, rounds * 2);
	stop(&bench);
}

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file != NULL)
		fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* New sessions one after the other: what each takes, and the longest that one waited for a table
 * to grow. */
static void bench_sessions(unsigned sessions)
{
	struct bench bench;
	struct ticket ticket;
	uint64_t began, before = resident_bytes(), worst = 0, took;

	start(&bench, QUEUE_WRITES, 0);
	ticket_init(&ticket, 0);
	began = now();
	for (unsigned i = 0; i < sessions; i++) {
		uint64_t from = now();
		queue_enter(bench.queue, &bench.policy, bench.upstream, key_of(i), &ticket, from);
		queue_done(bench.queue, &ticket, from);
		took = now() - from;
		worst = took > worst ? took : worst;
	}
	took = now() - began;
	printf("%-10s %8.1f bytes each, %.1f ns each, the longest %.2f ms (%u of them)\n",
		"sessions", (double)(resident_bytes() - before) / sessions, (double)took / sessions,
		(double)worst / 1e6, sessions);
	began = now();
	queue_expire(bench.queue, began + 120000000000ull);
	printf("%-10s %8.1f ns each\n", "rolled", (double)(now() - began) / sessions);
	stop(&bench);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000000;

	bench_sessions(rounds > 1000000 ? 1000000 : (unsigned)rounds);
	bench_pass("warm", 1, 0, rounds);
	bench_pass("spread", SESSIONS, 0, rounds);
	bench_pass("bounded", 1, 64, rounds);
	bench_waiting("waiting", 1, 16, 0, rounds);
	bench_waiting("in line", 64, 4, 4, rounds);
	bench_threads(rounds);
	return 0;
}
