/* The list of what is idle, against an array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "listen/idle_list.h"
#include "tests/unit/suite.h"

#define LINKS 12
#define STEPS 20000

/* The links of the array in their order, the oldest first, and when each was placed. */
struct model {
	unsigned at[LINKS];
	unsigned count;
	uint64_t placed_ms[LINKS]; /* by link; 0: not in the list */
};

static void model_take_out(struct model *model, unsigned which)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < model->count; i++) {
		if (model->at[i] != which)
			model->at[kept++] = model->at[i];
	}
	model->count = kept;
	model->placed_ms[which] = 0;
}

static void model_put(struct model *model, unsigned which, uint64_t now_ms)
{
	if (model->placed_ms[which] != 0 && now_ms - model->placed_ms[which] < IDLE_LIST_STEP_MS)
		return;
	model_take_out(model, which);
	model->at[model->count++] = which;
	model->placed_ms[which] = now_ms;
}

static void is_as_the_model(
	const struct idle_list *list, const struct idle_link *links, const struct model *model)
{
	const struct idle_link *link = list->oldest, *older = NULL;

	for (unsigned i = 0; i < model->count; i++) {
		assert_ptr_equal(link, &links[model->at[i]]);
		assert_ptr_equal(link->older, older);
		assert_true(link->placed_ms <= link->since_ms);
		assert_true(link->since_ms < link->placed_ms + IDLE_LIST_STEP_MS);
		if (older)
			assert_true(older->placed_ms <= link->placed_ms);
		older = link;
		link = link->newer;
	}
	assert_null(link);
	assert_ptr_equal(list->newest, older);
}

static void any_order_of_puts_and_takes(void **state)
{
	struct idle_list list = {NULL, NULL};
	struct idle_link links[LINKS] = {{.since_ms = 0}};
	struct model model = {.count = 0};
	uint64_t now_ms = 1;
	struct random random = random_begin("puts and takes");

	(void)state;
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned which = (unsigned)random_below(&random, LINKS);
		now_ms += random_below(&random, 2 * IDLE_LIST_STEP_MS / LINKS);
		if (random_below(&random, 6) == 0) {
			idle_list_take_out(&list, &links[which]);
			model_take_out(&model, which);
		} else {
			idle_list_put(&list, &links[which], now_ms);
			model_put(&model, which, now_ms);
			assert_int_equal(links[which].since_ms, now_ms);
		}
		is_as_the_model(&list, links, &model);
	}
}

static void taking_out_twice_is_once(void **state)
{
	struct idle_list list = {NULL, NULL};
	struct idle_link one = {.since_ms = 0}, other = {.since_ms = 0};

	(void)state;
	idle_list_take_out(&list, &one);
	idle_list_put(&list, &one, 1);
	idle_list_put(&list, &other, 2);
	idle_list_take_out(&list, &one);
	idle_list_take_out(&list, &one);
	assert_ptr_equal(list.oldest, &other);
	assert_ptr_equal(list.newest, &other);
	idle_list_take_out(&list, &other);
	assert_null(list.oldest);
	assert_null(list.newest);
}

UNIT_SUITE(test_idle_list)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order_of_puts_and_takes),
		cmocka_unit_test(taking_out_twice_is_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
