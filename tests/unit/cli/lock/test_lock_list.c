/* `sluice locks`: what it asks of the store, whatever the store answers and when, and what it
 * prints. The store is a list of locks; the loop is a clock that jumps to the next deadline. */
#include "cli/lock/lock_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/lock/lock_command.h"
#include "fake_locks.h"
#include "tests/unit/cli/printed.h"
#include "tests/unit/loop/fake_deadline.h"
#include "tests/unit/suite.h"

#define CONF                                                                                       \
	"[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n"                   \
	"[route r]\nupstream = u\n[fleet]\nstore = redis://127.0.0.1\n"
#define ASKS_MOST  16
#define STEPS_MOST 500

struct kept {
	const char *name;
	enum lock_status status;
	uint64_t fence, left_ms;
	const char *session;
};

static struct {
	const struct kept *locks; /* an empty name ends them */
	const char *pages[4];     /* of the list, one after another */
	unsigned silent;          /* so many asks are not answered */
	bool is_mute;             /* none is */
	bool refuses;
	enum lock_status ends[3]; /* answers to LOCK_END, one after another */
	unsigned end_count, page_count, steps;
	uint64_t ended_fence, took_ms;
	struct lock_store *store;
	struct lock_ask *asks[ASKS_MOST];
	unsigned ask_count;
	struct store_call *call;
	struct deadline *deadlines[2];
} fake;

/* ---- in the place of the store --------------------------------------------------------------- */

static void ask(struct locks *locks, struct lock_ask *ask)
{
	(void)locks;
	assert_true(fake.ask_count < ASKS_MOST);
	fake.asks[fake.ask_count++] = ask;
}

static bool look_refused(struct lock_store *store)
{
	store->is_refused |= fake.refuses;
	return store->is_refused;
}

bool __real_lock_store_open(struct lock_store *store, const char *command, const struct conf *conf,
	uint64_t silence_ms);
bool __wrap_lock_store_open(struct lock_store *store, const char *command, const struct conf *conf,
	uint64_t silence_ms);
bool __wrap_lock_store_open(
	struct lock_store *store, const char *command, const struct conf *conf, uint64_t silence_ms)
{
	if (!unit_runs("test_lock_list"))
		return __real_lock_store_open(store, command, conf, silence_ms);
	*store = (struct lock_store){.command = command, .conf = conf};
	store->locks.prefix = "p";
	store->loop.now_known = true;
	store->loop.now_ms = 5000;
	fake.store = store;
	return true;
}

void __real_lock_store_close(struct lock_store *store);
void __wrap_lock_store_close(struct lock_store *store);
void __wrap_lock_store_close(struct lock_store *store)
{
	if (!unit_runs("test_lock_list")) {
		__real_lock_store_close(store);
		return;
	}
	fake.took_ms = store->loop.now_ms - 5000;
}

bool __real_store_link_has_all(const struct store_link *link);
bool __wrap_store_link_has_all(const struct store_link *link);
bool __wrap_store_link_has_all(const struct store_link *link)
{
	return unit_runs("test_lock_list") ? true : __real_store_link_has_all(link);
}

bool __real_store_link_send(struct store_link *link, struct store_call *call);
bool __wrap_store_link_send(struct store_link *link, struct store_call *call);
bool __wrap_store_link_send(struct store_link *link, struct store_call *call)
{
	if (!unit_runs("test_lock_list"))
		return __real_store_link_send(link, call);
	assert_null(fake.call);
	fake.call = call;
	return true;
}

static void answer_page(void)
{
	struct store_call *call = fake.call;
	const char *page = fake.pages[fake.page_count++];

	fake.call = NULL;
	if (page)
		call->answered(call, page, strlen(page));
	else
		call->answered(call, NULL, 0);
}

static void answer_ask(struct lock_ask *ask)
{
	struct lock_answer answer = {.status = LOCK_FREE};

	if (fake.is_mute || fake.silent > 0) {
		fake.silent -= fake.silent > 0;
		answer.status = LOCK_UNKNOWN;
		ask->done(ask, &answer);
		return;
	}
	if (ask->verb == LOCK_END) {
		fake.ended_fence = ask->number;
		answer.status = fake.ends[fake.end_count++];
		ask->done(ask, &answer);
		return;
	}
	assert_int_equal(ask->verb, LOCK_LOOK);
	for (const struct kept *lock = fake.locks; lock && lock->name; lock++) {
		if (strcmp(lock->name, ask->name) != 0)
			continue;
		answer.status = lock->status;
		answer.fence = lock->fence + fake.end_count; /* another session each time */
		answer.left_ms = lock->left_ms;
		strcpy(answer.session, lock->session);
	}
	ask->done(ask, &answer);
}

/* The next of the two deadlines passes. */
static void pass_time(struct lock_store *store)
{
	struct deadline *first = NULL;

	for (size_t i = 0; i < 2; i++) {
		struct deadline *deadline = fake.deadlines[i];
		if (deadline && deadline->at_ms != DEADLINE_NEVER &&
			(!first || deadline->at_ms < first->at_ms))
			first = deadline;
	}
	if (!first) {
		fail_msg("no deadline is set");
		return;
	}
	if (first->at_ms > store->loop.now_ms)
		store->loop.now_ms = first->at_ms;
	deadline_clear(first);
	first->passed(first);
}

bool __real_lock_store_turn(struct lock_store *store);
bool __wrap_lock_store_turn(struct lock_store *store);
bool __wrap_lock_store_turn(struct lock_store *store)
{
	if (!unit_runs("test_lock_list"))
		return __real_lock_store_turn(store);
	assert_true(fake.steps++ < STEPS_MOST);
	if (fake.steps == 1) {
		store->changed(store);
	} else if (fake.call) {
		answer_page();
	} else if (fake.ask_count > 0) {
		struct lock_ask *ask = fake.asks[--fake.ask_count];
		answer_ask(ask);
	} else {
		pass_time(store);
	}
	return true;
}

static void note_deadline(struct deadline *deadline)
{
	fake.deadlines[fake.deadlines[0] != NULL] = deadline;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct kept some[] = {{"ann", LOCK_BUSY, 71, 1500, "host:1"},
	{"bob", LOCK_LAPSED, 72, 0, "host:2"}, {"cid", LOCK_BUSY, 73, 20, "host:3"}, {0}};

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.locks = some;
	return 0;
}

static struct printed locks(const char *verb, const char *name)
{
	const char *path = printed_file(CONF);
	const char *words[] = {"locks", "-c", path, verb, name, NULL};

	return printed_by(cli_locks, words);
}

#define KEY "p{locks}lock:"

static void a_list_has_each_lock_once(void **state)
{
	(void)state;
	fake.pages[0] = "17\n" KEY "cid\n" KEY "ann\n" KEY "gone\n";
	fake.pages[1] = "0\n" KEY "bob\n" KEY "ann\nother{locks}lock:dan\n" KEY "a b\n";
	struct printed printed = locks(NULL, NULL);
	assert_string_equal(printed.err, "");
	assert_int_equal(printed.status, 0);
	assert_string_equal(printed.out, "NAME  STATE   LEFT  FENCE  SESSION\n"
					 "ann   active  1.5s     71  host:1\n"
					 "bob   lapsed   0ms     72  host:2\n"
					 "cid   active  20ms     73  host:3\n");
	assert_int_equal(fake.page_count, 2);
}

/* Nothing of the failed list is left. */
static void a_list_that_fails_begins_again(void **state)
{
	(void)state;
	fake.pages[0] = "17\n" KEY "ann\n";
	fake.pages[1] = NULL; /* no answer */
	fake.pages[2] = "0\n" KEY "ann\n";
	struct printed printed = locks(NULL, NULL);
	assert_int_equal(printed.status, 0);
	assert_string_equal(printed.out,
		"NAME  STATE   LEFT  FENCE  SESSION\nann   active  1.5s     71  host:1\n");
	assert_int_equal(fake.took_ms, 200);
	begin(state);
	fake.pages[0] = fake.pages[1] = "0\n" KEY "ann\n" KEY "bob\n";
	fake.silent = 1;
	printed = locks(NULL, NULL);
	assert_int_equal(printed.status, 0);
	assert_non_null(strstr(printed.out, "ann"));
	assert_non_null(strstr(printed.out, "bob"));
	assert_int_equal(fake.page_count, 2);
}

static void a_silent_store_is_given_up(void **state)
{
	(void)state;
	fake.is_mute = true;
	struct printed printed = locks("show", "ann");
	assert_int_equal(printed.status, LOCK_EXIT_UNREACHED);
	assert_string_equal(printed.out, "");
	assert_non_null(strstr(printed.err, "no answer in time\n"));
	assert_in_range(fake.took_ms, 10000, 10200);
	begin(state);
	fake.is_mute = fake.refuses = true;
	assert_int_equal(locks("show", "ann").status, LOCK_EXIT_UNREACHED);
	assert_int_equal(fake.took_ms, 0);
}

static void one_lock_is_shown(void **state)
{
	(void)state;
	struct printed printed = locks("show", "ann");
	assert_int_equal(printed.status, 0);
	assert_non_null(strstr(printed.out, "state                   active\n"));
	assert_non_null(strstr(printed.out, "fence                   71\n"));
	begin(state);
	printed = locks("show", "bob");
	assert_int_equal(printed.status, LOCK_EXIT_NOT_HAD);
	assert_non_null(strstr(printed.out, "state                   lapsed\n"));
	begin(state);
	printed = locks("show", "none");
	assert_int_equal(printed.status, LOCK_EXIT_NOT_HAD);
	assert_non_null(strstr(printed.out, "state                   free\n"));
}

static void the_session_that_was_seen_is_ended(void **state)
{
	(void)state;
	fake.ends[0] = LOCK_FREE;
	struct printed printed = locks("end", "ann");
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.ended_fence, 71);
	assert_non_null(strstr(printed.out, "session                 host:1\n"));
	begin(state);
	printed = locks("end", "none");
	assert_int_equal(printed.status, LOCK_EXIT_REFUSED);
	assert_non_null(strstr(printed.err, "no session has none\n"));
	assert_int_equal(fake.end_count, 0);
}

/* It has ended by itself; another session has the lock now. */
static void a_session_that_was_over_is_not_the_one(void **state)
{
	(void)state;
	fake.ends[0] = LOCK_OVER;
	fake.ends[1] = LOCK_FREE;
	struct printed printed = locks("end", "ann");
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.ended_fence, 72);
	assert_non_null(strstr(printed.out, "fence                   72\n"));
	assert_null(strstr(printed.out, "fence                   71\n"));
}

/* Without an answer it may have ended: it is asked again of the same session, not of a newer. */
static void an_end_without_an_answer_is_asked_again(void **state)
{
	(void)state;
	fake.ends[0] = LOCK_UNKNOWN;
	fake.ends[1] = LOCK_OVER;
	struct printed printed = locks("end", "ann");
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.end_count, 2);
	assert_int_equal(fake.ended_fence, 71);
	assert_non_null(strstr(printed.out, "fence                   71\n"));
}

static void the_command_line(void **state)
{
	static const struct {
		const char *verb, *name, *said;
	} wrong[] = {{"sho", "a", "unknown command \"sho\"; expected show NAME or end NAME"},
		{"show", NULL, "locks show: expected NAME"}, {"end", "a b", "invalid name \"a b\""},
		{"end", "", "invalid name \"\""}};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct printed printed = locks(wrong[i].verb, wrong[i].name);
		assert_int_equal(printed.status, LOCK_EXIT_USAGE);
		assert_non_null(strstr(printed.err, wrong[i].said));
		assert_int_equal(fake.steps, 0);
	}
}

UNIT_SUITE(test_lock_list)
{
	fake_locks_ask = ask;
	fake_locks_look_refused = look_refused;
	fake_deadline_made = note_deadline;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_list_has_each_lock_once, begin),
		cmocka_unit_test_setup(a_list_that_fails_begins_again, begin),
		cmocka_unit_test_setup(a_silent_store_is_given_up, begin),
		cmocka_unit_test_setup(one_lock_is_shown, begin),
		cmocka_unit_test_setup(the_session_that_was_seen_is_ended, begin),
		cmocka_unit_test_setup(a_session_that_was_over_is_not_the_one, begin),
		cmocka_unit_test_setup(an_end_without_an_answer_is_asked_again, begin),
		cmocka_unit_test_setup(the_command_line, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
