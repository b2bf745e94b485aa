/* Tables of many elements: all are found, and none costs more than another. */
#include "base/hash_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define MANY 100000

struct element {
	struct hash_link link;
	uint64_t key;
	bool is_in;
};

static struct element elements[MANY];

static uint64_t hash_of(uint64_t key)
{
	key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return key ^ key >> 31;
}

static struct element *find(struct hash_table *table, uint64_t key, uint64_t hash)
{
	struct hash_link *link = hash_table_first(table, hash);

	while (link && CONTAINER_OF(link, struct element, link)->key != key)
		link = hash_table_next(table, link);
	return link ? CONTAINER_OF(link, struct element, link) : NULL;
}

/* Some have the same hash. */
static void beside_an_array(void **state)
{
	struct random random = random_begin("hash table");
	struct hash_table table = {.count = 0};
	size_t count = 0;

	(void)state;
	memset(elements, 0, sizeof(elements));
	for (int step = 0; step < 400000; step++) {
		uint64_t key = random_below(&random, step < 200000 ? 5000 : 200);
		uint64_t hash = hash_of(key / 3);
		struct element *element = &elements[key];
		assert_ptr_equal(find(&table, key, hash), element->is_in ? element : NULL);
		if (element->is_in) {
			hash_table_remove(&table, &element->link);
		} else {
			element->key = key;
			assert_true(hash_table_add(&table, &element->link, hash));
		}
		element->is_in = !element->is_in;
		count += element->is_in ? 1 : (size_t)-1;
		assert_int_equal(table.count, count);
	}
	hash_table_end(&table);
	assert_null(find(&table, 1, hash_of(0)));
}

/* The longest of all insertions, look-ups and removals: also of those that double the chains. */
static void no_operation_waits_for_all(void **state)
{
	struct hash_table table = {.count = 0};
	uint64_t most = 0, before;

	(void)state;
	for (uint64_t key = 0; key < MANY; key++) {
		before = table.steps;
		elements[key].key = key;
		assert_true(hash_table_add(&table, &elements[key].link, hash_of(key)));
		assert_ptr_equal(find(&table, key, hash_of(key)), &elements[key]);
		most = table.steps - before > most ? table.steps - before : most;
	}
	for (uint64_t key = 0; key < MANY; key++) {
		before = table.steps;
		hash_table_remove(&table, &elements[key].link);
		most = table.steps - before > most ? table.steps - before : most;
	}
	assert_true(most <= 40);
	assert_int_equal(table.count, 0);
	hash_table_end(&table);
}

UNIT_SUITE(test_hash_table)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(beside_an_array),
		cmocka_unit_test(no_operation_waits_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
