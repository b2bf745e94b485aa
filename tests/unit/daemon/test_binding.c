/* Opening and closing of what a process listens on: prepared, then committed or dropped. Sockets
 * are of the unix kind, in a folder of the test's. */
#include "daemon/binding.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/handover.h"
#include "tests/unit/exchange/fakes/stage.h"
#include "tests/unit/suite.h"

static char folder[] = "/tmp/sluice-binding-XXXXXX";
static const struct stage_conf plain = {.two_workers = true};

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

/* A configuration that listens there; `binds` are `unix:` and names in the folder, by blanks. */
static const struct conf *conf_of(const char *names)
{
	struct conf_errors errors;
	char text[1024] = "[sluice]\nworkers = 2\n[listener a]\n", copy[256], *rest = NULL;

	strcpy(copy, names);
	for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "bind = unix:%s/%s\n",
			folder, name);
	strcat(text, "[upstream u]\nserver = 127.0.0.1:2\n[route r]\nupstream = u\n");
	const struct conf *conf = conf_parse(text, strlen(text), "test.ini", NULL, &errors);
	assert_non_null(conf);
	conf_errors_free(&errors);
	return conf;
}

static bool exists(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static unsigned count(const struct binding *list)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n += !list->closed;
	return n;
}

struct world {
	struct stage *stage;
	struct daemon *daemon;
};

static void begin(struct world *w)
{
	w->stage = stage_begin(&plain);
	w->daemon = &w->stage->daemon;
	pthread_mutex_init(&w->daemon->listening.lock, NULL);
}

static void end(struct world *w)
{
	bindings_free(w->daemon);
	assert_null(w->daemon->listening.bindings);
	assert_null(w->daemon->listening.bounds);
	pthread_mutex_destroy(&w->daemon->listening.lock);
	stage_end(w->stage);
}

static void prepare_and_commit(struct world *w, const char *names)
{
	const struct conf *conf = conf_of(names);

	assert_true(bindings_prepare(w->daemon, conf));
	bindings_commit(w->daemon, conf);
	assert_null(w->daemon->listening.prepared);
	conf_release(conf);
}

static void a_socket_for_each_worker(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	prepare_and_commit(&w, "one two");
	assert_true(exists("one") && exists("two"));
	assert_int_equal(count(w.daemon->listening.bindings), 2);
	for (struct binding *b = w.daemon->listening.bindings; b; b = b->next) {
		assert_int_equal(b->workers, 2);
		assert_true(b->sockets[0] >= 0 && b->sockets[1] >= 0);
		assert_int_not_equal(b->sockets[0], b->sockets[1]);
		assert_non_null(b->listeners[0]);
		assert_non_null(b->listeners[1]);
		assert_int_equal(b->given[1], -1); /* one socket for all */
		assert_string_equal(b->bound->name, "a");
		assert_int_equal(b->bound->holders, 2); /* both of one section */
	}
	end(&w);
	assert_false(exists("one") || exists("two"));
}

static void what_is_dropped_leaves_nothing(void **state)
{
	struct world w;
	const struct conf *conf = conf_of("one");

	(void)state;
	begin(&w);
	assert_true(bindings_prepare(w.daemon, conf));
	assert_true(exists("one"));
	bindings_discard(w.daemon);
	assert_false(exists("one"));
	assert_null(w.daemon->listening.bindings);
	bindings_discard(w.daemon);
	conf_release(conf);
	end(&w);
}

/* All errors are reported, and what was opened is closed. */
static void one_that_fails_drops_all(void **state)
{
	struct world w;
	const struct conf *conf = conf_of("one none/two none/three");

	(void)state;
	begin(&w);
	assert_false(bindings_prepare(w.daemon, conf));
	assert_false(exists("one"));
	assert_null(w.daemon->listening.prepared);
	assert_has(lines.text, "error test.ini:");
	assert_has(lines.text, "none/two: No such file");
	assert_has(lines.text, "none/three: No such file");
	conf_release(conf);
	end(&w);
}

static void a_reload_keeps_those_that_both_have(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	prepare_and_commit(&w, "one two");
	struct binding *kept = w.daemon->listening.bindings;
	while (!strstr(kept->text, "/two"))
		kept = kept->next;
	int socket = kept->sockets[0];
	prepare_and_commit(&w, "two three");
	assert_false(exists("one"));
	assert_true(exists("two") && exists("three"));
	assert_int_equal(kept->sockets[0], socket);
	assert_int_equal(count(w.daemon->listening.bindings), 2);
	bindings_collect(w.daemon); /* no worker has a listener of it */
	unsigned all = 0;
	for (struct binding *b = w.daemon->listening.bindings; b; b = b->next)
		all++;
	assert_int_equal(all, 2);
	end(&w);
}

static void one_that_workers_use_is_collected_later(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	prepare_and_commit(&w, "one");
	struct binding *binding = w.daemon->listening.bindings;
	binding->holders = 1;
	prepare_and_commit(&w, "two");
	assert_true(binding->closed);
	bindings_collect(w.daemon);
	assert_int_equal(count(w.daemon->listening.bindings), 1);
	assert_ptr_equal(w.daemon->listening.bindings->next, binding);
	binding->holders = 0;
	bindings_collect(w.daemon);
	assert_null(w.daemon->listening.bindings->next);
	end(&w);
}

static void socket_files_are_removed_for_a_drain(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	prepare_and_commit(&w, "one");
	bindings_remove_paths(w.daemon);
	assert_false(exists("one"));
	assert_true(w.daemon->listening.bindings->sockets[0] >= 0); /* those that wait are served */
	end(&w);
}

/* What another process has taken is not removed with ours. */
static void a_file_that_was_handed_over_stays(void **state)
{
	struct world w;
	char path[128], address[140];

	(void)state;
	begin(&w);
	prepare_and_commit(&w, "one two");
	snprintf(path, sizeof(path), "%s/one", folder);
	snprintf(address, sizeof(address), "unix:%s", path);
	bindings_hand_over(w.daemon, address);
	for (struct binding *b = w.daemon->listening.bindings; b; b = b->next)
		assert_int_equal(b->handed_over, strcmp(b->text, address) == 0);
	end(&w);
	assert_true(exists("one"));
	assert_false(exists("two"));
	unlink(path);
}

/* The next process adopts what this one gives: the same sockets, whose file is not its own yet. */
static void adopt(bool is_over)
{
	struct world w;
	char path[128];

	begin(&w);
	prepare_and_commit(&w, "one");
	struct handover *handover = handover_new();
	assert_true(bindings_give(w.daemon, handover));
	assert_int_equal(handover->count, 1); /* the one that all share */
	int copy = fcntl(handover->sockets[0].fd, F_DUPFD_CLOEXEC, 0);
	handover->sockets[0].fd = copy;
	bindings_hand_over(w.daemon, w.daemon->listening.bindings->text);
	bindings_free(w.daemon);
	const struct conf *conf = conf_of("one");
	assert_true(bindings_are_free(conf, handover));
	w.daemon->inherited = handover;
	assert_true(bindings_prepare(w.daemon, conf));
	bindings_commit(w.daemon, conf);
	w.daemon->inherited = NULL;
	struct binding *binding = w.daemon->listening.bindings;
	assert_int_equal(binding->sockets[0], copy);
	assert_true(binding->sockets[1] >= 0);
	assert_true(binding->is_borrowed);
	handover_free(handover);
	if (is_over)
		bindings_take_over(w.daemon);
	assert_int_equal(binding->is_borrowed, !is_over);
	conf_release(conf);
	end(&w);
	snprintf(path, sizeof(path), "%s/one", folder);
	assert_int_equal(exists("one"), !is_over);
	unlink(path);
}

static void what_is_given_is_adopted(void **state)
{
	(void)state;
	adopt(true);
	adopt(false); /* the process before may come back */
}

/* ---- systemd's ------------------------------------------------------------------------------- */

static void what_systemd_did_not_pass(void **state)
{
	static const struct {
		const char *count, *pid, *names, *line;
	} rows[] = {
		{NULL, NULL, NULL, "systemd passed no sockets (LISTEN_FDS is not set)"},
		{"0", NULL, NULL, "systemd passed no sockets (LISTEN_FDS is 0)"},
		{"1", "1", NULL, "systemd passed no sockets to this process (LISTEN_PID is 1)"},
		{"1", NULL, "https",
			"no socket of the name \"http\" (LISTEN_FDNAMES is \"https\","},
		{"1", NULL, NULL, "(LISTEN_FDNAMES is not set, LISTEN_FDS 1)"},
	};
	static const char text[] = "[sluice]\nworkers = 2\n[listener a]\nbind = systemd:http\n"
				   "[upstream u]\nserver = 127.0.0.1:2\n[route r]\nupstream = u\n";
	struct conf_errors errors;
	struct world w;

	(void)state;
	begin(&w);
	const struct conf *conf = conf_parse(text, strlen(text), "test.ini", NULL, &errors);
	assert_non_null(conf);
	conf_errors_free(&errors);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsetenv("LISTEN_FDS");
		unsetenv("LISTEN_PID");
		unsetenv("LISTEN_FDNAMES");
		if (rows[i].count)
			setenv("LISTEN_FDS", rows[i].count, 1);
		if (rows[i].pid)
			setenv("LISTEN_PID", rows[i].pid, 1);
		if (rows[i].names)
			setenv("LISTEN_FDNAMES", rows[i].names, 1);
		lines_clear();
		assert_true(bindings_are_free(conf, NULL)); /* nobody else can have it */
		assert_false(bindings_prepare(w.daemon, conf));
		assert_has(lines.text, rows[i].line);
	}
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	conf_release(conf);
	end(&w);
}

UNIT_SUITE(test_binding)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_for_each_worker),
		cmocka_unit_test(what_is_dropped_leaves_nothing),
		cmocka_unit_test(one_that_fails_drops_all),
		cmocka_unit_test(a_reload_keeps_those_that_both_have),
		cmocka_unit_test(one_that_workers_use_is_collected_later),
		cmocka_unit_test(socket_files_are_removed_for_a_drain),
		cmocka_unit_test(a_file_that_was_handed_over_stays),
		cmocka_unit_test(what_is_given_is_adopted),
		cmocka_unit_test(what_systemd_did_not_pass),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
