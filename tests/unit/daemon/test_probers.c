/* Health checks that nodes share, on one of them: what is asked of a store that the test plays. */
#include "daemon/probers.h"

#include "base/clock.h"
#include "daemon/shared_upstream.h"
#include "main_turn.h"
#include "site/site.h"
#include "tests/unit/suite.h"

#define FENCE    700
#define LEASE_MS 60000

#define STORE "[fleet]\nstore = redis://127.0.0.1:5\nnode = me\nlease = 60s\n"
#define SHARED                                                                                     \
	"[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /up\n"            \
	"health_interval = 1s\nhealth_timeout = 1s\nhealth_shared = on\n"

static const struct stage_conf shared_conf = {.more = SHARED STORE};
static const struct stage_conf unshared_conf = {
	.more = "[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = "
		"/up\n" STORE};

static struct world {
	struct stage *stage;
	struct checks *checks;
	struct probers *probers;
	struct server *servers;
	bool is_away;
	bool is_lost_by_flush; /* the connection's end is noticed as it is written to */
	unsigned opened, closed, released;
	struct lock_ask *asked; /* the last; NULL: answered or cancelled */
	enum lock_verb verb;    /* of it, as it was asked */
	uint64_t number;
	char name[LOCK_NAME_BYTES], session[LOCK_SESSION_BYTES], value[SHARED_VALUE_BYTES];
	unsigned asks;
} world;

/* ---- in the place of the store --------------------------------------------------------------- */

bool __wrap_store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store, bool failed),
	void (*redirected)(struct store_link *store, enum redirect_kind kind));
bool __wrap_store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store, bool failed),
	void (*redirected)(struct store_link *store, enum redirect_kind kind))
{
	(void)seed;
	store->loop = loop;
	store->changed = changed;
	store->redirected = redirected;
	return true;
}

void __wrap_store_link_end(struct store_link *store);
void __wrap_store_link_end(struct store_link *store)
{
	assert_int_equal(store->state, STORE_OFF);
}

bool __wrap_store_link_open(
	struct store_link *store, const struct conf_fleet *conf, struct tls_client *tls);
bool __wrap_store_link_open(
	struct store_link *store, const struct conf_fleet *conf, struct tls_client *tls)
{
	(void)tls;
	assert_non_null(conf->store.text);
	store->state = STORE_READY;
	world.opened++;
	return true;
}

void __wrap_store_link_close(struct store_link *store);
void __wrap_store_link_close(struct store_link *store)
{
	store->state = STORE_OFF;
	world.closed++;
}

bool __wrap_store_link_is_of(const struct store_link *store, const struct conf_fleet *conf,
	const struct tls_client *tls);
bool __wrap_store_link_is_of(
	const struct store_link *store, const struct conf_fleet *conf, const struct tls_client *tls)
{
	(void)tls;
	(void)store;
	return conf->store.text != NULL;
}

bool __wrap_store_link_has(const struct store_link *store, uint16_t slot);
bool __wrap_store_link_has(const struct store_link *store, uint16_t slot)
{
	(void)slot;
	return store->state == STORE_READY && !world.is_away;
}

void __wrap_store_link_flush(struct store_link *store);
void __wrap_store_link_flush(struct store_link *store)
{
	if (!world.is_lost_by_flush || store->state != STORE_READY)
		return;
	store->state = STORE_WAITING;
	snprintf(store->why, sizeof(store->why), "connection reset");
	store->changed(store, true);
}

void __wrap_locks_ask(struct locks *locks, struct lock_ask *ask);
void __wrap_locks_ask(struct locks *locks, struct lock_ask *ask)
{
	assert_string_equal(locks->prefix, "sluice");
	if (ask->verb == LOCK_RELEASE && world.asked && world.asked != ask) {
		world.released++; /* of another lock, while a first question is open */
		return;
	}
	assert_null(world.asked); /* one at a time */
	assert_int_equal(ask->kind, LOCK_OF_PROBES);
	assert_true(lock_name_is_valid(ask->name) && lock_session_is_valid(ask->session));
	ask->asked_ms = clock_monotonic_ms();
	world.asked = ask;
	world.verb = ask->verb;
	world.number = ask->number;
	world.asks++;
	snprintf(world.name, sizeof(world.name), "%s", ask->name);
	snprintf(world.session, sizeof(world.session), "%s", ask->session);
	snprintf(world.value, sizeof(world.value), "%.*s", ask->value ? (int)ask->value_len : 0,
		ask->value ? ask->value : "");
}

void __wrap_locks_cancel(struct locks *locks, struct lock_ask *ask);
void __wrap_locks_cancel(struct locks *locks, struct lock_ask *ask)
{
	(void)locks;
	if (world.asked == ask)
		world.asked = NULL;
}

bool __wrap_locks_send(struct locks *locks);
bool __wrap_locks_send(struct locks *locks)
{
	(void)locks;
	return false;
}

static void answer(enum lock_status status, uint64_t fence, const char *session, const char *value)
{
	struct lock_ask *ask = world.asked;
	struct lock_answer answer = {.status = status,
		.fence = fence,
		.left_ms = LEASE_MS,
		.value = value,
		.value_len = strlen(value)};

	assert_non_null(ask);
	snprintf(answer.session, sizeof(answer.session), "%s", session);
	world.asked = NULL;
	ask->done(ask, &answer);
}

static void become_prober(void)
{
	assert_int_equal(world.verb, LOCK_TAKE);
	answer(LOCK_HELD, FENCE, world.session, "");
	assert_int_equal(world.verb, LOCK_USE); /* at once */
	assert_true(world.number == FENCE);
	answer(LOCK_HELD, FENCE, world.session, "");
}

/* ---- the node -------------------------------------------------------------------------------- */

static void begin(const struct stage_conf *conf)
{
	memset(&world, 0, sizeof(world));
	world.stage = stage_begin(conf);
	struct site *site = world.stage->daemon.site;
	world.servers = site->upstreams[1]->servers;
	world.checks = checks_new(&world.stage->daemon.node.loop);
	assert_non_null(world.checks);
	world.probers = probers_new(&world.stage->daemon.node.loop, world.checks, "default");
	assert_non_null(world.probers);
	assert_true(checks_prepare(world.checks, site));
	checks_commit(world.checks, site);
	probers_commit(world.probers, site);
}

static void end(void)
{
	probers_free(world.probers);
	checks_free(world.checks);
	stage_end(world.stage);
}

static void await_probes(unsigned count)
{
	struct loop *loop = &world.stage->daemon.node.loop;

	loop_enter(loop);
	while (world.stage->server_count < count)
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&world.stage->worker->loop);
	main_turn(world.stage);
}

static void await_ask(void)
{
	struct loop *loop = &world.stage->daemon.node.loop;

	loop_enter(loop);
	while (!world.asked)
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&world.stage->worker->loop);
}

static struct probes_sight shown(void)
{
	struct probes_sight sight;

	probes_shown_read(&world.servers[0].state->upstream->probes, &sight);
	return sight;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void unshared_ones_cost_nothing(void **state)
{
	(void)state;
	begin(&unshared_conf);
	assert_int_equal(world.opened, 0);
	assert_int_equal(world.asks, 0);
	await_probes(2);
	assert_int_equal(shown().role, PROBES_UNSHARED);
	end();
	probers_free(NULL);
	probers_leave(NULL);
}

static void the_prober_publishes(void **state)
{
	(void)state;
	begin(&shared_conf);
	main_turn(world.stage);
	assert_int_equal(world.stage->server_count, 0); /* not before the store has spoken */
	assert_int_equal(shown().role, PROBES_WAITING);
	assert_int_equal(strncmp(world.session, "me/", 3), 0);
	assert_int_equal(strncmp(world.name, "health:v:", 9), 0);
	become_prober();
	assert_int_equal(shown().role, PROBES_PROBER);
	assert_string_equal(shown().prober, "me");
	assert_has(world.value, "\nnew ");
	await_probes(2);
	await_ask(); /* a tick's */
	answer(LOCK_HELD, FENCE, world.session, "");
	assert_null(world.asked);
	memory_peer_send(world.stage->servers[0].wire, "HTTP/1.1 200 OK\r\n", 17);
	main_turn(world.stage);
	assert_non_null(world.asked); /* what is news is published at once */
	assert_has(world.value, "1 700 ");
	assert_has(world.value, "\nup ");
	assert_has(world.value, world.stage->servers[0].address);
	assert_has(world.value, " status 200\n");
	end();
}

/* The other node has found one of the servers down, and does not know the other one. */
static void a_follower(void **state)
{
	char value[200];
	uint64_t id;

	(void)state;
	begin(&shared_conf);
	id = server_addresses_sum(&world.servers[0].state->addresses);
	snprintf(value, sizeof(value),
		"1 700 3 60000\ndown 9000 10 %llu 11 7 127.0.0.1:4 timeout\n",
		(unsigned long long)id);
	answer(LOCK_BUSY, 700, "other/1", value);
	assert_true(world.servers[0].state->unhealthy);
	assert_false(world.servers[1].state->unhealthy);
	assert_has(lines.text, "node other probes its servers");
	assert_has(lines.text, "127.0.0.1:4 is unhealthy: timeout (probed by other)");
	assert_int_equal(shown().role, PROBES_FOLLOWER);
	assert_string_equal(shown().prober, "other");
	await_probes(1);
	assert_string_equal(world.stage->servers[0].address, "127.0.0.1:5");
	await_ask();
	snprintf(value, sizeof(value), "1 700 4 60000\nup 0 0 %llu 11 2 127.0.0.1:4 ok\n",
		(unsigned long long)id);
	answer(LOCK_BUSY, 700, "other/1", value);
	assert_false(world.servers[0].state->unhealthy);
	end();
}

/* The same name, other addresses: another server, as far as this node can tell. */
static void addresses_that_differ(void **state)
{
	char value[200];

	(void)state;
	begin(&shared_conf);
	uint64_t id = server_addresses_sum(&world.servers[0].state->addresses);
	snprintf(value, sizeof(value),
		"1 700 3 60000\ndown 9000 10 %llu 11 7 127.0.0.1:4 timeout\n",
		(unsigned long long)id + 1);
	answer(LOCK_BUSY, 700, "other/1", value);
	assert_false(world.servers[0].state->unhealthy);
	await_probes(2);
	end();
}

static void a_session_that_is_over(void **state)
{
	(void)state;
	begin(&shared_conf);
	become_prober();
	await_ask();
	assert_int_equal(world.verb, LOCK_USE);
	answer(LOCK_OVER, FENCE + 1, "other/1", "");
	assert_non_null(world.asked); /* at once: who has it now? */
	assert_int_equal(world.verb, LOCK_TAKE);
	answer(LOCK_BUSY, FENCE + 1, "other/1", "1 701 1 60000\n");
	assert_int_equal(shown().role, PROBES_FOLLOWER);
	assert_true(shown().fence == FENCE + 1);
	end();
}

static void the_end_of_a_prober(void **state)
{
	(void)state;
	begin(&shared_conf);
	become_prober();
	await_ask();
	answer(LOCK_HELD, FENCE, world.session, "");
	probers_leave(world.probers);
	assert_int_equal(world.verb, LOCK_RELEASE);
	assert_true(world.number == FENCE);
	answer(LOCK_FREE, FENCE, "", "");
	await_ask();
	assert_int_equal(world.verb, LOCK_LOOK);
	end();
	assert_int_equal(world.closed, 1);
	begin(&shared_conf); /* the process ends without a word before */
	become_prober();
	end();
	assert_int_equal(world.verb, LOCK_RELEASE);
}

static void the_store_is_away(void **state)
{
	(void)state;
	begin(&shared_conf);
	become_prober();
	world.is_away = true;
	shared_upstream_look(world.probers->first);
	assert_int_equal(shown().role, PROBES_PROBER); /* as long as its lease runs */
	assert_false(shown().is_store_there);
	world.probers->first->probing.held_until_ms = 1;
	shared_upstream_look(world.probers->first);
	assert_int_equal(shown().role, PROBES_ALONE);
	assert_has(lines.text, "the store is away; this node probes its servers for itself");
	assert_lacks(lines.text, "unhealthy");
	end();
}

/* A reload after which nothing is shared: the lock is released, and the store's end at that very
 * moment is no harm. */
static void nothing_is_shared_any_more(void **state)
{
	(void)state;
	begin(&shared_conf);
	become_prober();
	await_ask();
	answer(LOCK_HELD, FENCE, world.session, "");
	main_reload(world.stage, unshared_conf.more);
	world.is_lost_by_flush = true;
	checks_commit(world.checks, world.stage->daemon.site);
	probers_commit(world.probers, world.stage->daemon.site);
	assert_int_equal(world.verb, LOCK_RELEASE);
	assert_int_equal(world.closed, 1);
	assert_has(lines.text, "connection reset (health checks)");
	assert_null(world.probers->first);
	await_probes(2); /* for itself */
	end();
}

/* Another path is another lock; the one before is given up. */
static void another_lock(void **state)
{
	static const char sections[] =
		"[upstream v]\nserver = 127.0.0.1:4\nserver = 127.0.0.1:5\nhealth_path = /other\n"
		"health_interval = 1s\nhealth_timeout = 1s\nhealth_shared = on\n" STORE;
	char name[LOCK_NAME_BYTES];

	(void)state;
	begin(&shared_conf);
	become_prober();
	await_ask();
	answer(LOCK_HELD, FENCE, world.session, "");
	snprintf(name, sizeof(name), "%s", world.name);
	main_reload(world.stage, sections);
	checks_commit(world.checks, world.stage->daemon.site);
	probers_commit(world.probers, world.stage->daemon.site);
	assert_int_equal(world.closed, 0);
	assert_int_equal(world.released, 1);
	assert_string_not_equal(world.name, name);
	assert_int_equal(world.verb, LOCK_TAKE);
	assert_int_equal(shown().role, PROBES_WAITING);
	answer(LOCK_BUSY, 900, "other/1", "1 900 1 60000\n");
	assert_int_equal(shown().role, PROBES_FOLLOWER);
	end();
}

/* A store may say anything: what is shown is printable, and no more is read than there can be. */
static void hostile_values(void **state)
{
	static const char *const sessions[] = {"a\x1b[2J/1", "\"\xff/1", "a\nb/1"};
	char value[2048] = "1 700 1 60000\n", line[64];

	(void)state;
	begin(&shared_conf);
	uint64_t id = server_addresses_sum(&world.servers[0].state->addresses);
	for (size_t i = 0; i < 3; i++) {
		answer(LOCK_BUSY, 700, sessions[i], "");
		assert_string_equal(shown().prober, "");
		await_ask();
	}
	for (unsigned i = 0; i < 64; i++)
		strcat(value, "down 0 0 0 1 1 x x\n");
	snprintf(line, sizeof(line), "down 0 0 %llu 11 2 127.0.0.1:4 no\n", (unsigned long long)id);
	strcat(value, line);
	answer(LOCK_BUSY, 700, "other/1", value);
	assert_false(world.servers[0].state->unhealthy);
	await_probes(2); /* it has not learned of either */
	end();
}

/* What is probed is part of the lock's name, and any upstream has one that a lock may have. */
static void names_of_locks(void **state)
{
	struct conf_upstream conf = {.name = "v", .health_path = "/a", .health_interval_ms = 1};
	char names[6][LOCK_NAME_BYTES], long_name[200];

	(void)state;
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	shared_upstream_name(&conf, names[0]);
	conf.health_path = "/b";
	shared_upstream_name(&conf, names[1]);
	conf.health_host = "h";
	shared_upstream_name(&conf, names[2]);
	conf.health_timeout_ms = 5;
	shared_upstream_name(&conf, names[3]);
	conf.name = long_name;
	shared_upstream_name(&conf, names[4]);
	conf.name = "a b";
	shared_upstream_name(&conf, names[5]);
	for (unsigned i = 0; i < 6; i++) {
		assert_true(lock_name_is_valid(names[i]));
		assert_int_equal(strncmp(names[i], "health:", 7), 0);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(names[i], names[j]);
	}
}

UNIT_SUITE(test_probers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unshared_ones_cost_nothing),
		cmocka_unit_test(the_prober_publishes),
		cmocka_unit_test(a_follower),
		cmocka_unit_test(addresses_that_differ),
		cmocka_unit_test(a_session_that_is_over),
		cmocka_unit_test(the_end_of_a_prober),
		cmocka_unit_test(the_store_is_away),
		cmocka_unit_test(nothing_is_shared_any_more),
		cmocka_unit_test(another_lock),
		cmocka_unit_test(hostile_values),
		cmocka_unit_test(names_of_locks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
