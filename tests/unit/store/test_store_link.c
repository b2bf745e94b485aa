/* A worker's way to the store: its states, and when it is looked for again. Without servers,
 * Sentinels, clusters, names and timers. */
#include "store/store_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "base/container.h"
#include "fleet/rung.h"

static struct {
	struct loop loop;
	struct store_link store;
	struct conf_fleet conf;
	struct conf_address address;
	unsigned changed, failed, redirected, refused;
	const char *why_refused;
	struct cluster cluster; /* of a Redis Cluster: all that is made of it */
	unsigned opened, asked, sent, flushed;
} world;

/* ---- in the place of servers, Sentinels, clusters, names and timers -------------------------- */

void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server));
void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server))
{
	(void)loop;
	(void)names;
	*server = (struct store_server){.changed = changed};
}

void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where);
void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where)
{
	assert_ptr_equal(where, world.store.where);
	assert_false(server->peer.is_open);
	server->peer.is_open = true;
	snprintf(server->peer.host, sizeof(server->peer.host), "%s", host);
	server->peer.port = port;
	world.opened++;
}

bool __wrap_store_server_send(struct store_server *server, struct store_call *call);
bool __wrap_store_server_send(struct store_server *server, struct store_call *call)
{
	if (!server->is_ready)
		return false;
	call->next = NULL;
	server->unanswered = call;
	world.sent++;
	return true;
}

void __wrap_store_server_flush(struct store_server *server);
void __wrap_store_server_flush(struct store_server *server)
{
	assert_ptr_equal(server, &world.store.server);
	world.flushed++;
}

void __wrap_store_server_close(struct store_server *server);
void __wrap_store_server_close(struct store_server *server)
{
	server->is_ready = server->peer.is_open = false;
	server->unanswered = NULL;
}

void __wrap_store_server_end(struct store_server *server);
void __wrap_store_server_end(struct store_server *server)
{
	__wrap_store_server_close(server);
}

void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why);
void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	if (!peer->is_open)
		return;
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	__wrap_store_server_close(server);
	server->changed(server);
}

void __wrap_sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel));
void __wrap_sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel))
{
	(void)loop;
	(void)names;
	*sentinel = (struct sentinel){.found = found, .failed = failed};
}

void __wrap_sentinel_ask(struct sentinel *sentinel, const struct store_where *where);
void __wrap_sentinel_ask(struct sentinel *sentinel, const struct store_where *where)
{
	assert_ptr_equal(where, world.store.where);
	sentinel->is_asking = true;
	world.asked++;
}

void __wrap_sentinel_close(struct sentinel *sentinel);
void __wrap_sentinel_close(struct sentinel *sentinel)
{
	sentinel->is_asking = false;
}

void __wrap_sentinel_end(struct sentinel *sentinel);
void __wrap_sentinel_end(struct sentinel *sentinel)
{
	(void)sentinel;
}

struct cluster *__wrap_cluster_new(struct loop *loop, struct names *names, uint64_t seed,
	void (*changed)(struct cluster *cluster, const char *why),
	void (*redirected)(struct cluster *cluster, enum redirect_kind kind));
struct cluster *__wrap_cluster_new(struct loop *loop, struct names *names, uint64_t seed,
	void (*changed)(struct cluster *cluster, const char *why),
	void (*redirected)(struct cluster *cluster, enum redirect_kind kind))
{
	(void)loop;
	(void)names;
	(void)seed;
	world.cluster = (struct cluster){.changed = changed, .redirected = redirected};
	return &world.cluster;
}

void __wrap_cluster_free(struct cluster *cluster);
void __wrap_cluster_free(struct cluster *cluster)
{
	(void)cluster;
}

void __wrap_cluster_open(struct cluster *cluster, struct store_where *where);
void __wrap_cluster_open(struct cluster *cluster, struct store_where *where)
{
	assert_ptr_equal(cluster, &world.cluster);
	assert_ptr_equal(where, world.store.where);
	world.opened++;
}

bool __wrap_cluster_has_any(const struct cluster *cluster);
bool __wrap_cluster_has_any(const struct cluster *cluster)
{
	return cluster->count > 0;
}

bool __wrap_cluster_has_all(const struct cluster *cluster);
bool __wrap_cluster_has_all(const struct cluster *cluster)
{
	return cluster->count > 1;
}

bool __wrap_cluster_has(const struct cluster *cluster, uint16_t slot);
bool __wrap_cluster_has(const struct cluster *cluster, uint16_t slot)
{
	return slot < cluster->count;
}

struct names *__wrap_names_new(struct event_base *base);
struct names *__wrap_names_new(struct event_base *base)
{
	(void)base;
	return (struct names *)(void *)&world;
}

void __wrap_names_free(struct names *names);
void __wrap_names_free(struct names *names)
{
	assert_ptr_equal(names, &world);
}

/* ---- what a test does ------------------------------------------------------------------------ */

static void on_changed(struct store_link *store, bool failed)
{
	assert_ptr_equal(store, &world.store);
	world.changed++;
	world.failed += failed;
}

static void on_redirected(struct store_link *store, enum redirect_kind kind)
{
	assert_ptr_equal(store, &world.store);
	assert_int_equal(kind, REDIRECT_ASK);
	world.redirected++;
}

static void on_refused(struct store_link *store, struct trouble_mark *mark, const char *why)
{
	assert_ptr_equal(store, &world.store);
	assert_non_null(mark);
	world.refused++;
	world.why_refused = why;
}

static int begin(void **state)
{
	static char host[] = "h", text[] = "h:7";

	(void)state;
	memset(&world, 0, sizeof(world));
	world.loop.now_known = true;
	world.loop.now_ms = 1000;
	world.address = (struct conf_address){.host = host, .port = 7};
	world.conf.store =
		(struct conf_store){.addresses = &world.address, .count = 1, .text = text};
	assert_true(store_link_init(&world.store, &world.loop, 99, on_changed, on_redirected));
	world.store.refused = on_refused;
	return 0;
}

static int end(void **state)
{
	(void)state;
	store_link_end(&world.store);
	assert_int_equal(world.store.state, STORE_OFF);
	assert_null(world.store.where);
	assert_true(world.store.timer.at_ms == DEADLINE_NEVER);
	return 0;
}

static void open_link(void)
{
	assert_true(store_link_open(&world.store, &world.conf, NULL));
}

static void be_ready(void)
{
	world.store.server.is_ready = true;
	world.store.server.changed(&world.store.server);
}

static void lose(const char *why)
{
	redis_peer_drop(&world.store.server.peer, why);
}

static void run_timer(void)
{
	struct deadline *timer = &world.store.timer;

	assert_true(timer->at_ms != DEADLINE_NEVER);
	if (world.loop.now_ms < timer->at_ms)
		world.loop.now_ms = timer->at_ms;
	timer->at_ms = timer->armed_ms = DEADLINE_NEVER;
	timer->passed(timer);
}

static void find(const char *host, uint16_t port)
{
	struct sentinel *sentinel = &world.store.sentinel;

	snprintf(sentinel->host, sizeof(sentinel->host), "%s", host);
	sentinel->port = port;
	sentinel->is_asking = false;
	sentinel->found(sentinel);
}

static void not_find(void)
{
	struct sentinel *sentinel = &world.store.sentinel;

	snprintf(sentinel->peer.why, sizeof(sentinel->peer.why), "no Sentinel");
	sentinel->is_asking = false;
	sentinel->failed(sentinel);
}

/* ---- one store ------------------------------------------------------------------------------- */

static void it_is_connected_and_looked_for_again(void **state)
{
	(void)state;
	assert_false(store_link_is_of(&world.store, &world.conf, NULL));
	open_link();
	assert_true(store_link_is_of(&world.store, &world.conf, NULL));
	assert_int_equal(world.store.state, STORE_CONNECTING);
	assert_string_equal(world.store.server.peer.host, "h");
	assert_int_equal(world.changed, 0);
	assert_false(store_link_has(&world.store, 1));
	be_ready();
	assert_int_equal(world.store.state, STORE_READY);
	assert_true(store_link_has(&world.store, 1) && store_link_has_all(&world.store));
	assert_int_equal(world.changed, 1);
	lose("gone");
	assert_int_equal(world.store.state, STORE_WAITING);
	assert_false(store_link_has(&world.store, 1) || store_link_has_all(&world.store));
	assert_string_equal(world.store.why, "gone");
	assert_int_equal(world.failed, 1);
	assert_true(world.store.timer.at_ms >= world.loop.now_ms);
	run_timer();
	assert_int_equal(world.store.state, STORE_CONNECTING);
	assert_int_equal(world.opened, 2);
}

/* `changed` is called for each failure; `failed` is set for the first in a row, and for another
 * reason. */
static void a_failure_is_reported_once(void **state)
{
	(void)state;
	open_link();
	lose("no answer");
	assert_int_equal(world.failed, 1);
	run_timer();
	lose("no answer");
	assert_int_equal(world.failed, 1);
	run_timer();
	lose("WRONGPASS");
	assert_int_equal(world.failed, 2);
	assert_int_equal(world.changed, 3);
	assert_string_equal(world.store.why, "WRONGPASS");
	run_timer();
	be_ready();
	lose("WRONGPASS");
	assert_int_equal(world.failed, 3);
}

/* Else two that alternate would be reported without an end. */
static void three_failures_in_a_row_are_reported_at_most(void **state)
{
	(void)state;
	open_link();
	for (unsigned i = 0; i < 5; i++) {
		lose("no answer");
		run_timer();
		lose("refused");
		run_timer();
	}
	assert_int_equal(world.failed, 3);
	be_ready();
	lose("refused");
	run_timer();
	lose("no answer");
	assert_int_equal(world.failed, 5);
}

/* A store that begins again refuses, closes and loads before it says that the password is another:
 * nobody would do anything about it. */
static void one_that_waiting_does_not_change_is_reported_beyond_them(void **state)
{
	static const char *const reasons[] = {"gone", "refused", "LOADING", "WRONGPASS no"};

	(void)state;
	open_link();
	for (unsigned i = 0; i < 4; i++) {
		lose(reasons[i]);
		run_timer();
	}
	assert_int_equal(world.failed, 4);
	for (unsigned i = 0; i < 4; i++) {
		lose(reasons[i]);
		run_timer();
	}
	assert_int_equal(world.failed, 4);
}

static void the_pause_grows_and_begins_anew_when_it_was_ready(void **state)
{
	uint64_t longest = 0, first;

	(void)state;
	open_link();
	lose("refused");
	first = world.store.timer.at_ms - world.loop.now_ms;
	for (int i = 0; i < 20; i++) {
		run_timer();
		lose("refused");
		uint64_t pause = world.store.timer.at_ms - world.loop.now_ms;
		longest = pause > longest ? pause : longest;
	}
	assert_true(longest > 4 * first);
	assert_true(longest < RUNG_RETURN_MS);
	run_timer();
	be_ready();
	lose("gone");
	assert_true(world.store.timer.at_ms - world.loop.now_ms < longest / 2);
}

static void what_is_silent_is_left(void **state)
{
	struct store_call call = {.command = "x", .len = 1};

	(void)state;
	open_link();
	assert_false(store_link_send(&world.store, &call));
	be_ready();
	assert_true(store_link_oldest_of_all_ms(&world.store) == UINT64_MAX);
	world.loop.now_ms = 2000;
	assert_true(store_link_send(&world.store, &call));
	assert_int_equal(store_link_oldest_ms(&world.store, 5), 2000);
	store_link_drop_silent(&world.store, 1999);
	assert_int_equal(world.store.state, STORE_READY);
	store_link_drop_silent(&world.store, 2000);
	assert_int_equal(world.store.state, STORE_WAITING);
	assert_string_equal(world.store.why, "no answer in time");
	store_link_flush(&world.store);
	assert_int_equal(world.flushed, 1);
}

static void one_that_is_closed_is_off(void **state)
{
	(void)state;
	open_link();
	lose("refused");
	store_link_close(&world.store);
	assert_int_equal(world.store.state, STORE_OFF);
	assert_true(world.store.timer.at_ms == DEADLINE_NEVER);
	assert_false(store_link_is_of(&world.store, &world.conf, NULL));
	open_link();
	be_ready();
	assert_int_equal(world.store.state, STORE_READY);
}

static void a_reload_may_change_times(void **state)
{
	(void)state;
	world.conf.store_timeout_ms = 20;
	open_link();
	assert_int_equal(world.store.where->timeout_ms, 20);
	world.conf.store_timeout_ms = 500;
	assert_true(store_link_is_of(&world.store, &world.conf, NULL));
	store_link_take_times(&world.store, &world.conf);
	assert_int_equal(world.store.where->timeout_ms, 500);
}

static void refusals_are_passed_on(void **state)
{
	(void)state;
	open_link();
	be_ready();
	world.store.server.refused(&world.store.server, "NOPERM");
	assert_string_equal(world.why_refused, "NOPERM");
	world.store.refused = NULL;
	world.store.server.refused(&world.store.server, NULL);
	assert_int_equal(world.refused, 1);
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

static void use_sentinels(void)
{
	static char name[] = "it";

	world.conf.sentinel = name;
}

static void sentinels_are_asked_first(void **state)
{
	(void)state;
	use_sentinels();
	open_link();
	assert_int_equal(world.asked, 1);
	assert_int_equal(world.opened, 0);
	find("p", 1);
	assert_string_equal(world.store.server.peer.host, "p");
	be_ready();
	find("p", 1); /* the same */
	assert_int_equal(world.opened, 1);
	find("p", 2);
	assert_int_equal(world.opened, 2);
	assert_int_equal(world.store.server.peer.port, 2);
	assert_int_equal(world.store.state, STORE_CONNECTING);
	assert_true(world.store.timer.at_ms == DEADLINE_NEVER); /* at once, and once */
	be_ready();
	lose("gone");
	run_timer();
	assert_int_equal(world.asked, 2);
}

static void without_a_sentinel_it_waits_unless_the_primary_is_there(void **state)
{
	(void)state;
	use_sentinels();
	open_link();
	not_find();
	assert_int_equal(world.store.state, STORE_WAITING);
	assert_string_equal(world.store.why, "no Sentinel");
	run_timer();
	find("p", 1);
	not_find(); /* while it connects */
	assert_int_equal(world.store.state, STORE_CONNECTING);
	be_ready();
	not_find();
	assert_int_equal(world.store.state, STORE_READY);
	lose("gone");
	find("q", 2); /* while it waits */
	assert_int_equal(world.store.state, STORE_CONNECTING);
	assert_true(world.store.timer.at_ms == DEADLINE_NEVER);
}

/* ---- a cluster ------------------------------------------------------------------------------- */

static void a_cluster_is_ready_with_its_first_primary(void **state)
{
	struct trouble_mark mark = {false};

	(void)state;
	world.conf.cluster = true;
	open_link();
	assert_int_equal(world.store.state, STORE_CONNECTING);
	world.cluster.changed(&world.cluster, "primary p: refused");
	assert_int_equal(world.store.state, STORE_CONNECTING);
	assert_int_equal(world.failed, 1);
	world.cluster.count = 1;
	world.cluster.changed(&world.cluster, NULL);
	assert_int_equal(world.store.state, STORE_READY);
	assert_string_equal(world.store.why, "primary p: refused");
	assert_true(store_link_has(&world.store, 0));
	assert_false(store_link_has(&world.store, 1) || store_link_has_all(&world.store));
	world.cluster.count = 2;
	assert_true(store_link_has(&world.store, 1) && store_link_has_all(&world.store));
	world.cluster.redirected(&world.cluster, REDIRECT_ASK);
	assert_int_equal(world.redirected, 1);
	world.cluster.refused(&world.cluster, &mark, "OOM");
	assert_string_equal(world.why_refused, "OOM");
	world.cluster.count = 0;
	world.cluster.changed(&world.cluster, NULL);
	assert_int_equal(world.store.state, STORE_CONNECTING);
}

/* ---- anything -------------------------------------------------------------------------------- */

/* It always waits for exactly one thing that leads on, and what it says it is, it is. */
static void check_state(bool is_open)
{
	const struct store_link *store = &world.store;
	bool has_timer = store->timer.at_ms != DEADLINE_NEVER;

	assert_int_equal(is_open, store->state != STORE_OFF);
	assert_int_equal(store->state == STORE_READY, store->server.is_ready);
	assert_int_equal(store->state == STORE_WAITING, has_timer);
	if (store->state == STORE_CONNECTING)
		assert_true(store->server.peer.is_open || store->sentinel.is_asking);
	if (store->state == STORE_WAITING)
		assert_true(!store->server.peer.is_open &&
			    store->timer.at_ms < world.loop.now_ms + RUNG_RETURN_MS);
}

static void step(struct random *random, bool *is_open)
{
	struct store_link *store = &world.store;

	switch (random_below(random, 8)) {
	case 0:
		if (!*is_open)
			open_link();
		*is_open = true;
		break;
	case 1:
		if (random_below(random, 8) == 0) {
			store_link_close(store);
			*is_open = false;
		}
		break;
	case 2:
	case 3:
		if (store->server.peer.is_open && !store->server.is_ready)
			be_ready();
		break;
	case 4:
		lose("lost");
		break;
	case 5:
		if (store->timer.at_ms != DEADLINE_NEVER)
			run_timer();
		break;
	case 6:
		if (*is_open && world.conf.sentinel)
			find(random_below(random, 2) ? "p" : "q", 1);
		break;
	default:
		if (*is_open && world.conf.sentinel && store->sentinel.is_asking)
			not_find();
	}
}

static void random_schedules(void **state)
{
	struct random random = random_begin("store_link");
	bool is_open = false;

	(void)state;
	for (int n = 0; n < 20000; n++) {
		if (!is_open && random_below(&random, 2))
			use_sentinels();
		else if (!is_open)
			world.conf.sentinel = NULL;
		unsigned changed = world.changed;
		bool was_ready = store_link_has_all(&world.store);
		bool was_open = is_open;
		step(&random, &is_open);
		check_state(is_open);
		if (was_open && is_open && was_ready != store_link_has_all(&world.store))
			assert_true(world.changed > changed);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_connected_and_looked_for_again),
		TEST(a_failure_is_reported_once),
		TEST(three_failures_in_a_row_are_reported_at_most),
		TEST(one_that_waiting_does_not_change_is_reported_beyond_them),
		TEST(the_pause_grows_and_begins_anew_when_it_was_ready),
		TEST(what_is_silent_is_left),
		TEST(one_that_is_closed_is_off),
		TEST(refusals_are_passed_on),
		TEST(a_reload_may_change_times),
		TEST(sentinels_are_asked_first),
		TEST(without_a_sentinel_it_waits_unless_the_primary_is_there),
		TEST(a_cluster_is_ready_with_its_first_primary),
		TEST(random_schedules),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
