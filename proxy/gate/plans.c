#include "gate/plans.h"

#include <stdlib.h>

#include "base/digest.h"
#include "gate/text_set.h"

struct plan_table {
	const struct conf *conf;
	struct text_set callers; /* number: index in conf.plans */
	bool has_digests;
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
		for (size_t j = 0; j < callers->count; j++) {
			struct slice caller = slice_of(callers->items[j]);
			table->has_digests |= digest_is_text(caller);
			text_set_add(&table->callers, caller, i);
		}
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
	char digest[DIGEST_TEXT_BYTES];

	/* The digest itself is no key. */
	if (table->has_digests && caller.len > 0 &&
		(number == TEXT_SET_NONE || digest_is_text(caller))) {
		digest_text(caller, digest);
		number = text_set_find(&table->callers, (struct slice){digest, sizeof(digest)});
	}
	return number == TEXT_SET_NONE ? NULL : &table->conf->plans[number];
}
