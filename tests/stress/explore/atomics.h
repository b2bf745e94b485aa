/*
 * Every file of libthrottle is compiled with this in front of it (-include) for the schedule
 * explorer: each atomic operation becomes a call of the explorer, which may let another simulated
 * thread run first, and decides which of the values that C11 permits a load returns. The normal
 * build does not see this file.
 */
#ifndef TESTS_STRESS_EXPLORE_ATOMICS_H
#define TESTS_STRESS_EXPLORE_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct explore_place {
	const char *file;
	int line;
};

uint64_t explore_load(const volatile void *at, size_t bytes, int order, struct explore_place place);
void explore_store(
	volatile void *at, size_t bytes, uint64_t value, int order, struct explore_place place);
/* With `is_weak` it may fail although the value was the expected one. */
bool explore_swap(volatile void *at, size_t bytes, void *expected, uint64_t next, int success,
	int failure, bool is_weak, struct explore_place place);
enum explore_change { EXPLORE_ADD, EXPLORE_SUB, EXPLORE_OR, EXPLORE_AND };
uint64_t explore_fetch(volatile void *at, size_t bytes, enum explore_change change,
	uint64_t operand, int order, struct explore_place place);

/* A clock of the processor that the explorer has: waiting for it takes no time. */
uint64_t explore_cycles(void);

/* Memory of the simulated process, which is freed when that is killed. */
void *explore_calloc(size_t count, size_t bytes);
void *explore_malloc(size_t bytes);
void *explore_reallocarray(void *memory, size_t count, size_t bytes);
char *explore_strdup(const char *text);
void explore_free(void *memory);

#define EXPLORE_PLACE    ((struct explore_place){__FILE__, __LINE__})
#define EXPLORE_VALUE(P) __typeof__((void)0, *(P))

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#define atomic_load_explicit(P, ORDER)                                                             \
	((EXPLORE_VALUE(P))explore_load((P), sizeof(*(P)), (ORDER), EXPLORE_PLACE))
#define atomic_store_explicit(P, VALUE, ORDER)                                                     \
	explore_store((P), sizeof(*(P)), (uint64_t)(VALUE), (ORDER), EXPLORE_PLACE)
#define atomic_compare_exchange_strong_explicit(P, EXPECTED, NEXT, SUCCESS, FAILURE)               \
	explore_swap((P), sizeof(*(P)), (EXPECTED), (uint64_t)(NEXT), (SUCCESS), (FAILURE), false, \
		EXPLORE_PLACE)
#define atomic_compare_exchange_weak_explicit(P, EXPECTED, NEXT, SUCCESS, FAILURE)                 \
	explore_swap((P), sizeof(*(P)), (EXPECTED), (uint64_t)(NEXT), (SUCCESS), (FAILURE), true,  \
		EXPLORE_PLACE)
#define EXPLORE_FETCH(P, CHANGE, OPERAND, ORDER)                                                   \
	((EXPLORE_VALUE(P))explore_fetch(                                                          \
		(P), sizeof(*(P)), (CHANGE), (uint64_t)(OPERAND), (ORDER), EXPLORE_PLACE))
#define atomic_fetch_add_explicit(P, OPERAND, ORDER) EXPLORE_FETCH(P, EXPLORE_ADD, OPERAND, ORDER)
#define atomic_fetch_sub_explicit(P, OPERAND, ORDER) EXPLORE_FETCH(P, EXPLORE_SUB, OPERAND, ORDER)
#define atomic_fetch_or_explicit(P, OPERAND, ORDER)  EXPLORE_FETCH(P, EXPLORE_OR, OPERAND, ORDER)
#define atomic_fetch_and_explicit(P, OPERAND, ORDER) EXPLORE_FETCH(P, EXPLORE_AND, OPERAND, ORDER)

#undef __rdtsc
#define __rdtsc() explore_cycles()
#undef strdup
#define calloc(COUNT, BYTES)               explore_calloc((COUNT), (BYTES))
#define malloc(BYTES)                      explore_malloc(BYTES)
#define reallocarray(MEMORY, COUNT, BYTES) explore_reallocarray((MEMORY), (COUNT), (BYTES))
#define strdup(TEXT)                       explore_strdup(TEXT)
#define free(MEMORY)                       explore_free(MEMORY)

/* So that one bucket can be all of a table: keys have no more bits than a fingerprint tells. */
#define SECTION_LEAST_BUCKETS 1
#define KEY_BITS              52

#endif
