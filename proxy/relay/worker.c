#include "relay/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "relay/downstream.h"
#include "relay/exchange.h"
#include "relay/listener.h"
#include "relay/relay.h"
#include "relay/reload.h"
#include "relay/server_connection.h"

#define SPARE_BLOCKS 64

static _Thread_local struct worker *current;

struct worker *worker_current(void)
{
	return current;
}

uint64_t worker_now_ns_slow(struct worker *worker)
{
	worker->now_ns = clock_monotonic_ns();
	worker->now_ms = worker->now_ns / CLOCK_NS_PER_MS;
	worker->now_known = true;
	return worker->now_ns;
}

uint64_t worker_throttle_ns(const struct worker *worker)
{
	return clock_monotonic_ns() + worker->relay->wall_offset_ns;
}

uint64_t worker_wall_ns(struct worker *worker)
{
	return worker_now_ns(worker) + worker->relay->wall_offset_ns;
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

void worker_bury(struct worker *worker, struct grave *grave,
	void (*free_it)(struct worker *worker, struct grave *grave))
{
	grave->free = free_it;
	grave->next = worker->graves;
	worker->graves = grave;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static struct site_use *site_use_new(struct worker *worker, struct site *site)
{
	struct site_use *use = malloc(sizeof(*use));

	if (use)
		*use = (struct site_use){site_hold(site), worker, 1};
	return use;
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
		if (current_site && site_has_upstream(current_site, upstream))
			continue;
		for (size_t j = 0; j < upstream->server_count; j++)
			server_close_idle(&upstream->servers[j], use->worker);
	}
	site_release(use->site);
	free(use);
}

static void take_site(struct worker *worker)
{
	/* acquire: pairs with the release in worker_site, so the site is seen whole */
	struct site *site =
		atomic_exchange_explicit(&worker->next_site, NULL, memory_order_acquire);

	if (!site)
		return;
	struct site_use *use = site_use_new(worker, site);
	site_release(site);
	if (!use) {
		log_error("worker %u: no memory for the new configuration", worker->index);
		return;
	}
	struct site_use *old = worker->use;
	worker->use = use;
	listeners_update(worker);
	site_use_release(old);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void wake(struct worker *worker)
{
	uint64_t one = 1;
	ssize_t n;

	do {
		n = write(worker->wake_fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
}

void worker_order(struct worker *worker, unsigned orders)
{
	/* release: pairs with the acquire in obey */
	atomic_fetch_or_explicit(&worker->orders, orders, memory_order_release);
	wake(worker);
}

void worker_mail(struct worker *worker, struct ticket *ticket)
{
	if (worker == current) {
		ticket->mail_next = worker->ready;
		worker->ready = ticket;
		return;
	}
	struct ticket *head = atomic_load_explicit(&worker->mail, memory_order_relaxed);
	do {
		ticket->mail_next = head;
		/* release: pairs with the acquire in take_mail, so the link is seen */
	} while (!atomic_compare_exchange_weak_explicit(
		&worker->mail, &head, ticket, memory_order_release, memory_order_relaxed));
	if (!head)
		wake(worker); /* whoever finds it empty wakes; others know somebody did */
}

/* A pile, newest first, is turned so that tickets are seen in the order they were sent. */
static struct ticket *turn_over(struct ticket *pile)
{
	struct ticket *list = NULL;

	while (pile) {
		struct ticket *next = pile->mail_next;
		pile->mail_next = list;
		list = pile;
		pile = next;
	}
	return list;
}

static void deliver(struct ticket *list)
{
	while (list) {
		struct ticket *next = list->mail_next;
		exchange_arrive(
			(struct exchange *)((char *)list - offsetof(struct exchange, ticket)));
		list = next;
	}
}

static void drain(struct worker *worker)
{
	struct downstream *next;

	worker->draining = true;
	listeners_close(worker);
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

static void obey(struct worker *worker)
{
	/* acquire: pairs with the release in worker_order */
	unsigned orders = atomic_exchange_explicit(&worker->orders, 0, memory_order_acquire);

	if (orders & WORKER_SITE) {
		take_site(worker);
		reload_seen(worker);
	}
	if (orders & WORKER_ACCEPT)
		listeners_resume(worker);
	if (orders & WORKER_DRAIN)
		drain(worker);
	if (orders & WORKER_STOP)
		stop(worker);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct worker *worker = arg;
	uint64_t count;

	(void)what;
	/* Emptied before the mail is looked at: what comes later wakes again. */
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	/* acquire: pairs with the release in worker_mail */
	deliver(turn_over(atomic_exchange_explicit(&worker->mail, NULL, memory_order_acquire)));
	obey(worker);
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

struct worker *worker_new(struct relay *relay, unsigned index, struct site *site)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	worker->relay = relay;
	worker->index = index;
	uint64_t seed;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
		seed = clock_wall_ns() + index;
	char id[WORKER_REQUEST_ID_BYTES + 1];
	snprintf(id, sizeof(id), "%016llx%012d", (unsigned long long)seed, 0);
	memcpy(worker->request_id, id, sizeof(worker->request_id));
	worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	worker->base = event_base_new();
	worker->route_scratch = route_scratch_new();
	stream_loop_init(&worker->streams, worker->base);
	worker->unsent_end = &worker->unsent;
	worker->unflushed_end = &worker->unflushed;
	buffer_pool_init(&worker->blocks, site->conf->buffer_bytes, SPARE_BLOCKS);
	if (worker->wake_fd >= 0 && worker->base && worker->route_scratch) {
		worker->use = site_use_new(worker, site);
		worker->wake_event = event_new(
			worker->base, worker->wake_fd, EV_READ | EV_PERSIST, on_wake, worker);
	}
	if (worker->use && worker->wake_event && event_add(worker->wake_event, NULL) == 0)
		return worker;
	log_error("worker %u: %s", index, strerror(errno));
	worker_free(worker);
	return NULL;
}

static void bury_the_dead(struct worker *worker)
{
	while (worker->graves) {
		struct grave *grave = worker->graves;
		worker->graves = grave->next;
		grave->free(worker, grave);
	}
}

/* Whom the callbacks woke and what they made ready, and what that makes ready. */
static void end_turn(struct worker *worker)
{
	while (stream_round(&worker->streams) || worker->ready || worker->unsent ||
		worker->unflushed) {
		struct ticket *list = turn_over(worker->ready);
		worker->ready = NULL;
		deliver(list);
		exchange_send_requests(worker);
		downstream_flush_all(worker);
	}
	bury_the_dead(worker);
}

static bool is_over(const struct worker *worker)
{
	if (!worker->draining || worker->downstreams || worker->ready)
		return false;
	/* Exchanges whose client left may still be under way; they are finished as long as any
	 * client is left anywhere that may be waiting behind them. */
	return worker->exchange_count == 0 || worker->stopping ||
	       atomic_load(&worker->relay->clients) == 0;
}

void *worker_main(void *arg)
{
	struct worker *worker = arg;

	current = worker;
	log_thread_attach(worker->relay->log, worker->index + 1);
	listeners_update(worker);
	while (!is_over(worker)) {
		worker->now_known = false;
		if (event_base_loop(worker->base, EVLOOP_ONCE) < 0) {
			log_error("worker %u: the event loop failed: %s", worker->index,
				strerror(errno));
			break;
		}
		end_turn(worker);
	}
	listeners_close(worker);
	while (worker->orphans)
		exchange_end(worker->orphans);
	end_turn(worker);
	/* The last one lets the main thread end: its loop must notice. */
	atomic_fetch_sub_explicit(&worker->relay->running, 1, memory_order_acq_rel);
	relay_tell_main(worker->relay);
	log_thread_attach(NULL, 0);
	return NULL;
}

void worker_free(struct worker *worker)
{
	current = worker; /* what is released here belonged to that thread */
	listeners_free(worker);
	if (worker->use) {
		worker->use->count = 1; /* an exchange cut by the shutdown may not have let go */
		site_use_release(worker->use);
	}
	bury_the_dead(worker);
	while (worker->spare_exchanges) {
		struct exchange *exchange = worker->spare_exchanges;
		worker->spare_exchanges = exchange->next;
		free(exchange);
	}
	struct site *next =
		atomic_exchange_explicit(&worker->next_site, NULL, memory_order_acquire);
	if (next)
		site_release(next);
	if (worker->wake_event)
		event_free(worker->wake_event);
	if (worker->base)
		event_base_free(worker->base);
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	route_scratch_free(worker->route_scratch);
	buffer_pool_clear(&worker->blocks);
	current = NULL;
	free(worker);
}

void worker_site(struct worker *worker, struct site *site)
{
	/* acq_rel: release pairs with the acquire in take_site; acquire to free one not yet taken
	 */
	struct site *unseen =
		atomic_exchange_explicit(&worker->next_site, site_hold(site), memory_order_acq_rel);

	if (unseen)
		site_release(unseen);
	worker_order(worker, WORKER_SITE);
}
