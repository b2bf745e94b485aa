/* See keeping.h. */
#include "semaphore/keeping.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/signals.h"
#include "conf/conf.h"
#include "conf/options.h"
#include "conf/same.h"
#include "loop/loop.h"
#include "semaphore/keeper.h"
#include "semaphore/rabbit.h"
#include "site/site.h"
#include "upstream/server_state.h"
#include "upstream/upstream.h"

/* What a thread has to go by. */
struct kept_conf {
	const struct conf *conf; /* a hold; NULL: nothing is to be kept */
	const struct conf_upstream *upstream;
};

/* The last state, for the log. */
struct kept_state {
	struct keeper_view view;
	char why[512];
};

struct kept {
	struct kept *next;
	struct keeping *keeping;
	struct upstream_state *upstream; /* a hold */
	pthread_t thread;
	int wake_fd;            /* its own: for what the main thread has for it */
	struct message message; /* to the main thread: a line for the log */
	struct message left;    /* and: it has left, and is to be freed */

	pthread_mutex_t lock;
	/* guarded by it */
	struct kept_conf coming;
	bool has_coming, ends, is_posted;
	bool leaves, has_left, is_left_posted;
	bool drains; /* its slots are those of `era`; another one has the upstream */
	struct kept_state state;
	struct rabbit *rabbit; /* only its thread changes it, and uses it without the lock */

	/* the thread's */
	struct kept_conf now;
	struct keeper keeper;
	struct run_queue_era era;
	enum semaphore_state told;
	bool has_told, told_refuses, told_barred;

	/* the main thread's */
	struct kept_conf logged;
};

struct keeping {
	struct loop *main;
	struct kept *first;
};

/* At the end, the longest wait for what a broker was asked. */
enum { END_MS = 1000 };

/* ---- what the keeper calls ------------------------------------------------------------------- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void set_rabbit(struct kept *kept, struct rabbit *rabbit)
{
	pthread_mutex_lock(&kept->lock);
	kept->rabbit = rabbit;
	pthread_mutex_unlock(&kept->lock);
}

static struct broker *reach(void *ctx, uint64_t *heartbeat_ms, char *why, size_t why_bytes)
{
	struct kept *kept = ctx;
	const struct conf_semaphore *conf = kept->now.upstream->semaphore;
	struct conf_semaphore quick = *conf;
	char purpose[160];

	quick.timeout_ms = lesser(conf->timeout_ms, KEEPER_CONNECT_MS);
	snprintf(purpose, sizeof(purpose), "sluice upstream %s, process %ld",
		kept->now.upstream->name, (long)getpid());
	set_rabbit(kept, rabbit_open(&quick, purpose, why, why_bytes));
	if (!kept->rabbit)
		return NULL;
	*heartbeat_ms = rabbit_heartbeat_ms(kept->rabbit);
	if (*heartbeat_ms == 0)
		*heartbeat_ms = conf->heartbeat_ms;
	return rabbit_broker(kept->rabbit);
}

static void settle_in(void *ctx)
{
	struct kept *kept = ctx;

	rabbit_set_timeout(kept->rabbit, kept->now.upstream->semaphore->timeout_ms);
}

static void leave(void *ctx)
{
	struct kept *kept = ctx;

	struct rabbit *rabbit = kept->rabbit;

	set_rabbit(kept, NULL);
	rabbit_set_timeout(rabbit, END_MS);
	rabbit_close(rabbit);
}

static uint64_t now_ns(void *ctx)
{
	(void)ctx;
	return clock_monotonic_ns();
}

static uint32_t random_below(void *ctx, uint32_t bound)
{
	uint32_t random = 0;

	(void)ctx;
	if (bound == 0 || getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return 0;
	return random % bound;
}

/* With the lock: what is in flight by its slots, while it drains. */
static void read_era(struct kept *kept, struct run_queue_use *use)
{
	*use = (struct run_queue_use){
		.in_flight = run_queue_era_in_flight(kept->upstream->run_queue, &kept->era)};
}

/* The lock is held meanwhile: once it drains, the bound is another's. */
static void set(void *ctx, const struct keeper_bound *bound, struct run_queue_use *use)
{
	struct kept *kept = ctx;
	struct upstream_state *upstream = kept->upstream;

	pthread_mutex_lock(&kept->lock);
	if (kept->drains) {
		read_era(kept, use);
	} else {
		/* relaxed: for people */
		atomic_store_explicit(&upstream->semaphore.shown.refuses, bound->slots.refuses,
			memory_order_relaxed);
		semaphore_slots_set(&upstream->semaphore, bound->since_ns, bound->slots.until_ns);
		run_queue_set_slots(upstream->run_queue, &bound->slots, use, clock_monotonic_ns());
	}
	pthread_mutex_unlock(&kept->lock);
}

static void read_use(void *ctx, struct run_queue_use *use)
{
	struct kept *kept = ctx;

	pthread_mutex_lock(&kept->lock);
	if (kept->drains)
		read_era(kept, use);
	else
		run_queue_read_use(kept->upstream->run_queue, use);
	pthread_mutex_unlock(&kept->lock);
}

static const struct keeper_calls calls = {
	reach, settle_in, leave, now_ns, random_below, set, read_use};

/* ---- what is shown --------------------------------------------------------------------------- */

static void show(struct kept *kept, const struct keeper_view *view)
{
	struct semaphore_shown *shown = &kept->upstream->semaphore.shown;

	/* relaxed: for people, each by itself */
	atomic_store_explicit(&shown->state, view->state, memory_order_relaxed);
	atomic_store_explicit(&shown->bound, view->bound, memory_order_relaxed);
	atomic_store_explicit(&shown->held, view->held, memory_order_relaxed);
	atomic_store_explicit(&shown->wanted, view->wanted, memory_order_relaxed);
	atomic_store_explicit(&shown->max, view->max, memory_order_relaxed);
	atomic_store_explicit(&shown->nodes, view->nodes, memory_order_relaxed);
	atomic_store_explicit(&shown->messages, view->messages, memory_order_relaxed);
}

/* A line in the log when the state is another one; that a connection is made at once is none. */
static void report(struct kept *kept)
{
	struct keeper_view view;

	keeper_look(&kept->keeper, &view);
	pthread_mutex_lock(&kept->lock);
	bool drains = kept->drains;
	if (!drains)
		show(kept, &view);
	pthread_mutex_unlock(&kept->lock);
	if (drains)
		return;
	if (view.state == SEMAPHORE_CONNECTING ||
		(kept->has_told && view.state == kept->told && view.refuses == kept->told_refuses &&
			view.is_barred == kept->told_barred))
		return;
	kept->has_told = true;
	kept->told = view.state;
	kept->told_refuses = view.refuses;
	kept->told_barred = view.is_barred;
	pthread_mutex_lock(&kept->lock);
	kept->state.view = view;
	snprintf(kept->state.why, sizeof(kept->state.why), "%s", kept->keeper.why);
	bool posts = !kept->is_posted;
	kept->is_posted = true;
	pthread_mutex_unlock(&kept->lock);
	if (posts)
		message_post(kept->keeping->main, &kept->message);
}

static void log_away(const struct conf_upstream *upstream, const struct kept_state *state)
{
	if (state->view.refuses)
		log_warn("upstream %s: semaphore %s: the broker is away: %s; requests are refused",
			upstream->name, upstream->semaphore->name, state->why);
	else
		log_warn("upstream %s: semaphore %s: the broker is away: %s; %u at once by this "
			 "node's share",
			upstream->name, upstream->semaphore->name, state->why, state->view.bound);
}

static void log_held(const struct conf_upstream *upstream, const struct kept_state *state)
{
	if (state->view.is_barred)
		log_warn("upstream %s: semaphore %s: no slot can be held: %s", upstream->name,
			upstream->semaphore->name, state->why);
	else if (state->view.refuses)
		log_warn("upstream %s: semaphore %s: the broker has no slots; requests are refused "
			 "until sluice semaphore create %s creates some",
			upstream->name, upstream->semaphore->name, upstream->semaphore->name);
	else
		log_info("upstream %s: semaphore %s: taking slots, of %u for %u node%s",
			upstream->name, upstream->semaphore->name, state->view.max,
			state->view.nodes, state->view.nodes == 1 ? "" : "s");
}

/* On the main thread. */
static void write_line(struct message *message)
{
	struct kept *kept = CONTAINER_OF(message, struct kept, message);
	const struct conf_upstream *upstream = kept->logged.upstream;
	struct kept_state state;

	pthread_mutex_lock(&kept->lock);
	kept->is_posted = false;
	state = kept->state;
	pthread_mutex_unlock(&kept->lock);
	if (!upstream)
		return; /* it has no semaphore any more */
	switch (state.view.state) {
	case SEMAPHORE_AWAY:
		log_away(upstream, &state);
		break;
	case SEMAPHORE_HOLDS:
		log_held(upstream, &state);
		break;
	case SEMAPHORE_RETURNS:
		log_info("upstream %s: semaphore %s: the broker is back", upstream->name,
			upstream->semaphore->name);
		break;
	case SEMAPHORE_NONE:
	case SEMAPHORE_CONNECTING:
	case SEMAPHORE_STATES:
		break;
	}
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct keeper_config config_of(const struct conf_upstream *upstream)
{
	return (struct keeper_config){
		.name = upstream->semaphore->name,
		.size = upstream->semaphore->size,
		.nodes = upstream->semaphore->nodes,
		.idle_ms = upstream->slots.idle_ms,
		.refuses = upstream->slots.down == CONF_SEMAPHORE_DOWN_REFUSE,
	};
}

/* Does the connection stay? It ends only for what it was made with, as its slots end with it, also
 * those of what is in flight. */
static bool is_same_connection(const struct conf_upstream *a, const struct conf_upstream *b)
{
	struct conf_semaphore other = *b->semaphore;

	other.size = a->semaphore->size;
	other.nodes = a->semaphore->nodes;
	other.timeout_ms = a->semaphore->timeout_ms;
	return strcmp(a->semaphore->name, other.name) == 0 &&
	       section_same(&option_sections[SECTION_SEMAPHORE], a->semaphore, &other);
}

/* The connection ends. Of what drains something may still be in flight, if its slots were lost. */
static void stop(struct kept *kept)
{
	keeper_end(&kept->keeper);
	pthread_mutex_lock(&kept->lock);
	if (!kept->drains) {
		semaphore_slots_set(&kept->upstream->semaphore, 0, 0);
		/* relaxed: for people */
		atomic_store_explicit(&kept->upstream->semaphore.shown.state, SEMAPHORE_NONE,
			memory_order_relaxed);
	}
	pthread_mutex_unlock(&kept->lock);
}

/* Takes what the main thread has left. */
static void change(struct kept *kept, const struct kept_conf *coming)
{
	struct kept_conf before = kept->now;

	kept->now = *coming;
	if (!coming->conf) {
		if (before.conf)
			stop(kept);
	} else {
		struct keeper_config config = config_of(coming->upstream);
		if (!before.conf) {
			keeper_begin(&kept->keeper, &calls, kept, &config);
			kept->has_told = false;
		} else {
			keeper_configure(&kept->keeper, &config);
			if (kept->rabbit)
				settle_in(kept);
		}
	}
	if (before.conf)
		conf_release(before.conf);
}

/* False: the thread is to end. */
static bool take_coming(struct kept *kept)
{
	struct kept_conf coming;
	bool has_coming, ends, drains;

	pthread_mutex_lock(&kept->lock);
	has_coming = kept->has_coming;
	coming = kept->coming;
	kept->has_coming = false;
	ends = kept->ends;
	drains = kept->drains;
	pthread_mutex_unlock(&kept->lock);
	if (has_coming)
		change(kept, &coming);
	if (drains)
		keeper_drain(&kept->keeper);
	return !ends;
}

/* However often it was woken. It fails when it was not. */
static void fall_asleep(int wake_fd)
{
	uint64_t awake;

	if (read(wake_fd, &awake, sizeof(awake)) < 0)
		return;
}

static void wait_until(struct kept *kept, uint64_t at_ns)
{
	struct semaphore_slots *slots = &kept->upstream->semaphore;
	const int wakes[RABBIT_WAKES] = {kept->wake_fd, kept->keeper.drains ? -1 : slots->wake_fd};
	uint64_t now = clock_monotonic_ns();
	uint64_t ms = at_ns > now ? (at_ns - now) / CLOCK_NS_PER_MS + 1 : 0;

	if (!rabbit_wait(kept->rabbit, wakes, ms))
		keeper_lost(&kept->keeper, rabbit_broker(kept->rabbit)->why);
	fall_asleep(kept->wake_fd);
	if (wakes[1] < 0)
		return;
	fall_asleep(wakes[1]);
	/* It may have been for the one that has the upstream now. */
	pthread_mutex_lock(&kept->lock);
	bool drains = kept->drains;
	pthread_mutex_unlock(&kept->lock);
	if (drains)
		semaphore_slots_wake(slots);
}

/* It drains, and has nothing more to do; or its upstream is in the file no more, and nothing is in
 * flight there or can come. */
static bool is_to_leave(struct kept *kept)
{
	pthread_mutex_lock(&kept->lock);
	bool leaves = kept->leaves && !kept->has_left, drains = kept->drains;
	pthread_mutex_unlock(&kept->lock);
	if (drains)
		return !kept->now.conf || keeper_is_drained(&kept->keeper);
	return leaves && upstream_state_is_last(kept->upstream);
}

/* The connection ends, and the main thread is to free it. */
static void leave_now(struct kept *kept)
{
	change(kept, &(struct kept_conf){NULL, NULL});
	pthread_mutex_lock(&kept->lock);
	/* It may be in the file again by now. */
	kept->has_left = kept->leaves || kept->drains;
	bool posts = kept->has_left && !kept->is_left_posted;
	kept->is_left_posted |= posts;
	pthread_mutex_unlock(&kept->lock);
	if (posts)
		message_post(kept->keeping->main, &kept->left);
}

static void *keep(void *arg)
{
	struct kept *kept = arg;

	while (take_coming(kept)) {
		uint64_t next = UINT64_MAX;
		if (is_to_leave(kept))
			leave_now(kept);
		if (kept->now.conf) {
			next = keeper_step(&kept->keeper);
			report(kept);
		}
		wait_until(kept, next);
	}
	change(kept, &(struct kept_conf){NULL, NULL});
	return NULL;
}

/* ---- the main thread ------------------------------------------------------------------------- */

struct keeping *keeping_new(struct loop *main)
{
	struct keeping *keeping = calloc(1, sizeof(*keeping));

	if (keeping)
		keeping->main = main;
	return keeping;
}

static void wake(const struct kept *kept)
{
	const uint64_t one = 1;

	/* It fails only when it is awake for long. */
	if (write(kept->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* The thread goes by it from now on. */
static void give(struct kept *kept, const struct conf *conf, const struct conf_upstream *upstream)
{
	struct kept_conf unused = {NULL, NULL};

	pthread_mutex_lock(&kept->lock);
	if (kept->has_coming)
		unused = kept->coming;
	kept->coming = (struct kept_conf){conf_hold(conf), upstream};
	kept->has_coming = true;
	kept->leaves = kept->has_left = false;
	pthread_mutex_unlock(&kept->lock);
	if (unused.conf)
		conf_release(unused.conf);
	if (kept->logged.conf)
		conf_release(kept->logged.conf);
	kept->logged = (struct kept_conf){conf_hold(conf), upstream};
	wake(kept);
}

/* It keeps slots as long as something is in flight at its upstream or waits for it. */
static void leave_slowly(struct kept *kept)
{
	pthread_mutex_lock(&kept->lock);
	kept->leaves = true;
	pthread_mutex_unlock(&kept->lock);
	wake(kept);
}

/* Its slots are for what is in flight alone, from now on, whatever its thread is waiting for.
 * `until_ns`: of those to come, until they are there. */
static void begin_drain(struct kept *kept, uint64_t until_ns)
{
	pthread_mutex_lock(&kept->lock);
	kept->drains = true;
	run_queue_begin_era(kept->upstream->run_queue, &kept->era);
	/* Then: what was placed before that and not sent begins again. */
	semaphore_slots_set(&kept->upstream->semaphore, clock_monotonic_ns(), until_ns);
	/* relaxed: for people */
	atomic_store_explicit(&kept->upstream->semaphore.shown.state,
		until_ns == 0 ? SEMAPHORE_NONE : SEMAPHORE_CONNECTING, memory_order_relaxed);
	pthread_mutex_unlock(&kept->lock);
	wake(kept);
}

/* Its thread has ended. */
static void free_kept(struct kept *kept)
{
	if (kept->has_coming && kept->coming.conf)
		conf_release(kept->coming.conf);
	if (kept->logged.conf)
		conf_release(kept->logged.conf);
	if (kept->drains)
		run_queue_end_era(kept->upstream->run_queue, &kept->era);
	upstream_state_release(kept->upstream);
	pthread_mutex_destroy(&kept->lock);
	if (kept->wake_fd >= 0)
		close(kept->wake_fd);
	free(kept);
}

static void end(struct kept *kept)
{
	pthread_mutex_lock(&kept->lock);
	kept->ends = true;
	pthread_mutex_unlock(&kept->lock);
	wake(kept);
}

/* On the main thread. Its own waits for nothing any more, unless its upstream has come back. */
static void take_left(struct message *message)
{
	struct kept *kept = CONTAINER_OF(message, struct kept, left);
	struct kept **at = &kept->keeping->first;

	pthread_mutex_lock(&kept->lock);
	bool stays = !kept->has_left, waits = !stays && kept->is_posted; /* for its line */
	kept->is_left_posted = waits;
	pthread_mutex_unlock(&kept->lock);
	if (waits)
		message_post(kept->keeping->main, &kept->left);
	if (stays || waits)
		return;
	while (*at != kept)
		at = &(*at)->next;
	*at = kept->next;
	end(kept);
	pthread_join(kept->thread, NULL);
	free_kept(kept);
}

static int start(struct kept *kept)
{
	sigset_t all, before;
	int error;

	signals_fill_but_faults(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&kept->thread, NULL, keep, kept);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void begin(struct keeping *keeping, const struct conf *conf, struct upstream *upstream)
{
	struct kept *kept = calloc(1, sizeof(*kept));
	int error = kept ? 0 : ENOMEM;

	if (kept) {
		kept->keeping = keeping;
		kept->upstream = upstream_state_hold(upstream->state);
		kept->message.run = write_line;
		kept->left.run = take_left;
		pthread_mutex_init(&kept->lock, NULL);
		kept->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		error = kept->wake_fd < 0 ? errno : 0;
		give(kept, conf, upstream->conf);
		if (error == 0)
			error = start(kept);
	}
	if (error == 0) {
		kept->next = keeping->first;
		keeping->first = kept;
		return;
	}
	log_error("upstream %s: semaphore %s: can't start its thread: %s; requests wait until a "
		  "reload",
		upstream->conf->name, upstream->conf->semaphore->name, strerror(error));
	if (kept)
		free_kept(kept);
}

/* The one that has the upstream. NULL: none. */
static struct kept *find(const struct keeping *keeping, const struct upstream_state *state)
{
	struct kept *kept = keeping->first;

	while (kept && (kept->upstream != state || kept->drains))
		kept = kept->next;
	return kept;
}

static void commit(struct kept *kept, const struct site *site)
{
	struct upstream *upstream = site_upstream_of(site, kept->upstream);

	if (!upstream)
		leave_slowly(kept);
	else if (!upstream->conf->semaphore)
		begin_drain(kept, 0);
	else if (is_same_connection(kept->logged.upstream, upstream->conf))
		give(kept, site->conf, upstream->conf);
	else
		begin_drain(kept, 1);
}

void keeping_commit(struct keeping *keeping, const struct site *site)
{
	for (struct kept *kept = keeping->first; kept; kept = kept->next)
		if (!kept->drains)
			commit(kept, site);
	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		if (upstream->conf->semaphore && !find(keeping, upstream->state))
			begin(keeping, site->conf, upstream);
	}
}

/* Its thread ends; where it waits for a broker, it does so no longer than until then. */
static void join_until(struct kept *kept, const struct timespec *until)
{
	if (pthread_timedjoin_np(kept->thread, NULL, until) == 0)
		return;
	pthread_mutex_lock(&kept->lock);
	if (kept->rabbit)
		rabbit_interrupt(kept->rabbit);
	pthread_mutex_unlock(&kept->lock);
	pthread_join(kept->thread, NULL);
}

void keeping_free(struct keeping *keeping)
{
	struct timespec until;

	if (!keeping)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_MS / 1000;
	for (struct kept *kept = keeping->first; kept; kept = kept->next)
		end(kept);
	while (keeping->first) {
		struct kept *kept = keeping->first;
		keeping->first = kept->next;
		join_until(kept, &until);
		free_kept(kept);
	}
	free(keeping);
}
