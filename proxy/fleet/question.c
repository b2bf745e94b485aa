#include "fleet/question.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "worker/worker.h"

struct fleet_worker *fleet_worker_of(const struct questions *questions)
{
	const char *at = (const char *)questions - offsetof(struct worker, questions);

	return worker_fleet((const struct worker *)(const void *)at);
}

struct account *account_new(struct fleet_worker *fleet)
{
	struct account *account = fleet->spare_accounts;

	if (account)
		fleet->spare_accounts = account->next;
	else
		account = malloc(sizeof(*account));
	if (!account)
		return NULL;
	account->worker = fleet;
	account->count = 0;
	account->refused = account->is_away = false;
	account->local.count = 0;
	account->own.count = 0;
	return account;
}

void account_free(struct account *account)
{
	struct fleet_worker *fleet = account->worker;

	account->next = fleet->spare_accounts;
	fleet->spare_accounts = account;
}

struct question *question_new(struct fleet_worker *fleet)
{
	struct question *question = fleet->spare_questions;

	if (question)
		fleet->spare_questions = question->next;
	else
		question = malloc(sizeof(*question));
	return question;
}

void question_free(struct fleet_worker *fleet, struct question *question)
{
	question->next = fleet->spare_questions;
	fleet->spare_questions = question;
}

void questions_clear(struct fleet_worker *fleet)
{
	limit_facts_free(&fleet->limits);
	hash_table_end(&fleet->open);
	while (fleet->spare_accounts) {
		struct account *account = fleet->spare_accounts;
		fleet->spare_accounts = account->next;
		free(account);
	}
	while (fleet->spare_questions) {
		struct question *question = fleet->spare_questions;
		fleet->spare_questions = question->next;
		free(question);
	}
	while (fleet->names) {
		struct fleet_name *name = fleet->names;
		fleet->names = name->next;
		free(name);
	}
}

/* Numbers of open questions are dense in their lower bits (gate/authority.c). */
void question_add(struct fleet_worker *fleet, struct question *question)
{
	question->is_open = hash_table_add(&fleet->open, &question->link, question->number);
	assert(question->is_open); /* hash_table_begin */
}

struct question *question_take(struct fleet_worker *fleet, uint64_t number)
{
	struct hash_link *link = hash_table_first(&fleet->open, number);

	if (!link)
		return NULL;
	hash_table_remove(&fleet->open, link);
	struct question *found = CONTAINER_OF(link, struct question, link);
	found->is_open = false;
	return found;
}

const char *fleet_name_of(struct fleet_worker *fleet, const char *name)
{
	size_t bytes = strlen(name) + 1;

	for (const struct fleet_name *known = fleet->names; known; known = known->next) {
		if (strcmp(known->text, name) == 0)
			return known->text;
	}
	struct fleet_name *added = malloc(sizeof(*added) + bytes);
	if (!added)
		return NULL;
	memcpy(added->text, name, bytes);
	added->next = fleet->names;
	fleet->names = added;
	return added->text;
}
