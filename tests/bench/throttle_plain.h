/* The yardstick of tests/bench/throttle.c: what one would write first. A mutex around a plain ring
 * of 20 in a chained map. It tells yes or no and nothing else. */
#ifndef TESTS_BENCH_THROTTLE_PLAIN_H
#define TESTS_BENCH_THROTTLE_PLAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "throttle/throttle.h"

#define PLAIN_SLOTS 20

struct plain {
	struct plain *next;
	struct throttle_key key;
	uint32_t head;
	uint64_t at[PLAIN_SLOTS];
};

struct plain_map {
	pthread_mutex_t mutex;
	size_t buckets; /* a power of two */
	struct plain **bucket;
};

static inline void plain_init(struct plain_map *map, size_t callers)
{
	pthread_mutex_init(&map->mutex, NULL);
	for (map->buckets = 1; map->buckets < callers; map->buckets *= 2)
		;
	map->bucket = calloc(map->buckets, sizeof(*map->bucket));
	if (map->bucket == NULL)
		abort();
}

static inline struct plain *plain_find(struct plain_map *map, struct throttle_key key)
{
	struct plain **at = &map->bucket[key.lo & (map->buckets - 1)];

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

static inline bool plain_take(
	struct plain_map *map, struct throttle_key key, uint64_t now, uint64_t window)
{
	struct plain *plain;
	bool admitted;

	pthread_mutex_lock(&map->mutex);
	plain = plain_find(map, key);
	admitted = plain->at[plain->head] + window <= now;
	if (admitted) {
		plain->at[plain->head] = now;
		plain->head = plain->head + 1 < PLAIN_SLOTS ? plain->head + 1 : 0;
	}
	pthread_mutex_unlock(&map->mutex);
	return admitted;
}

static inline void plain_free(struct plain_map *map)
{
	for (size_t i = 0; i < map->buckets; i++)
		while (map->bucket[i] != NULL) {
			struct plain *next = map->bucket[i]->next;

			free(map->bucket[i]);
			map->bucket[i] = next;
		}
	free(map->bucket);
	pthread_mutex_destroy(&map->mutex);
}

#endif
