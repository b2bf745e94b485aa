#include "gate/plans.h"

#include <stdlib.h>

#include "gate/text_set.h"

struct plan_table {
	const struct conf *conf;
	struct text_set callers; /* number: index in conf.plans */
};

struct plan_table *plan_table_new(const struct conf *conf)
{
	struct plan_table *table = calloc(1, sizeof(*table));
	size_t count = 0;

	for (size_t i = 0; i < conf->plan_count; i++)
		count += conf->plans[i].callers.count;
	if (!table || !text_set_init(&table->callers, count)) {
		free(table);
		return NULL;
	}
	table->conf = conf;
	for (uint32_t i = 0; i < conf->plan_count; i++) {
		const struct conf_text_list *callers = &conf->plans[i].callers;
		for (size_t j = 0; j < callers->count; j++)
			text_set_add(&table->callers, slice_of(callers->items[j]), i);
	}
	return table;
}

void plan_table_free(struct plan_table *table)
{
	if (!table)
		return;
	text_set_free(&table->callers);
	free(table);
}

const struct conf_plan *plan_find(const struct plan_table *table, struct slice caller)
{
	uint32_t number = text_set_find(&table->callers, caller);

	return number == TEXT_SET_NONE ? table->conf->default_plan : &table->conf->plans[number];
}
