/* [semaphore]: where its broker is, and what it may be called. */
#include "config.h"

#include "text.h"
#include "tests/unit/suite.h"

#ifdef HAVE_RABBITMQ
static void urls(void **state)
{
	static const struct {
		const char *url, *address, *user, *password, *vhost;
	} known[] = {
		{"amqp://10.0.0.8", "10.0.0.8:5672", NULL, NULL, "/"},
		{"amqp://10.0.0.8/", "10.0.0.8:5672", NULL, NULL, "/"},
		{"amqp://broker.test:1/v", "broker.test:1", NULL, NULL, "v"},
		{"amqp://me:you@[::1]:5/%2F", "[::1]:5", "me", "you", "/"},
		{"amqp://a%40b:p%3A%2F@[::1]/a%2Fb%20c", "[::1]:5672", "a@b", "p:/", "a/b c"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		char line[200];
		snprintf(line, sizeof(line), "broker = %s", known[i].url);
		const struct conf *conf = good("semaphore s", line);
		const struct conf_broker *broker = &conf->fleet.semaphores.items[0].broker;
		assert_string_equal(conf->fleet.semaphores.items[0].name, "s");
		assert_string_equal(broker->address.text, known[i].address);
		assert_string_equal(broker->vhost, known[i].vhost);
		assert_int_equal(!broker->user, !known[i].user);
		if (broker->user) {
			assert_string_equal(broker->user, known[i].user);
			assert_string_equal(broker->password, known[i].password);
		}
		conf_release(conf);
	}
}

static void urls_that_are_none(void **state)
{
	char line[300];

	(void)state;
	snprintf(line, sizeof(line), "broker = amqp://h/%0256d", 0);
	bad("semaphore s", line, "the virtual host is longer than 255 bytes");
	bad("semaphore s", "broker = 10.0.0.8", "does not begin with amqp://");
	bad("semaphore s", "broker = amqpx://10.0.0.8", "does not begin with amqp://");
	bad("semaphore s", "broker = amqp://", "there is no host");
	bad("semaphore s", "broker = amqp://me@h", "a user without a password");
	bad("semaphore s", "broker = amqp://me:%zz@h", "not percent-encoded");
	bad("semaphore s", "broker = amqp://h//", "has a '/', which is written %2F");
	bad("semaphore s", "broker = amqp://h/%0", "the virtual host is not percent-encoded");
	bad("semaphore s", "broker = amqp://h/v?heartbeat=5", "after the virtual host");
	bad("semaphore s", "password = file:/x\nbroker = amqp://a:b@h",
		"password: the broker's URL");
	bad("semaphore s", "heartbeat = 1500ms\nbroker = amqp://h", "not in whole seconds");
	bad("semaphore s", "size = 0\nbroker = amqp://h", "size");
	bad("semaphore s", "password = hello\nbroker = amqp://h", "a secret belongs in a file");
}

/* The name is that of a queue, beside those of the slots, NAME-n-A and NAME-n-B. */
static void names(void **state)
{
	static const char *const right[] = {"a", "a-1", "a-A", "a-1-C", "-1-A", "a1-A", "1-A"};
	static const char *const wrong[] = {"a-1-A", "a-1-B", "a-b-12-A"};
	char section[100];

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		snprintf(section, sizeof(section), "semaphore %s", right[i]);
		conf_release(good(section, "broker = amqp://h"));
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		bad_text(10, "the queues of another semaphore's slots",
			TEXT_BASE "[semaphore %s]\nbroker = amqp://h\n", wrong[i]);
	bad_text(10, "names that begin with amq.",
		TEXT_BASE "[semaphore amq.s]\nbroker = amqp://h\n");
	bad_text(10, "has a name that can't be one",
		TEXT_BASE "[semaphore a b]\nbroker = amqp://h\n");
}

/* An upstream names the semaphore whose slots it takes. */
static void of_upstreams(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_BASE "[upstream other]\nserver = 127.0.0.1:9\n"
				     "semaphore = s\nsemaphore_idle = 3s\n"
				     "semaphore_down = refuse\n"
				     "[route other]\nupstream = other\npath = /o\n"
				     "[semaphore s]\nbroker = amqp://h\nnodes = 3\n");
	const struct conf_upstream *upstream = &conf->upstreams[conf->upstream_count - 1];
	bool warned = false;

	(void)state;
	assert_string_equal(upstream->semaphore->name, "s");
	assert_int_equal(upstream->semaphore->nodes, 3);
	assert_int_equal(upstream->slots.idle_ms, 3000);
	assert_int_equal(upstream->slots.down, CONF_SEMAPHORE_DOWN_REFUSE);
	assert_null(conf->upstreams[0].semaphore);
	conf_release(conf);
	bad_text(12, "semaphore: there is no [semaphore t]; expected the name of one",
		TEXT_BASE "[upstream other]\nserver = 127.0.0.1:9\nsemaphore = t\n"
			  "[semaphore s]\nbroker = amqp://h\n");
	conf = parse_good(TEXT_BASE "[upstream other]\nserver = 127.0.0.1:9\n"
				    "semaphore_down = refuse\n"
				    "[route other]\nupstream = other\npath = /o\n");
	for (size_t i = 0; i < conf->warning_count; i++)
		warned |= conf->warnings[i].line == 12 &&
			  strstr(conf->warnings[i].text,
				  "semaphore_down: has no effect without semaphore = NAME");
	assert_true(warned);
	conf_release(conf);
}

/* Each of its upstreams has a share: a node with two of them counts as two. */
static void nodes_count_for_each_upstream(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_BASE "[upstream one]\nserver = 127.0.0.1:9\nsemaphore = s\n"
				     "[upstream two]\nserver = 127.0.0.1:9\nsemaphore = s\n"
				     "[upstream three]\nserver = 127.0.0.1:9\nsemaphore = t\n"
				     "[route one]\nupstream = one\npath = /1\n"
				     "[route two]\nupstream = two\npath = /2\n"
				     "[route three]\nupstream = three\npath = /3\n"
				     "[semaphore s]\nbroker = amqp://h\nnodes = 3\n"
				     "[semaphore t]\nbroker = amqp://h\nnodes = 3\n"
				     "[semaphore unused]\nbroker = amqp://h\nnodes = 3\n"
				     "[semaphore unknown]\nbroker = amqp://h\n");
	const struct conf_semaphore *semaphores = conf->fleet.semaphores.items;

	(void)state;
	assert_int_equal(semaphores[0].nodes, 6);
	assert_int_equal(semaphores[1].nodes, 3);
	assert_int_equal(semaphores[2].nodes, 3);
	assert_int_equal(semaphores[3].nodes, 0);
	conf_release(conf);
}
#else
static void refused_without_rabbitmq(void **state)
{
	(void)state;
	bad_text(10, "built without it (configure --without-rabbitmq)",
		TEXT_BASE "[semaphore s]\nbroker = amqp://h\n");
}
#endif

UNIT_SUITE(test_semaphore)
{
	const struct CMUnitTest tests[] = {
#ifdef HAVE_RABBITMQ
		cmocka_unit_test(urls),
		cmocka_unit_test(urls_that_are_none),
		cmocka_unit_test(names),
		cmocka_unit_test(of_upstreams),
		cmocka_unit_test(nodes_count_for_each_upstream),
#else
		cmocka_unit_test(refused_without_rabbitmq),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
