/*
 * What a verdict costs: medians of many rounds, beside two yardsticks of the same run: a mutex
 * around a plain ring in a chained map, and one uncontended atomic addition.
 *
 *   throttle [--smoke]      smoke: everything once, for make check
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "throttle/throttle.h"

#define ROUNDS 31
#define SECOND UINT64_C(1000000000)
#define START  (UINT64_C(1700000000) * SECOND)

static uint64_t per_round = 100000;
static unsigned rounds = ROUNDS;

static double clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* ---- the mutex's yardstick ------------------------------------------------------------------- */

struct plain {
	struct plain *next;
	struct throttle_key key;
	uint32_t head;
	uint64_t at[20];
};

struct plain_map {
	pthread_mutex_t mutex;
	size_t buckets;
	struct plain **bucket;
};

static struct plain *plain_find(struct plain_map *map, struct throttle_key key)
{
	struct plain **at = &map->bucket[key.lo % map->buckets];

	while (*at != NULL && ((*at)->key.lo != key.lo || (*at)->key.hi != key.hi))
		at = &(*at)->next;
	if (*at == NULL) {
		*at = calloc(1, sizeof(**at));
		if (*at == NULL)
			abort();
		(*at)->key = key;
	}
	return *at;
}

static bool plain_take(
	struct plain_map *map, struct throttle_key key, uint64_t now, uint64_t window)
{
	struct plain *plain;
	bool admitted;

	pthread_mutex_lock(&map->mutex);
	plain = plain_find(map, key);
	admitted = plain->at[plain->head] + window <= now;
	if (admitted) {
		plain->at[plain->head] = now;
		plain->head = (plain->head + 1) % 20;
	}
	pthread_mutex_unlock(&map->mutex);
	return admitted;
}

/* ---- what is measured ------------------------------------------------------------------------ */

struct setting {
	struct throttle_table *table;
	struct throttle_key *keys; /* a power of two of them */
	size_t key_count;
	size_t limits;
	uint64_t step_ns; /* what the clock goes on by with each decision */
	struct plain_map *map;
	_Atomic(uint64_t) counter;
	_Atomic(uint64_t) now;
	_Atomic(unsigned) ready;
	unsigned threads;
};

typedef uint64_t subject_function(struct setting *s, uint64_t n, uint64_t now);

static uint64_t take_ours(struct setting *s, uint64_t n, uint64_t now)
{
	struct throttle_charge charges[4];
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	uint64_t admitted = 0;

	for (uint32_t i = 0; i < s->limits; i++)
		charges[i] = (struct throttle_charge){.limit = i, .cost = 1};
	for (uint64_t i = 0; i < n; i++) {
		for (size_t l = 0; l < s->limits; l++)
			charges[l].caller = s->keys[i * 2654435761u & (s->key_count - 1)];
		throttle_take(s->table, charges, s->limits, now += s->step_ns, &verdict, &receipt);
		admitted += verdict.admitted;
	}
	return admitted;
}

static uint64_t take_plain(struct setting *s, uint64_t n, uint64_t now)
{
	uint64_t admitted = 0;

	for (uint64_t i = 0; i < n; i++)
		admitted += plain_take(s->map, s->keys[i * 2654435761u & (s->key_count - 1)],
			now += s->step_ns, SECOND / 1000);
	return admitted;
}

static uint64_t add_only(struct setting *s, uint64_t n, uint64_t now)
{
	for (uint64_t i = 0; i < n; i++)
		atomic_fetch_add(&s->counter, now);
	return n;
}

static uint64_t hash_only(struct setting *s, uint64_t n, uint64_t now)
{
	char key[32] = "key-0123456789abcdef";
	uint64_t sum = 0;

	(void)now;
	for (uint64_t i = 0; i < n; i++) {
		memcpy(key + 4, &i, sizeof(i));
		sum += throttle_hash(throttle_table_seed(s->table), key, 20).lo & 1;
	}
	return sum;
}

struct runner {
	pthread_t thread;
	struct setting *s;
	subject_function *subject;
	uint64_t n, now, admitted;
};

static void *run(void *argument)
{
	struct runner *r = argument;

	atomic_fetch_add(&r->s->ready, 1);
	while (atomic_load(&r->s->ready) < r->s->threads)
		;
	r->admitted = r->subject(r->s, r->n, r->now);
	return NULL;
}

/* The median over the rounds of wall time by decisions, of all threads together. */
static double measure(
	const char *what, struct setting *s, subject_function *subject, unsigned threads)
{
	static uint64_t now = START;
	double results[ROUNDS];
	uint64_t admitted = 0;

	s->threads = threads;
	for (unsigned round = 0; round < rounds; round++) {
		struct runner runners[8];
		double begin;

		atomic_store(&s->ready, 0);
		for (unsigned i = 0; i < threads; i++)
			runners[i] = (struct runner){
				.s = s, .subject = subject, .n = per_round, .now = now};
		begin = clock_ns();
		for (unsigned i = 1; i < threads; i++)
			pthread_create(&runners[i].thread, NULL, run, &runners[i]);
		run(&runners[0]);
		for (unsigned i = 1; i < threads; i++)
			pthread_join(runners[i].thread, NULL);
		results[round] = (clock_ns() - begin) / (double)(per_round * threads);
		now += per_round * s->step_ns;
		for (unsigned i = 0; i < threads; i++)
			admitted += runners[i].admitted;
	}
	qsort(results, rounds, sizeof(results[0]), compare);
	printf("%-58s %8.1f ns  (%3.0f%% admitted)\n", what, results[rounds / 2],
		100.0 * (double)admitted / (double)(per_round * threads * rounds));
	return results[rounds / 2];
}

static struct throttle_limit limit_of(const char *name, uint64_t quota, uint64_t window)
{
	struct throttle_limit limit = {.quota = quota, .window_ns = window};

	snprintf(limit.name, sizeof(limit.name), "%s", name);
	return limit;
}

static struct throttle_table *open_table(
	const struct throttle_limit *limits, size_t count, uint64_t callers)
{
	struct throttle_table_options options = {.callers = callers, .now_ns = START};
	struct throttle_table *table = throttle_table_open(&options, limits, count, NULL);

	if (table == NULL) {
		perror("open");
		exit(1);
	}
	return table;
}

static struct throttle_key *make_keys(const struct throttle_table *table, size_t count)
{
	struct throttle_key *keys = calloc(count, sizeof(*keys));

	if (keys == NULL)
		abort();
	for (uint64_t i = 0; i < count; i++)
		keys[i] = throttle_hash(throttle_table_seed(table), &i, sizeof(i));
	return keys;
}

/* One limit, all admitted or all refused, by one thread and two. */
static double bench_limit(const char *name, struct throttle_limit limit, uint64_t step,
	size_t callers, unsigned threads)
{
	struct setting s = {.limits = 1, .key_count = callers, .step_ns = step};
	double result;

	s.table = open_table(&limit, 1, callers);
	s.keys = make_keys(s.table, callers);
	result = measure(name, &s, take_ours, threads);
	throttle_table_close(s.table);
	free(s.keys);
	return result;
}

static void bench_yardsticks(size_t callers)
{
	struct throttle_limit limit = limit_of("l", 20, SECOND);
	struct plain_map map = {.mutex = PTHREAD_MUTEX_INITIALIZER, .buckets = callers * 2};
	struct setting s = {.key_count = 1, .step_ns = 100000, .map = &map};

	map.bucket = calloc(map.buckets, sizeof(*map.bucket));
	if (map.bucket == NULL)
		abort();
	s.table = open_table(&limit, 1, 1);
	s.keys = make_keys(s.table, callers);
	measure("yardstick: one atomic addition, alone", &s, add_only, 1);
	measure("yardstick: mutex, plain ring, map: one caller", &s, take_plain, 1);
	measure("yardstick: mutex, plain ring, map: one caller, 2 threads", &s, take_plain, 2);
	s.key_count = callers;
	measure("yardstick: mutex, plain ring, map: many callers", &s, take_plain, 1);
	measure("hashing a key of 20 bytes", &s, hash_only, 1);
	for (size_t i = 0; i < map.buckets; i++)
		while (map.bucket[i] != NULL) {
			struct plain *next = map.bucket[i]->next;

			free(map.bucket[i]);
			map.bucket[i] = next;
		}
	free(map.bucket);
	free(s.keys);
	throttle_table_close(s.table);
}

static double bench_four(void)
{
	struct throttle_limit limits[4] = {
		limit_of("a", 20, SECOND / 1000),
		limit_of("b", 100000, SECOND),
		limit_of("c", 1000000, 10 * SECOND),
		limit_of("d", 100000000, 100 * SECOND),
	};
	struct setting s = {.limits = 4, .key_count = 1, .step_ns = 100000};
	double result;

	s.table = open_table(limits, 4, 1);
	s.keys = make_keys(s.table, 1);
	result = measure("four limits at once", &s, take_ours, 1);
	throttle_table_close(s.table);
	free(s.keys);
	return result;
}

int main(int argc, char **argv)
{
	struct throttle_limit ring = limit_of("l", 20, SECOND / 1000);
	struct throttle_limit window = limit_of("l", 1000000, SECOND);
	struct throttle_limit full = limit_of("l", 20, 1000 * SECOND);
	size_t callers = 1u << 20;
	double one, four;

	if (argc > 1 && strcmp(argv[1], "--smoke") == 0) {
		rounds = 1;
		per_round = 1000;
		callers = 1u << 12;
	}
	bench_yardsticks(callers);
	one = bench_limit("one caller, exact ring of 20", ring, 100000, 1, 1);
	bench_limit("one caller, quantised, 1M per 1s", window, 2000, 1, 1);
	bench_limit("one caller, refused", full, 1, 1, 1);
	bench_limit("one caller, exact ring of 20, 2 threads", ring, 200000, 1, 2);
	bench_limit("one caller, quantised, 1M per 1s, 2 threads", window, 4000, 1, 2);
	bench_limit("one caller, refused, 2 threads", full, 1, 1, 2);
	bench_limit("1M random callers, exact ring of 20", ring, 100, callers, 1);
	bench_limit("1M random callers, quantised", limit_of("l", 1000, SECOND), 100, callers, 1);
	four = bench_four();
	printf("%-58s %8.2f\n", "four limits, in units of one", four / one);
	printf("%-58s %8zu bytes (quota 20), %zu (1000), %zu (1000000)\n", "memory for a caller",
		throttle_limit_bytes(&ring), throttle_limit_bytes(&full),
		throttle_limit_bytes(&window));
	return 0;
}
