/* See semaphore_verbs.h. */
#include "cli/lock/semaphore_verbs.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/run.h"
#include "cli/lock/semaphore.h"
#include "cli/lock/semaphore_hold.h"
#include "cli/table.h"
#include "conf/errors.h"
#include "semaphore/administer.h"
#include "semaphore/rabbit.h"

#define COUNT(items) (sizeof(items) / sizeof((items)[0]))

/* A command under way. */
struct task {
	const struct semaphore_call *call;
	const struct conf_semaphore *semaphore;
	struct administrator admin;
	struct administer_report report;
	struct slots_set held; /* of status */
};

struct semaphore_verb {
	const char *word;
	bool takes_count, takes_ensure;
	enum administer_result (*run)(struct task *task); /* NULL: hold */
	void (*describe)(const struct task *task, json_t *answer);
};

/* ---- answers --------------------------------------------------------------------------------- */

static void add_number(json_t *answer, const char *name, uint32_t number)
{
	json_object_set_new(answer, name, json_integer(number));
}

static void describe_change(const struct task *task, json_t *answer)
{
	add_number(answer, "added", task->report.added);
	add_number(answer, "removed", task->report.removed);
	add_number(answer, "strays", task->report.strays);
}

static void describe_nothing(const struct task *task, json_t *answer)
{
	(void)task;
	(void)answer;
}

static void describe_holders(const struct task *task, json_t *answer)
{
	json_t *holders = json_array();
	uint32_t held = 0, left = task->held.count;

	for (uint32_t slot = 1; left > 0; slot++) {
		if (!slots_set_has(&task->held, slot))
			continue;
		bool is_removed = slot > task->report.max;
		held += !is_removed;
		left--;
		json_array_append_new(holders,
			json_pack("{s:i,s:b}", "slot", (int)slot, "removed", (int)is_removed));
	}
	add_number(answer, "held", held);
	json_object_set_new(answer, "holders", holders);
}

static void print_answer(const struct task *task, json_t *answer)
{
	static const struct table_column columns[] = {
		{"SLOT", "slot", TABLE_NUMBER}, {"REMOVED", "removed", TABLE_TEXT}};
	const json_t *holders = json_object_get(answer, "holders");

	if (task->call->json) {
		json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
		return;
	}
	table_print_members(stdout, answer);
	if (json_array_size(holders) > 0)
		table_print(stdout, holders, columns, COUNT(columns));
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static enum administer_result run_create(struct task *task)
{
	return administer_create(
		&task->admin, task->semaphore->size, task->call->ensure, &task->report);
}

static enum administer_result run_add(struct task *task)
{
	return administer_add(&task->admin, task->call->count, &task->report);
}

static enum administer_result run_remove(struct task *task)
{
	return administer_remove(&task->admin, task->call->count, &task->report);
}

static enum administer_result run_destroy(struct task *task)
{
	return administer_destroy(&task->admin, &task->report);
}

static enum administer_result run_prune(struct task *task)
{
	return administer_prune(&task->admin, &task->report);
}

static enum administer_result run_status(struct task *task)
{
	return administer_look(&task->admin, &task->held, &task->report);
}

static enum administer_result run_wait(struct task *task)
{
	if (!task->call->has_timeout)
		task->admin.timeout_ms = UINT64_MAX;
	return administer_wait(&task->admin, &task->report);
}

static const struct semaphore_verb verbs[] = {
	{"create", false, true, run_create, describe_change},
	{"add", true, false, run_add, describe_change},
	{"remove", true, false, run_remove, describe_change},
	{"destroy", false, false, run_destroy, describe_change},
	{"prune", false, false, run_prune, describe_change},
	{"status", false, false, run_status, describe_holders},
	{"wait", false, false, run_wait, describe_nothing},
	{"hold", false, false, NULL, NULL},
};

const struct semaphore_verb *semaphore_verb_find(const char *word)
{
	struct near_miss near = {.word = slice_of(word)};

	for (size_t i = 0; i < COUNT(verbs); i++) {
		if (strcmp(verbs[i].word, word) == 0)
			return &verbs[i];
		near_miss_offer(&near, verbs[i].word);
	}
	fprintf(stderr, "sluice semaphore: unknown command \"%s\"", word);
	if (near.best)
		fprintf(stderr, ", did you mean \"%s\"?", near.best);
	fputc('\n', stderr);
	return NULL;
}

bool semaphore_verb_takes_count(const struct semaphore_verb *verb)
{
	return verb->takes_count;
}

bool semaphore_verb_takes_ensure(const struct semaphore_verb *verb)
{
	return verb->takes_ensure;
}

bool semaphore_verb_takes_command(const struct semaphore_verb *verb)
{
	return !verb->run;
}

/* ---- the broker ------------------------------------------------------------------------------ */

void semaphore_print_front(
	const struct conf *conf, const struct conf_semaphore *semaphore, unsigned line)
{
	fprintf(stderr, "%s:%u: [semaphore %s] ", CONF_PLACE_ARGS(conf, line), semaphore->name);
}

static int report(const struct task *task, const struct conf *conf, enum administer_result result)
{
	const struct semaphore_verb *verb = task->call->verb;
	static const int statuses[] = {[ADMINISTER_DONE] = 0,
		[ADMINISTER_REFUSED] = SEMAPHORE_EXIT_REFUSED,
		[ADMINISTER_BUSY] = SEMAPHORE_EXIT_TIME_OVER,
		[ADMINISTER_FAILED] = SEMAPHORE_EXIT_REFUSED,
		[ADMINISTER_LOST] = SEMAPHORE_EXIT_UNREACHED};

	if (result == ADMINISTER_DONE) {
		json_t *answer = json_object();
		json_object_set_new(answer, "name", json_string(task->semaphore->name));
		add_number(answer, "max", task->report.max);
		verb->describe(task, answer);
		print_answer(task, answer);
		json_decref(answer);
	} else {
		semaphore_print_front(conf, task->semaphore, task->semaphore->line);
		fprintf(stderr, "%s: %s\n", verb->word, task->report.why);
	}
	return statuses[result];
}

static int run_verb(struct task *task, const struct conf *conf)
{
	const struct semaphore_verb *verb = task->call->verb;
	char why[512], purpose[128];
	struct rabbit *rabbit;
	int status;

	snprintf(purpose, sizeof(purpose), "sluice semaphore %s %s", verb->word,
		task->semaphore->name);
	rabbit = rabbit_open(task->semaphore, purpose, why, sizeof(why));
	if (!rabbit) {
		semaphore_print_front(conf, task->semaphore, task->semaphore->broker.address.line);
		fprintf(stderr, "broker: %s: %s\n", task->semaphore->broker.address.text, why);
		return SEMAPHORE_EXIT_UNREACHED;
	}
	rabbit_set_timeout(rabbit, task->semaphore->timeout_ms);
	task->admin.slots = (struct slots){rabbit_broker(rabbit), task->semaphore->name};
	status = report(task, conf, verb->run(task));
	rabbit_close(rabbit);
	return status;
}

static const struct conf_semaphore *find_semaphore(const struct conf *conf, const char *name)
{
	struct near_miss near = {.word = slice_of(name)};

	for (size_t i = 0; i < conf->fleet.semaphores.count; i++) {
		if (strcmp(conf->fleet.semaphores.items[i].name, name) == 0)
			return &conf->fleet.semaphores.items[i];
		near_miss_offer(&near, conf->fleet.semaphores.items[i].name);
	}
	fprintf(stderr, "%s: there is no [semaphore %s]", conf->path, name);
	if (near.best)
		fprintf(stderr, ", did you mean \"%s\"?", near.best);
	fputc('\n', stderr);
	return NULL;
}

int semaphore_verb_run(const struct semaphore_call *call)
{
	struct task task = {.call = call,
		.admin = {.overshoot = call->overshoot, .timeout_ms = call->timeout_ms}};
	const struct conf *conf = cli_load(call->path);
	int status = SEMAPHORE_EXIT_REFUSED;

	if (!conf)
		return status;
	task.semaphore = find_semaphore(conf, call->name);
	if (task.semaphore && semaphore_verb_takes_command(call->verb))
		status = semaphore_hold_run(call, conf, task.semaphore);
	else if (task.semaphore)
		status = run_verb(&task, conf);
	conf_release(conf);
	return status;
}
