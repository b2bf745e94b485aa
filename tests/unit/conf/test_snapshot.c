/* A snapshot's life, its defaults, and the dump that reads as the same. */
#include "text.h"

#include <pthread.h>

#include "conf/reference.h"
#include "tests/unit/suite.h"

enum { THREADS = 4, TURNS = 20000 };

static void defaults(void **state)
{
	const struct conf *conf = parse_good("[listener l]\nbind = 127.0.0.1:1\n"
					     "[upstream u]\nserver = 127.0.0.1:2\n"
					     "[limit base]\nrate = 1 per 1s\n"
					     "[route r]\nupstream = u\nlimits = base\n");
	const struct conf_listener *listener = &conf->listeners[0];
	const struct conf_upstream *upstream = &conf->upstreams[0];
	const struct conf_route *route = &conf->routes[0];

	(void)state;
	assert_null(conf->state);
	assert_int_equal(conf->admin.bind_count, 0);
	assert_int_equal(conf->totals.callers, 1000000);
	assert_int_equal(conf->totals.queue, 100000);
	assert_int_equal(conf->totals.queue_bytes, 512 << 20);
	assert_int_equal(conf->shutdown_timeout_ms, 30000);
	assert_int_equal(conf->buffer_bytes, 80 * 1024);
	assert_int_equal(conf->logs.level, LOG_LEVEL_INFO);
	assert_int_equal(conf->logs.error.sink, LOG_SINK_STDERR);
	assert_int_equal(conf->logs.access.sink, LOG_SINK_STDOUT);
	assert_string_equal(conf->request_id_field, "X-Request-Id");
	assert_null(conf->hop.via);
	assert_false(conf->hop.forwarded);
	assert_true(listener->v6only);
	assert_int_equal(listener->header_timeout_ms, 10000);
	assert_int_equal(listener->max_header_bytes, 16384);
	assert_int_equal(listener->max_uri_bytes, 8192);
	assert_int_equal(listener->max_fields, 100);
	assert_int_equal(listener->pipeline_depth, 16);
	assert_int_equal(listener->ratelimit_headers, CONF_RATELIMIT_DRAFT_11);
	assert_int_equal(upstream->quantum, 10);
	assert_int_equal(upstream->shed.target_ms, 0);
	assert_int_equal(upstream->shed.interval_ms, 100);
	assert_int_equal(upstream->keepalive, 100000);
	assert_int_equal(upstream->tunnel_timeout_ms, 3600000);
	assert_int_equal(upstream->fail_timeout_max_ms, 60000);
	assert_int_equal(upstream->max_in_flight_ceiling, 1000);
	assert_int_equal(upstream->servers[0].weight, 1);
	assert_string_equal(conf->limits[0].key->text, "ip");
	assert_int_equal(route->path_kind, CONF_PATH_PREFIX);
	assert_string_equal(route->path, "/");
	assert_ptr_equal(route->upstream, upstream);
	assert_ptr_equal(route->limits.items[0], &conf->limits[0]);
	assert_ptr_equal(route->sessions.key, conf->limits[0].key);
	assert_int_equal(route->sessions.ordering, CONF_ORDERING_AUTO);
	assert_int_equal(route->sessions.queue_depth, 1000);
	assert_int_equal(route->sessions.high_burst, 16);
	assert_int_equal(route->cost, 1);
	assert_int_equal(route->upgrades.count, 1);
	assert_string_equal(route->upgrades.items[0], "websocket");
	assert_int_equal(route->ratelimit_headers, CONF_RATELIMIT_INHERIT);
	conf_release(conf);
}

static void *hold_and_release(void *given)
{
	const struct conf *conf = given;

	for (int i = 0; i < TURNS; i++) {
		const struct conf *held = conf_hold(conf);

		if (held->route_count != 1)
			abort();
		conf_release(held);
	}
	conf_release(conf); /* the hold that came with it */
	return NULL;
}

/* Each thread has a hold of its own and the last one frees: the sanitizers watch. */
static void threads_hold_and_release(void **state)
{
	struct conf_errors errors;
	struct conf *conf = conf_parse(TEXT_BASE, strlen(TEXT_BASE), "t", NULL, &errors);
	pthread_t threads[THREADS];

	(void)state;
	assert_non_null(conf);
	for (int i = 0; i < THREADS; i++) {
		conf_hold(conf);
		assert_int_equal(pthread_create(&threads[i], NULL, hold_and_release, conf), 0);
	}
	conf_release(conf);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	conf_errors_free(&errors);
}

static void releasing_nothing_is_fine(void **state)
{
	(void)state;
	conf_release(NULL);
}

static char *dump(const struct conf *conf)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	reference_dump(conf, out);
	fclose(out);
	return text;
}

static void a_dump_reads_as_the_same(void **state)
{
	const struct conf *conf = parse_good(TEXT_BASE
		"[upstream v]\nserver = a:1 weight=3\nserver = b:1\nmax_in_flight = auto\n"
		"[route r]\nupstream = v\nhost = a, b\nhost = c\npath = ~^/[0-9]+$\n");
	char *first = dump(conf), *second;
	const struct conf *again = parse_good(first);

	(void)state;
	second = dump(again);
	assert_string_equal(first, second);
	assert_non_null(strstr(first, "workers = auto\n"));
	assert_non_null(strstr(first, "\n;state =\n"));
	free(first);
	free(second);
	conf_release(conf);
	conf_release(again);
}

/* Keys that a limit can't have are not written out for it. */
static void a_dump_of_every_kind_of_limit_reads(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_BASE "[limit a]\nrate = 1 per day\n[limit b]\nconcurrency = 2\n"
				     "[limit c]\nrate = 1 per 1s\nalgorithm = gcra\n");
	char *text = dump(conf);

	(void)state;
	conf_release(parse_good(text));
	free(text);
	conf_release(conf);
}

UNIT_SUITE(test_snapshot)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(threads_hold_and_release),
		cmocka_unit_test(releasing_nothing_is_fine),
		cmocka_unit_test(a_dump_reads_as_the_same),
		cmocka_unit_test(a_dump_of_every_kind_of_limit_reads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
