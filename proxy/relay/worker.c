#include "relay/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/container.h"
#include "base/log.h"
#include "relay/downstream.h"
#include "relay/exchange.h"
#include "relay/growth.h"
#include "relay/listener.h"
#include "relay/relay.h"
#include "relay/reload.h"
#include "relay/server_connection.h"
#include "relay/server_pool.h"
#include "relay/wait_check.h"
#include "relay/usage.h"
#include "stats/busiest.h"

#define SPARE_BLOCKS 64

/* Reads the wall clock. Calendar limits follow one that was set; all windows go on undisturbed. */
static uint64_t read_wall(struct relay *relay)
{
	uint64_t boot_ns = clock_boot_ns(), wall_ns = clock_wall_ns();
	int64_t step_ns = clock_anchor_step(&relay->anchor, boot_ns, wall_ns);

	if (step_ns == 0)
		return wall_ns;
	throttle_set_wall(relay->throttles, clock_anchor_time(&relay->anchor, boot_ns), wall_ns);
	log_warn("the system clock was set %s by %lld ms; calendar limits follow it",
		step_ns > 0 ? "forward" : "back",
		(long long)(step_ns > 0 ? step_ns : -step_ns) / (long long)CLOCK_NS_PER_MS);
	return wall_ns;
}

uint64_t worker_read_wall(struct worker *worker)
{
	worker->wall_ns = read_wall(worker->relay);
	worker->wall_read_ns = worker_now_ns(worker);
	return worker->wall_ns;
}

uint64_t worker_throttle_ns(struct worker *worker)
{
	worker_wall_ns(worker); /* so that a step is noticed before a calendar is asked */
	return clock_anchor_time(&worker->relay->anchor, clock_boot_ns());
}

struct slice worker_date(struct worker *worker)
{
	uint64_t second = worker_wall_ns(worker) / CLOCK_NS_PER_S;

	if (second != worker->date_second) {
		time_t time = (time_t)second;
		struct tm tm;
		gmtime_r(&time, &tm);
		strftime(worker->date, sizeof(worker->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		worker->date_second = second;
	}
	return (struct slice){worker->date, 29};
}

/* ---- sites ----------------------------------------------------------------------------------- */

struct site_use *site_use_new(struct worker *worker, struct site *site)
{
	struct site_use *use = malloc(sizeof(*use));

	if (use)
		*use = (struct site_use){site_hold(site), worker, 1};
	return use;
}

void site_use_free_unused(struct site_use *use)
{
	if (!use)
		return;
	site_release(use->site);
	free(use);
}

struct site_use *site_use_hold(struct site_use *use)
{
	use->count++;
	return use;
}

/* The last exchange of an old site is over: what only it had to do with is closed. */
void site_use_release(struct site_use *use)
{
	if (--use->count > 0)
		return;
	struct site *current_site = use->worker->use == use ? NULL : use->worker->use->site;
	for (size_t i = 0; i < use->site->conf->upstream_count; i++) {
		struct upstream *upstream = use->site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server_state *state = upstream->servers[j].state;
			if (!current_site || !site_server_of(current_site, state))
				server_close_idle(state, use->worker);
		}
	}
	site_release(use->site);
	free(use);
}

static void take_site(struct worker *worker)
{
	/* acquire: pairs with the release in worker_site, so the site is seen whole */
	struct site_use *use =
		atomic_exchange_explicit(&worker->next_use, NULL, memory_order_acquire);
	struct site_use *old = worker->use;

	if (!use)
		return;
	worker->use = use;
	listeners_update(worker);
	pool_take_site(worker);
	site_use_release(old);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void drain(struct worker *worker)
{
	struct downstream *next;

	worker->draining = true;
	worker->drain_began_ms = worker_now_ms(worker);
	listeners_retire(worker);
	for (struct downstream *d = worker->downstreams; d; d = next) {
		next = d->next;
		downstream_drain(d);
	}
}

static void stop(struct worker *worker)
{
	worker->draining = worker->stopping = true;
	listeners_close(worker);
	while (worker->downstreams)
		downstream_close(worker->downstreams, "shutdown");
}

static void run_commands(struct message *message)
{
	struct worker *worker = CONTAINER_OF(message, struct worker, command);
	/* acq_rel: acquire pairs with the release in worker_command; the message is free to be
	 * posted again from here on */
	unsigned commands = atomic_exchange_explicit(&worker->commands, 0, memory_order_acq_rel);

	if (commands & WORKER_SITE)
		take_site(worker);
	if (commands & (WORKER_SITE | WORKER_SEEN))
		reload_seen(worker);
	if (commands & WORKER_PING)
		manager_answer(worker);
	if (commands & WORKER_CONNECTIONS)
		pool_run(worker);
	if (commands & WORKER_ACCEPT)
		listeners_resume(worker);
	if (commands & WORKER_HAND_OVER)
		listeners_hand_over(worker);
	if (commands & WORKER_DRAIN)
		drain(worker);
	if (commands & WORKER_STOP)
		stop(worker);
}

void worker_command(struct worker *worker, unsigned commands)
{
	/* acq_rel: release pairs with the acquire in run_commands; acquire so that the message is
	 * posted only after its last run has taken what it was posted for */
	if (atomic_fetch_or_explicit(&worker->commands, commands, memory_order_acq_rel) == 0)
		message_post(&worker->loop, &worker->command);
}

void worker_next_request_id(struct worker *worker)
{
	for (int i = WORKER_REQUEST_ID_BYTES - 1; i >= WORKER_REQUEST_ID_BYTES - 12; i--) {
		char *digit = &worker->request_id[i];
		if (*digit != 'f') {
			*digit = *digit == '9' ? 'a' : (char)(*digit + 1);
			return;
		}
		*digit = '0';
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Writes what the round has composed. */
static bool write_all(struct loop_stage *stage)
{
	struct worker *worker = CONTAINER_OF(stage, struct worker, write_stage);

	if (!worker->unsent && !worker->unflushed)
		return false;
	exchange_send_requests(worker);
	downstream_flush_all(worker);
	return true;
}

struct worker *worker_new(struct relay *relay, unsigned index, struct site *site)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	worker->relay = relay;
	worker->index = index;
	worker->stats = stats_block(relay->stats, index);
	uint64_t seed;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
		seed = clock_wall_ns() + index;
	char id[WORKER_REQUEST_ID_BYTES + 1];
	snprintf(id, sizeof(id), "%016llx%012d", (unsigned long long)seed, 0);
	memcpy(worker->request_id, id, sizeof(worker->request_id));
	int error = loop_init(&worker->loop);
	if (error != 0) {
		log_error("worker %u: %s", index, strerror(error));
		free(worker);
		return NULL;
	}
	stream_loop_init(&worker->streams, &worker->loop);
	worker->checks_waits = wait_check_wanted();
	worker->write_stage.run = write_all;
	loop_add_stage(&worker->loop, LOOP_WRITE, &worker->write_stage);
	worker->command.run = run_commands;
	worker->unsent_end = &worker->unsent;
	worker->unflushed_end = &worker->unflushed;
	buffer_pool_init(&worker->blocks, site->conf->buffer_bytes, SPARE_BLOCKS);
	worker->route_scratch = route_scratch_new();
	worker->usage = usage_counts_of(relay, index);
	worker->busiest = calloc(1, sizeof(*worker->busiest));
	worker->use = site_use_new(worker, site);
	if (worker->route_scratch && worker->busiest && worker->use)
		return worker;
	log_error("worker %u: no memory", index);
	worker_free(worker);
	return NULL;
}

static bool is_over(const struct worker *worker)
{
	if (!worker->draining || worker->downstreams || loop_has_ready(&worker->loop) ||
		!listeners_are_closed(worker))
		return false;
	/* Exchanges whose client left may still be under way; they are finished as long as any
	 * client is left anywhere that may be waiting behind them. */
	return worker->exchange_count == 0 || worker->stopping ||
	       atomic_load(&worker->relay->clients) == 0;
}

void *worker_main(void *arg)
{
	struct worker *worker = arg;

	char name[16]; /* as `top -H` and debuggers show it */

	snprintf(name, sizeof(name), "worker-%u", worker->index);
	pthread_setname_np(pthread_self(), name);
	loop_enter(&worker->loop);
	log_thread_attach(worker->relay->log, worker->index + 1);
	listeners_update(worker);
	pool_take_site(worker);
	while (!is_over(worker)) {
		int error = loop_run_turn(&worker->loop);
		if (error != 0) {
			log_error("worker %u: the event loop failed: %s", worker->index,
				strerror(error));
			break;
		}
		growth_look(worker);
		if (worker->checks_waits)
			wait_check(worker);
	}
	listeners_close(worker);
	while (worker->orphans)
		exchange_end(worker->orphans);
	loop_finish_turn(&worker->loop);
	manager_answer_all(worker);
	/* The last one lets the main thread end: its loop must notice. */
	atomic_fetch_sub_explicit(&worker->relay->running, 1, memory_order_acq_rel);
	relay_tell_main(worker->relay);
	log_thread_attach(NULL, 0);
	return NULL;
}

void worker_free(struct worker *worker)
{
	loop_enter(&worker->loop); /* what is released here belonged to that thread */
	pool_end(worker);
	listeners_free(worker);
	if (worker->use) {
		worker->use->count = 1; /* an exchange cut by the shutdown may not have let go */
		site_use_release(worker->use);
	}
	loop_finish_turn(&worker->loop);
	while (worker->spare_exchanges) {
		struct exchange *exchange = worker->spare_exchanges;
		worker->spare_exchanges = exchange->next;
		free(exchange);
	}
	site_use_free_unused(
		atomic_exchange_explicit(&worker->next_use, NULL, memory_order_acquire));
	loop_end(&worker->loop);
	route_scratch_free(worker->route_scratch);
	buffer_pool_clear(&worker->blocks);
	loop_enter(NULL);
	if (worker->busiest)
		busiest_rows_clear(worker->busiest);
	free(worker->busiest);
	free(worker);
}

void worker_site(struct worker *worker, struct site_use *use)
{
	/* acq_rel: release pairs with the acquire in take_site; acquire to free one not yet taken
	 */
	site_use_free_unused(
		atomic_exchange_explicit(&worker->next_use, use, memory_order_acq_rel));
	worker_command(worker, WORKER_SITE);
}
