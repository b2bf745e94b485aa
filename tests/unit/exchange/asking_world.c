#include "asking_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../gate/conf_of.h"
#include "daemon/wait_check.h"
#include "exchange/turn.h"
#include "exchange/turn_ask.h"
#include "gate/roster.h"
#include "queue/run_queue.h"
#include "site/site.h"
#include "stats/busiest.h"
#include "stats/stats.h"
#include "tests/unit/base/fake_clock.h"
#include "upstream/server_state.h"

/* The first line is the upstream's. */
#define INI(scope)                                                                                 \
	"max_in_flight = 3\n"                                                                      \
	"[fleet]\nstore = redis://127.0.0.1:1\n"                                                   \
	"[limit far]\nkey = header:S\nrate = 100 per 1s\non_exceed = delay 10s\n" scope            \
	"[limit far2]\nkey = header:S\nrate = 200 per 1s\n" scope                                  \
	"[limit near]\nkey = header:S\nconcurrency = 2\n"                                          \
	"[route strict]\npath = /strict/\nupstream = u\nlimits = far, far2\n"                      \
	"session = header:S\nordering = strict\nqueue_timeout = 2s\n"                              \
	"[route writes]\npath = /writes/\nupstream = u\nlimits = far\n"                            \
	"session = header:S\nordering = writes\nread_hold = 1h\nqueue_timeout = 2s\n"              \
	"[route free]\npath = /free/\nupstream = u\nlimits = far\n"                                \
	"session = header:S\nordering = none\nsession_in_flight = 2\nqueue_timeout = 2s\n"         \
	"[route table]\npath = /table/\nupstream = u\nlimits = near\n"                             \
	"session = header:S\nordering = strict\nqueue_timeout = 2s\n"                              \
	"[route shallow]\npath = /shallow/\nupstream = u\nlimits = far\n"                          \
	"session = header:S\nordering = none\nqueue_depth = 2\nqueue_timeout = 2s\n"               \
	"[route narrow]\npath = /narrow/\nupstream = u\nlimits = far\n"                            \
	"session = header:S\nordering = strict\nqueue_depth = 1\nqueue_timeout = 2s\n"

static const char of_table[] = INI(""), of_fleet[] = INI("scope = fleet\n");

static bool make_host(struct worker *worker, void *start)
{
	const struct site *site = start;

	buffer_pool_init(&worker->blocks, site->conf->buffer_bytes, 4);
	worker->route_scratch = route_scratch_new();
	worker->stats = stats_block(worker->node->stats, worker->index);
	worker->busiest = calloc(1, sizeof(*worker->busiest));
	questions_init(&worker->questions, &worker->loop, turn_answered);
	return worker->route_scratch && worker->busiest;
}

static void free_host(struct worker *worker)
{
	loop_finish_turn(&worker->loop);
	questions_end(&worker->questions);
	exchange_part_clear(exchange_part(worker));
	route_scratch_free(worker->route_scratch);
	buffer_pool_clear(&worker->blocks);
	busiest_rows_clear(worker->busiest);
	free(worker->busiest);
}

static const struct worker_part memory = {.memory = PART_EXCHANGE,
	.bytes = sizeof(struct exchange_part),
	.make = make_host,
	.free = free_host};
static const struct worker_part servers = {
	.memory = PART_UPSTREAM, .bytes = sizeof(struct upstream_part)};
static const struct worker_part *const parts[] = {&memory, &servers, &site_use_part, NULL};

static void dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct world *world = ctx;

	message_post(&world->hosts[worker].worker->loop, &ticket->message);
}

static const struct world *timed; /* the world whose time the throttles have */

/* Else a verdict would be too old where the machine has stood still. */
static uint64_t timed_boot_ns(void)
{
	return timed->now_ns;
}

/* Time is the test's: what is read as the turn's time stays until it is set again. */
static void set_clock(struct world *world)
{
	for (unsigned i = 0; world->is_alone && i < world->host_count; i++) {
		struct worker *worker = world->hosts[i].worker;
		worker->loop.now_known = true;
		worker->loop.now_ns = worker->wall.turn_ns = world->now_ns;
		worker->loop.now_ms = world->now_ns / CLOCK_NS_PER_MS;
		worker->wall.ns = UINT64_C(1795000000) * CLOCK_NS_PER_S + world->now_ns;
	}
}

static struct site *make_site(struct world *world, int authority)
{
	struct authority *fleet = authority >= 0 ? &world->fakes[authority].authority : NULL;
	struct site *site = site_new(conf_of(fleet ? of_fleet : of_table), ++world->serial,
		world->states, world->node.throttles, world->roster, world->node.stats, fleet);

	assert_non_null(site);
	return site;
}

static void open_throttles(struct world *world)
{
	const struct conf *conf = conf_of(of_table);
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	const struct throttle_table_options options = {
		.callers = 4000, .now_ns = clock_anchor_time(&world->node.anchor, clock_boot_ns())};

	world->node.throttles = throttle_table_open(&options, limits, conf->limit_count, NULL);
	assert_non_null(world->node.throttles);
	free(limits);
	conf_release(conf);
}

void world_open(struct world *world, unsigned hosts, int authority, bool is_alone)
{
	struct node *node = &world->node;
	char why[128];

	memset(world, 0, sizeof(*world));
	world->is_alone = is_alone;
	world->now_ns = UINT64_C(1000000) * CLOCK_NS_PER_MS;
	timed = world;
	fake_clock_boot_ns = is_alone ? timed_boot_ns : NULL;
	world->host_count = hosts;
	for (int i = 0; i < 2; i++) {
		fake_init(&world->fakes[i], AUTHORITY_TIMEOUT_MS);
		world->fakes[i].ctx = world;
	}
	clock_anchor_init(&node->anchor, clock_boot_ns(), clock_wall_ns());
	open_throttles(world);
	store_set_bounds(&node->store, 1 << 20, 0);
	node->shared[NODE_DELAYS] = delay_lines_new(hosts);
	node->queue = queue_create(
		&(struct queue_config){.callbacks = {.ctx = world, .dispatch = dispatch}});
	node->worker_count = hosts;
	world->states = upstream_states_new(node->queue, hosts);
	node->stats = stats_new(hosts);
	world->roster = roster_open(NULL, 1, why, sizeof(why));
	assert_true(node->queue && world->states && node->stats && world->roster);
	world->site = make_site(world, authority);
	site_commit(world->site);
	world->conf = conf_hold(world->site->conf);
	for (unsigned i = 0; i < hosts; i++) {
		struct host *host = &world->hosts[i];
		host->world = world;
		host->worker = worker_new(node, i, world->site, parts);
		assert_non_null(host->worker);
		host->listener.conf = &world->conf->listeners[0];
		host->jobs = calloc(JOBS_MOST, sizeof(*host->jobs));
		assert_non_null(host->jobs);
	}
	set_clock(world);
}

void world_reload(struct world *world, int authority)
{
	struct site *old = world->site;

	world->site = make_site(world, authority);
	site_commit(world->site);
	for (unsigned i = 0; i < world->host_count; i++) {
		struct worker *worker = world->hosts[i].worker;
		site_use_post(worker, site_use_new(worker, world->site));
	}
	if (world->is_alone)
		world_turn(world);
	site_release(old);
}

/* The loop's events do not run, and with them no timer: what others posted is taken here. */
static struct message *take_inbox(struct loop *loop)
{
	struct message *newest = atomic_exchange(&loop->inbox, NULL), *oldest = NULL;

	while (newest) {
		struct message *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

static bool run_host(struct host *host)
{
	struct loop *loop = &host->worker->loop;
	struct message *message = take_inbox(loop);
	bool worked = message || loop_has_ready(loop);

	loop_enter(loop);
	while (message) {
		struct message *next = message->next;
		message->run(message);
		message = next;
	}
	loop_finish_turn(loop);
	loop_enter(NULL);
	return worked;
}

void world_turn(struct world *world)
{
	bool worked;

	do {
		worked = false;
		for (unsigned i = 0; i < world->host_count; i++)
			worked |= run_host(&world->hosts[i]);
	} while (worked);
}

static void fire(struct host *host)
{
	uint64_t now_ms = host->world->now_ns / CLOCK_NS_PER_MS;

	loop_enter(&host->worker->loop);
	for (unsigned i = 0; i < host->job_count; i++) {
		struct exchange *x = host->jobs[i].exchange;
		if (!x || !x->turn.has_deadline || x->turn.deadline.at_ms > now_ms)
			continue;
		deadline_end(&x->turn.deadline);
		x->turn.deadline.passed(&x->turn.deadline);
	}
	loop_enter(NULL);
}

void world_pass(struct world *world, uint64_t ms)
{
	world->now_ns += ms * CLOCK_NS_PER_MS;
	set_clock(world);
	queue_expire(world->node.queue, world->now_ns);
	for (unsigned i = 0; i < world->host_count; i++)
		fire(&world->hosts[i]);
	world_turn(world);
}

void world_check_waits(struct world *world)
{
	for (unsigned h = 0; h < world->host_count; h++) {
		struct host *host = &world->hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			struct exchange *x = host->jobs[i].exchange;
			/* A server's connection, and what a reply waits for, are not the real ones.
			 */
			if (!x || host->jobs[i].in_service || x->state == EXCHANGE_REPLYING)
				continue;
			const char *fault = wait_check_exchange(x);
			if (fault)
				fail_msg("%s: %s", exchange_state_name(x->state), fault);
		}
	}
}

/* Each account was settled if anything may have reached a server, else given back. */
static void check_accounts(struct world *world)
{
	for (unsigned h = 0; h < world->host_count; h++) {
		struct host *host = &world->hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			const struct job *job = &host->jobs[i];
			if (job->account)
				assert_int_equal(job->by->accounts[job->account - 1].state,
					job->answered ? FAKE_SETTLED : FAKE_REFUNDED);
		}
	}
}

void world_close(struct world *world)
{
	struct node *node = &world->node;
	struct queue_counts counts;

	world_turn(world);
	queue_expire(node->queue, world->now_ns + UINT64_C(3600000) * CLOCK_NS_PER_MS);
	queue_count(node->queue, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.in_flight, 0);
	assert_int_equal(counts.queued, 0);
	check_accounts(world);
	for (unsigned i = 0; i < world->host_count; i++) {
		struct host *host = &world->hosts[i];
		assert_int_equal(exchange_part(host->worker)->count, 0);
		assert_int_equal(host->worker->questions.open, 0);
		assert_int_equal(host->live, 0);
		worker_free(host->worker);
		free(host->jobs);
	}
	assert_int_equal(atomic_load(&world->site->holders), 1);
	site_release(world->site);
	conf_release(world->conf);
	upstream_states_free(world->states);
	queue_destroy(node->queue);
	delay_lines_free(node_delays(node));
	roster_close(world->roster);
	stats_free(node->stats);
	throttle_table_close(node->throttles);
	for (int i = 0; i < 2; i++)
		fake_end(&world->fakes[i]);
}
