/* Another worker asks for a place: one connection that is idle is closed, whichever listener it is
 * of, and that one may end with it. */
#include "listen/give_way.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "listen/listener.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/node.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define LISTENERS 3

/* A worker whose listeners have one connection in all, of the listener `of`. */
struct world {
	struct node node;
	struct listening listening;
	struct worker *workers[1];
	struct connection_bound bound;
	struct binding binding;
	struct site_use use;
	struct listener *listeners[LISTENERS];
	struct listener *of; /* NULL: it is closed */
	struct idle_link idle;
	unsigned asked;
};

static struct world *world;

static bool none_lingers(struct listener *listener)
{
	(void)listener;
	return false;
}

static struct idle_link *find_idle(struct worker *worker, const struct connection_bound *bound)
{
	(void)worker;
	assert_ptr_equal(bound, &world->bound);
	world->asked++;
	return world->of ? &world->idle : NULL;
}

static void close_idle(struct idle_link *link)
{
	struct listener *listener = world->of;

	assert_ptr_equal(link, &world->idle);
	world->of = NULL;
	listener_connection_closed(listener, NULL);
}

static const struct protocol protocol = {
	.give_way = none_lingers, .find_idle = find_idle, .close_idle = close_idle};
static const struct protocol *const protocols[] = {&protocol, NULL};

static void never(struct deadline *deadline)
{
	(void)deadline;
	fail();
}

static struct listener *add_listener(struct worker *worker, bool closed)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct event_base *base = worker->loop.base;

	assert_non_null(listener);
	listener->acceptor.fd = -1;
	listener->worker = worker;
	listener->binding = &world->binding;
	listener->protocols = protocols;
	listener->use = site_use_hold(&world->use);
	listener->closed = closed;
	deadline_init(&listener->retry, base, never);
	deadline_init(&listener->again, base, never);
	deadline_init(&listener->quiet, base, never);
	deadline_init(&listener->handshakes.deadline, base, never);
	listener->next = listen_part(worker)->listeners;
	listen_part(worker)->listeners = listener;
	return listener;
}

/* Which of the listeners has the connection; it is closed with the bit `closed`. */
static void begin(unsigned of, unsigned closed)
{
	static const struct worker_part memory = {
		.memory = PART_LISTEN, .bytes = sizeof(struct listen_part)};
	static const struct worker_part *const parts[] = {&memory, NULL};

	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	world->node.workers = world->workers;
	world->node.worker_count = 1;
	world->node.shared[NODE_LISTENING] = &world->listening;
	world->node.stats = stats_new(1);
	assert_non_null(world->node.stats);
	struct worker *worker = world->workers[0] = worker_new(&world->node, 0, NULL, parts);
	assert_non_null(worker);
	worker->stats = stats_block(world->node.stats, 0);
	loop_enter(&worker->loop);
	world->use.count = 1;
	world->binding.bound = &world->bound;
	for (unsigned i = LISTENERS; i-- > 0;) /* the last one added is the first */
		world->listeners[i] = add_listener(worker, closed >> i & 1);
	world->of = world->listeners[of];
	world->of->connections = 1;
	world->bound.connections = world->listening.descriptors.connections = 1;
	world->bound.waiting = world->bound.wanted = true;
}

static unsigned end(void)
{
	struct worker *worker = world->workers[0];
	unsigned left = 0;

	while (listen_part(worker)->listeners) {
		struct listener *listener = listen_part(worker)->listeners;
		listen_part(worker)->listeners = listener->next;
		deadline_end(&listener->retry);
		deadline_end(&listener->again);
		deadline_end(&listener->quiet);
		deadline_end(&listener->handshakes.deadline);
		free(listener);
		left++;
	}
	worker_free(worker);
	stats_free(world->node.stats);
	free(world);
	return left;
}

/* A bind that a reload has taken away, and others of the same section. */
static void any_listener_may_end_with_its_last_connection(void **state)
{
	(void)state;
	for (unsigned of = 0; of < LISTENERS; of++) {
		for (unsigned closed = 0; closed < 1U << LISTENERS; closed++) {
			begin(of, closed);
			give_way_answer(world->workers[0]);
			assert_null(world->of);
			assert_int_equal(world->asked, 1); /* one is closed for one that asks */
			assert_int_equal(world->bound.connections, 0);
			assert_int_equal(world->listening.descriptors.connections, 0);
			assert_int_equal(end(), LISTENERS - (closed >> of & 1));
		}
	}
}

static void nothing_is_closed_that_is_not_needed(void **state)
{
	(void)state;
	begin(0, 0);
	world->bound.waiting = false; /* a place was free meanwhile */
	give_way_answer(world->workers[0]);
	assert_int_equal(world->asked, 0);
	assert_non_null(world->of);
	end();
	begin(0, 0);
	world->bound.wanted = false; /* another worker has closed one */
	give_way_answer(world->workers[0]);
	assert_int_equal(world->asked, 0);
	assert_non_null(world->of);
	end();
}

UNIT_SUITE(test_give_way)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_listener_may_end_with_its_last_connection),
		cmocka_unit_test(nothing_is_closed_that_is_not_needed),
	};

	mallopt(M_PERTURB, 165); /* what is freed is not read unnoticed */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
