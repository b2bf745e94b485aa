/* What workers have counted of usage is written to the state folder, an interval at a time. */
#include "daemon/usage.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "main_turn.h"
#include "stats/usage_sums.h"
#include "tests/unit/suite.h"

static char folder[] = "/tmp/sluice-usage-XXXXXX";
static const struct stage_conf limited = {.two_workers = true,
	.route = "limits = calls",
	.more = "[limit calls]\nkey = ip\nrate = 9 per 1h\n"};

static int make_folder(void **state)
{
	(void)state;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	return mkdtemp(folder) == NULL;
}

/* All that was written, one file after the other; with `removes` they are removed, too. */
static const char *written(bool removes)
{
	static char text[8192];
	char path[400];
	struct dirent *entry;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/usage", folder);
	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/usage/%s", folder, entry->d_name);
		FILE *file = fopen(path, "r");
		assert_non_null(file);
		size_t used = strlen(text);
		text[used + fread(text + used, 1, sizeof(text) - 1 - used, file)] = '\0';
		fclose(file);
		if (removes)
			unlink(path);
	}
	if (dir)
		closedir(dir);
	return text;
}

static int remove_folder(void **state)
{
	char path[128];

	(void)state;
	written(true);
	snprintf(path, sizeof(path), "%s/usage", folder);
	rmdir(path);
	return rmdir(folder);
}

struct world {
	struct stage *stage;
	struct daemon *daemon;
	struct conf conf;
};

static void begin(struct world *w)
{
	w->stage = stage_begin(&limited);
	w->daemon = &w->stage->daemon;
	w->conf = *w->daemon->site->conf;
	w->conf.state = folder;
	w->conf.workers = 2;
	w->conf.usage.interval_ms = 3600000;
	w->conf.usage.bytes = 1 << 20;
}

static unsigned limit_of(const struct world *w)
{
	return w->daemon->site->rows.limits[0];
}

static void without_an_interval_there_is_none(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.conf.usage.interval_ms = 0;
	assert_true(usage_begin(w.daemon, &w.conf));
	assert_null(usage_counts_of(w.daemon, 0));
	assert_null(usage_folder(w.daemon));
	usage_end(w.daemon);
	stage_end(w.stage);
}

static void what_all_workers_counted_is_written_once(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_true(usage_begin(w.daemon, &w.conf));
	assert_string_equal(usage_folder(w.daemon) + strlen(folder), "/usage");
	assert_ptr_not_equal(usage_counts_of(w.daemon, 0), usage_counts_of(w.daemon, 1));
	usage_write(w.daemon);
	assert_string_equal(written(false), ""); /* nothing was used */
	for (unsigned worker = 0; worker < 2; worker++)
		for (unsigned i = 0; i < 3; i++)
			usage_count(usage_counts_of(w.daemon, worker), limit_of(&w), 0xabc, i != 0);
	usage_write(w.daemon);
	const char *text = written(false);
	assert_has(text, "calls");
	size_t len = strlen(text);
	usage_write(w.daemon);
	assert_int_equal(strlen(written(false)), len);
	usage_count(usage_counts_of(w.daemon, 1), limit_of(&w), 0xabc, true);
	usage_end(w.daemon); /* writes the last */
	assert_null(w.daemon->usage);
	assert_true(strlen(written(true)) > len);
	usage_end(w.daemon);
	assert_true(usage_begin(w.daemon, &w.conf)); /* the folder is there already */
	usage_end(w.daemon);
	assert_string_equal(lines.text, "");
	stage_end(w.stage);
}

static void a_folder_that_can_not_be_made(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.conf.state = "/proc/none";
	assert_false(usage_begin(w.daemon, &w.conf));
	assert_has(lines.text, "error usage: /proc/none/usage can't be made: ");
	usage_end(w.daemon);
	stage_end(w.stage);
}

/* One line for the beginning of a run of failures, and one for its end. */
static void a_folder_that_goes_away(void **state)
{
	struct world w;
	char path[128], away[128];

	(void)state;
	begin(&w);
	assert_true(usage_begin(w.daemon, &w.conf));
	snprintf(path, sizeof(path), "%s/usage", folder);
	snprintf(away, sizeof(away), "%s/away", folder);
	assert_int_equal(rename(path, away), 0);
	for (unsigned i = 0; i < 2; i++) {
		usage_count(usage_counts_of(w.daemon, 0), limit_of(&w), 1, true);
		usage_write(w.daemon);
		assert_int_equal(
			strstr(lines.text, "can't be written, 1 rows are lost") != NULL, i == 0);
		lines_clear();
	}
	assert_int_equal(rename(away, path), 0);
	usage_count(usage_counts_of(w.daemon, 0), limit_of(&w), 1, true);
	usage_write(w.daemon);
	assert_has(lines.text, "is written again");
	usage_end(w.daemon);
	stage_end(w.stage);
}

/* An hour that alone has as much as all may have: its callers are counted together. */
static void an_hour_that_is_full(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.conf.usage.bytes = 1;
	assert_true(usage_begin(w.daemon, &w.conf));
	for (unsigned round = 0; round < 3; round++) {
		for (uint64_t caller = 1; caller <= 20; caller++)
			usage_count(usage_counts_of(w.daemon, 0), limit_of(&w), caller, true);
		lines_clear();
		size_t before = strlen(written(false));
		usage_write(w.daemon);
		size_t grown = strlen(written(false)) - before;
		assert_int_equal(strstr(lines.text, "has reached usage_size") != NULL, round == 1);
		assert_int_equal(grown<200, round> 0); /* one row, not twenty */
	}
	usage_end(w.daemon);
	stage_end(w.stage);
}

/* The timer writes, and begins the next interval. */
static void an_interval_is_over(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.conf.usage.interval_ms = 10;
	assert_true(usage_begin(w.daemon, &w.conf));
	for (unsigned i = 0; i < 2; i++) {
		struct loop *loop = &w.daemon->node.loop;
		usage_count(usage_counts_of(w.daemon, 0), limit_of(&w), 1, true);
		size_t before = strlen(written(false));
		loop_enter(loop);
		while (strlen(written(false)) == before)
			assert_int_equal(loop_run_turn(loop), 0);
		loop_enter(&w.stage->worker->loop);
	}
	usage_end(w.daemon);
	stage_end(w.stage);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

UNIT_SUITE(test_usage)
{
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(without_an_interval_there_is_none),
		IN_A_FOLDER(what_all_workers_counted_is_written_once),
		IN_A_FOLDER(a_folder_that_can_not_be_made),
		IN_A_FOLDER(a_folder_that_goes_away),
		IN_A_FOLDER(an_hour_that_is_full),
		IN_A_FOLDER(an_interval_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
