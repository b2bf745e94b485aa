/* Calls find the primaries of their slots, and follow redirects: without servers or a scout. */
#include "store/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"

enum { SERVERS = 320, SENT = 512, CALLS = 8, HALF = SLOTS / 2 };

struct call {
	struct store_call call;
	unsigned answered;
	bool has;
};

static struct {
	struct loop loop;
	struct cluster *cluster;
	struct store_where where;
	struct store_server *servers[SERVERS]; /* in the order in which they were opened first */
	unsigned server_count, opened, asked;
	unsigned changed, redirected[REDIRECT_DOWN + 1];
	char why[256];
	struct store_call *sent[SENT];
	struct store_server *to[SENT];
	unsigned sent_count;
	struct scout *scout;
	struct call calls[CALLS];
	unsigned call_count;
} world;

/* ---- in the place of servers and the scout --------------------------------------------------- */

void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server));
void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server))
{
	(void)loop;
	(void)names;
	*server = (struct store_server){.changed = changed};
	server->unanswered_end = &server->unanswered;
	assert_true(world.server_count < SERVERS);
	world.servers[world.server_count++] = server;
}

void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where);
void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where)
{
	assert_ptr_equal(where, &world.where);
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
	assert_true(world.sent_count < SENT);
	world.to[world.sent_count] = server;
	world.sent[world.sent_count++] = call;
	call->next = NULL;
	*server->unanswered_end = call;
	server->unanswered_end = &call->next;
	return true;
}

void __wrap_store_server_flush(struct store_server *server);
void __wrap_store_server_flush(struct store_server *server)
{
	(void)server;
}

/* All that is unanswered gets NULL. */
static void fail_calls(struct store_server *server)
{
	struct store_call *all = server->unanswered, *next;

	server->unanswered = NULL;
	server->unanswered_end = &server->unanswered;
	for (struct store_call *call = all; call; call = next) {
		next = call->next;
		call->answered(call, NULL, 0);
	}
}

void __wrap_store_server_end(struct store_server *server);
void __wrap_store_server_end(struct store_server *server)
{
	server->is_ready = server->peer.is_open = false;
	fail_calls(server);
	for (unsigned i = 0; i < world.server_count; i++) {
		if (world.servers[i] == server)
			world.servers[i] = NULL;
	}
}

void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why);
void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);

	snprintf(peer->why, sizeof(peer->why), "%s", why);
	server->is_ready = peer->is_open = false;
	struct store_call *all = server->unanswered;
	server->unanswered = NULL;
	server->unanswered_end = &server->unanswered;
	server->changed(server);
	server->unanswered = all;
	fail_calls(server);
}

void __wrap_scout_init(struct scout *scout, struct loop *loop, struct names *names, unsigned first,
	void (*found)(struct scout *scout), void (*failed)(struct scout *scout));
void __wrap_scout_init(struct scout *scout, struct loop *loop, struct names *names, unsigned first,
	void (*found)(struct scout *scout), void (*failed)(struct scout *scout))
{
	(void)loop;
	(void)names;
	(void)first;
	*scout = (struct scout){.found = found, .failed = failed};
	world.scout = scout;
}

void __wrap_scout_ask(struct scout *scout, const struct store_where *where);
void __wrap_scout_ask(struct scout *scout, const struct store_where *where)
{
	assert_ptr_equal(where, &world.where);
	scout->is_asking = true;
	world.asked++;
}

void __wrap_scout_close(struct scout *scout);
void __wrap_scout_close(struct scout *scout)
{
	scout->is_asking = false;
	cluster_map_clear(&scout->map);
}

void __wrap_scout_end(struct scout *scout);
void __wrap_scout_end(struct scout *scout)
{
	__wrap_scout_close(scout);
}

/* ---- what a test does ------------------------------------------------------------------------ */

static void on_changed(struct cluster *cluster, const char *why)
{
	(void)cluster;
	world.changed++;
	if (why)
		snprintf(world.why, sizeof(world.why), "%s", why);
}

static void on_redirected(struct cluster *cluster, enum redirect_kind kind)
{
	(void)cluster;
	world.redirected[kind]++;
}

static void on_answered(struct store_call *store_call, const char *bytes, size_t len)
{
	struct call *call = CONTAINER_OF(store_call, struct call, call);

	(void)len;
	call->answered++;
	call->has = bytes != NULL;
}

/* It lasts until the next test, as the end of this one answers it. */
static struct call *call_of(uint16_t slot)
{
	assert_true(world.call_count < CALLS);
	struct call *call = &world.calls[world.call_count++];
	*call = (struct call){.call = store_call_of("x", 1, slot, on_answered)};
	return call;
}

static void set_time(uint64_t now_ms)
{
	world.loop.now_known = true;
	world.loop.now_ms = now_ms;
}

static void run(struct deadline *deadline)
{
	assert_true(deadline->at_ms != DEADLINE_NEVER);
	if (world.loop.now_ms < deadline->at_ms)
		set_time(deadline->at_ms);
	deadline_clear(deadline);
	deadline->passed(deadline);
}

/* The scout has found: slots up to `end` are a's, the others b's. */
static void find(unsigned end)
{
	struct cluster_map *map = &world.scout->map;

	assert_true(world.scout->is_asking);
	cluster_map_clear(map);
	map->nodes = calloc(2, sizeof(*map->nodes));
	assert_non_null(map->nodes);
	map->count = map->size = 2;
	map->nodes[0] = (struct cluster_node){"a", 1};
	map->nodes[1] = (struct cluster_node){"b", 2};
	for (unsigned slot = 0; slot < SLOTS; slot++)
		map->owners[slot] = slot < end ? 1 : 2;
	world.scout->is_asking = false;
	world.scout->found(world.scout);
}

static void make_ready(unsigned n)
{
	assert_true(world.servers[n] && world.servers[n]->peer.is_open);
	world.servers[n]->is_ready = true;
	world.servers[n]->changed(world.servers[n]);
}

/* A node's error in place of the answer to the oldest call. Was it taken back? */
static bool redirect(unsigned n, const char *error)
{
	struct store_server *server = world.servers[n];
	struct store_call *call = server->unanswered;

	assert_non_null(call);
	server->unanswered = call->next;
	if (!server->unanswered)
		server->unanswered_end = &server->unanswered;
	bool is_taken = server->cluster->redirected(server, call, error);
	if (!is_taken)
		call->answered(call, NULL, 0);
	return is_taken;
}

static void answer(unsigned n)
{
	struct store_server *server = world.servers[n];
	struct store_call *call = server->unanswered;

	assert_non_null(call);
	server->unanswered = call->next;
	if (!server->unanswered)
		server->unanswered_end = &server->unanswered;
	call->answered(call, "x", 1);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	assert_int_equal(loop_init(&world.loop), 0);
	set_time(5000);
	world.where.timeout_ms = 1000;
	world.where.is_cluster = true;
	world.cluster = cluster_new(&world.loop, NULL, 77, on_changed, on_redirected);
	assert_non_null(world.cluster);
	cluster_open(world.cluster, &world.where);
	assert_int_equal(world.asked, 1);
	return 0;
}

static int begin_ready(void **state)
{
	begin(state);
	find(HALF);
	make_ready(0);
	make_ready(1);
	assert_true(cluster_has_all(world.cluster));
	run(&world.cluster->timer); /* as not all were ready then */
	find(HALF);
	assert_true(world.cluster->timer.at_ms == DEADLINE_NEVER);
	world.asked = 1;
	set_time(5000);
	return 0;
}

static int end(void **state)
{
	(void)state;
	cluster_free(world.cluster);
	for (unsigned i = 0; i < world.server_count; i++)
		assert_null(world.servers[i]);
	loop_end(&world.loop);
	return 0;
}

/* ---- hundreds of them ------------------------------------------------------------------------ */

/* The scout has found so many primaries, with a slot each in turn. */
static void find_many(unsigned count)
{
	struct cluster_map *map = &world.scout->map;

	assert_true(world.scout->is_asking);
	cluster_map_clear(map);
	map->nodes = calloc(count, sizeof(*map->nodes));
	assert_non_null(map->nodes);
	map->count = map->size = count;
	for (unsigned i = 0; i < count; i++) {
		snprintf(map->nodes[i].host, sizeof(map->nodes[i].host), "p%u", i);
		map->nodes[i].port = 7;
	}
	for (unsigned slot = 0; slot < SLOTS; slot++)
		map->owners[slot] = (uint16_t)(1 + slot % count);
	world.scout->is_asking = false;
	world.scout->found(world.scout);
}

static unsigned count_connecting(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < world.server_count; i++)
		count += world.servers[i] && world.servers[i]->peer.is_open &&
			 !world.servers[i]->is_ready;
	return count;
}

static void many_are_connected_in_steps(void **state)
{
	struct call *call = call_of(299), *lost = call_of(298);

	(void)state;
	find_many(300);
	assert_int_equal(world.opened, 32);
	assert_true(cluster_has(world.cluster, 299));
	assert_true(cluster_send(world.cluster, &call->call)); /* it waits for its turn */
	assert_true(cluster_send(world.cluster, &lost->call));
	assert_int_equal(world.opened, 32);
	for (unsigned n = 0; n < 300; n++) {
		assert_true(count_connecting() <= 32);
		assert_int_equal(world.opened, n + 32 < 300 ? n + 32 : 300);
		if (n == 298)
			redis_peer_drop(&world.servers[n]->peer, "away");
		else
			make_ready(n);
	}
	assert_ptr_equal(world.sent[0], &call->call);
	assert_int_equal(lost->answered, 1);
	assert_false(cluster_has_all(world.cluster));
	answer(299);
}

/* Those that do not answer hold nobody else up for longer than their first connection. */
static void those_that_are_lost_take_no_place(void **state)
{
	(void)state;
	find_many(300);
	for (unsigned n = 0; n < 100; n++)
		redis_peer_drop(&world.servers[n]->peer, "no answer to a connection");
	assert_int_equal(world.opened, 132);
	for (unsigned n = 0; n < 100; n++) { /* again, each by its own timer */
		struct cluster_primary *primary = world.cluster->primaries[n];
		run(&primary->timer);
	}
	assert_int_equal(world.opened, 232);
	for (unsigned n = 100; n < 300; n++)
		make_ready(n);
	assert_true(cluster_has(world.cluster, 299));
	assert_false(cluster_has(world.cluster, 0));
}

/* ---- finding it ------------------------------------------------------------------------------ */

static void primaries_are_connected(void **state)
{
	struct call *early = call_of(1), *one = call_of(1), *two = call_of(HALF);

	(void)state;
	assert_false(cluster_has(world.cluster, 1));
	assert_false(cluster_send(world.cluster, &early->call));
	find(HALF);
	assert_int_equal(world.opened, 2);
	assert_false(cluster_has_any(world.cluster));
	/* calls wait for the first connection */
	assert_true(cluster_has(world.cluster, 1));
	assert_true(cluster_send(world.cluster, &one->call));
	assert_int_equal(world.sent_count, 0);
	assert_int_equal(cluster_oldest_ms(world.cluster, 1), 5000);
	make_ready(0);
	assert_ptr_equal(world.sent[0], &one->call);
	assert_ptr_equal(world.to[0], world.servers[0]);
	assert_true(cluster_has_any(world.cluster));
	assert_false(cluster_has_all(world.cluster));
	assert_true(cluster_send(world.cluster, &two->call));
	redis_peer_drop(&world.servers[1]->peer, "away");
	assert_int_equal(two->answered, 1);
	assert_false(two->has);
	assert_string_equal(world.why, "primary b:2: away");
	assert_false(cluster_has(world.cluster, HALF));
	assert_true(cluster_has(world.cluster, HALF - 1));
	assert_false(cluster_send(world.cluster, &two->call));
	answer(0);
	assert_true(one->has);
	assert_int_equal(early->answered, 0);
}

static void a_lost_primary_is_connected_again_and_looked_for(void **state)
{
	(void)state;
	world.changed = 0;
	redis_peer_drop(&world.servers[0]->peer, "away");
	assert_int_equal(world.changed, 1);
	world.why[0] = '\0';
	run(&world.cluster->timer);
	assert_int_equal(world.asked, 2);
	run(&world.cluster->primaries[0]->timer);
	redis_peer_drop(&world.servers[0]->peer, "still away"); /* is not told again */
	assert_string_equal(world.why, "");
	run(&world.cluster->primaries[0]->timer);
	make_ready(0);
	assert_true(cluster_has_all(world.cluster));
	find(HALF);
	if (world.cluster->timer.at_ms != DEADLINE_NEVER) { /* it was lost while it was asked for */
		run(&world.cluster->timer);
		find(HALF);
	}
	assert_true(world.cluster->timer.at_ms == DEADLINE_NEVER);
}

static void one_without_slots_is_removed(void **state)
{
	struct call *one = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	redirect(0, "MOVED 1 b:2");
	run(&world.cluster->timer);
	find(0);
	assert_null(world.servers[0]);
	assert_true(cluster_has_all(world.cluster));
	assert_int_equal(one->answered, 0);
	answer(1);
	assert_int_equal(one->answered, 1);
}

static void nobody_knows_it(void **state)
{
	(void)state;
	snprintf(world.scout->peer.why, sizeof(world.scout->peer.why), "nobody");
	world.scout->is_asking = false;
	world.scout->failed(world.scout);
	assert_string_equal(world.why, "nobody");
	world.why[0] = '\0';
	for (int i = 0; i < 20; i++) {
		uint64_t before_ms = world.loop.now_ms;
		run(&world.cluster->timer);
		assert_in_range(world.loop.now_ms - before_ms, 25, 5000);
		world.scout->is_asking = false;
		world.scout->failed(world.scout);
	}
	assert_string_equal(world.why, "");
}

/* ---- redirects ------------------------------------------------------------------------------- */

static void a_moved_slot_is_followed(void **state)
{
	struct call *one = call_of(1), *two = call_of(1), *other = call_of(2);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(redirect(0, "MOVED 1 b:2"));
	assert_ptr_equal(world.to[1], world.servers[1]);
	assert_ptr_equal(world.sent[1], &one->call);
	assert_false(one->call.is_asking);
	assert_true(cluster_send(world.cluster, &two->call));
	assert_ptr_equal(world.to[2], world.servers[1]);
	assert_true(cluster_send(world.cluster, &other->call));
	assert_ptr_equal(world.to[3], world.servers[0]);
	assert_true(world.cluster->timer.at_ms != DEADLINE_NEVER); /* all slots are looked at */
	assert_int_equal(world.redirected[REDIRECT_MOVED], 1);
}

static void one_that_moved_to_a_new_primary_waits_for_it(void **state)
{
	struct call *one = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(redirect(0, "MOVED 1 c:3"));
	assert_int_equal(world.opened, 3);
	assert_int_equal(world.sent_count, 1);
	assert_true(cluster_has(world.cluster, 1));
	make_ready(2);
	assert_ptr_equal(world.to[1], world.servers[2]);
	answer(2);
	assert_true(one->has);
}

static void one_that_is_asked_for_goes_there_once(void **state)
{
	struct call *one = call_of(1), *two = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(redirect(0, "ASK 1 b:2"));
	assert_true(one->call.is_asking);
	assert_ptr_equal(world.to[1], world.servers[1]);
	assert_true(cluster_send(world.cluster, &two->call));
	assert_ptr_equal(world.to[2], world.servers[0]);
	assert_true(world.cluster->timer.at_ms == DEADLINE_NEVER);
	/* its keys are at both: again from the start */
	assert_true(redirect(1, "TRYAGAIN Multiple keys"));
	assert_int_equal(one->answered, 0);
	run(&world.cluster->delay);
	assert_false(one->call.is_asking);
	assert_ptr_equal(world.sent[3], &one->call);
	assert_ptr_equal(world.to[3], world.servers[0]);
}

static void redirects_end_with_the_time_of_a_request(void **state)
{
	struct call *one = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	for (int i = 0; i < 3; i++) {
		assert_true(redirect(0, "TRYAGAIN x"));
		run(&world.cluster->delay);
	}
	set_time(6001);
	assert_false(redirect(0, "TRYAGAIN x"));
	assert_int_equal(one->answered, 1);
	assert_false(one->has);
	assert_true(cluster_send(world.cluster, &one->call)); /* in a circle */
	unsigned n = 0, times = 0;
	while (redirect(n, n == 0 ? "MOVED 1 b:2" : "MOVED 1 a:1") && times++ < 1000) {
		n = 1 - n;
		world.sent_count = 0;
	}
	assert_in_range(times, 1, 200);
	assert_int_equal(one->answered, 2);
}

/* Others that come meanwhile do not make the first ones wait. */
static void what_is_tried_again_is_so_in_time(void **state)
{
	struct deadline *delay = &world.cluster->delay;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		set_time(5000 + i);
		assert_true(cluster_send(world.cluster, &call_of(1)->call));
		assert_true(redirect(0, "TRYAGAIN x"));
		assert_int_equal(delay->at_ms, 5003);
	}
	run(delay);
	assert_int_equal(world.sent_count, 8);
	assert_true(delay->at_ms == DEADLINE_NEVER);
	set_time(5010);
	assert_true(redirect(0, "TRYAGAIN x"));
	assert_int_equal(delay->at_ms, 5013);
	run(delay);
	for (unsigned i = 0; i < 4; i++)
		answer(0);
	for (unsigned i = 0; i < 4; i++)
		assert_true(world.calls[i].has);
}

static void a_slot_of_nobody(void **state)
{
	struct call *one = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_false(redirect(0, "CLUSTERDOWN Hash slot not served"));
	assert_int_equal(one->answered, 1);
	assert_false(cluster_has(world.cluster, 1));
	assert_true(cluster_has(world.cluster, 2));
	assert_false(cluster_has_all(world.cluster));
	run(&world.cluster->timer);
	find(HALF);
	assert_true(cluster_has_all(world.cluster));
}

/* It has given the slot away since it was asked. */
static void a_slot_that_has_moved_is_not_nobodys(void **state)
{
	struct call *one = call_of(1), *two = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(cluster_send(world.cluster, &two->call));
	assert_true(redirect(0, "MOVED 1 b:2"));
	assert_false(redirect(0, "CLUSTERDOWN Hash slot not served"));
	assert_true(cluster_has(world.cluster, 1));
	assert_int_equal(world.cluster->unserved, 0);
	answer(1);
	assert_true(one->has);
	assert_false(two->has);
}

static void a_cluster_that_is_down(void **state)
{
	struct call *one = call_of(1), *two = call_of(2), *other = call_of(HALF);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(cluster_send(world.cluster, &two->call));
	assert_true(cluster_send(world.cluster, &other->call));
	assert_false(redirect(0, "CLUSTERDOWN The cluster is down"));
	assert_int_equal(one->answered + two->answered, 2);
	assert_int_equal(other->answered, 0);
	assert_string_equal(world.why, "primary a:1: CLUSTERDOWN The cluster is down");
	assert_false(cluster_has(world.cluster, 2));
	assert_true(cluster_has(world.cluster, HALF));
}

static void other_errors_are_answers(void **state)
{
	struct call *one = call_of(1);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_false(redirect(0, "ERR of it"));
	assert_true(cluster_send(world.cluster, &one->call));
	assert_false(redirect(0, "MOVED 1 a:1")); /* to itself */
	assert_int_equal(one->answered, 2);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void a_node_that_cannot_be_used(void **state)
{
	const struct store_server_cluster *calls = world.servers[0]->cluster;

	(void)state;
	assert_null(calls->informed(
		world.servers[0], "cluster_state:ok\r\ncluster_current_epoch:7\r\n"));
	assert_string_equal(calls->informed(world.servers[1],
				    "cluster_state:ok\r\ncluster_current_epoch:6\r\n"),
		"it has missed a failover");
	assert_string_equal(calls->informed(world.servers[0],
				    "cluster_state:fail\r\ncluster_current_epoch:8\r\n"),
		"CLUSTERDOWN: it serves nothing now");
}

static void silent_ones_alone_are_dropped(void **state)
{
	struct call *one = call_of(1), *two = call_of(HALF);

	(void)state;
	assert_true(cluster_oldest_of_all_ms(world.cluster) == UINT64_MAX);
	assert_true(cluster_send(world.cluster, &one->call));
	set_time(5500);
	assert_true(cluster_send(world.cluster, &two->call));
	assert_int_equal(cluster_oldest_of_all_ms(world.cluster), 5000);
	assert_int_equal(cluster_oldest_ms(world.cluster, HALF), 5500);
	cluster_drop_silent(world.cluster, 5200, "silent");
	assert_int_equal(one->answered, 1);
	assert_int_equal(two->answered, 0);
	assert_int_equal(cluster_oldest_of_all_ms(world.cluster), 5500);
}

static void it_is_described(void **state)
{
	char text[200] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(out);
	redis_peer_drop(&world.servers[1]->peer, "away");
	cluster_describe(world.cluster, out);
	fclose(out);
	assert_string_equal(text, "a:1 8192 ready\nb:2 8192 away\n");
}

static void all_calls_fail_when_it_is_closed(void **state)
{
	struct call *one = call_of(1), *two = call_of(2), *three = call_of(3);

	(void)state;
	assert_true(cluster_send(world.cluster, &one->call));
	assert_true(redirect(0, "TRYAGAIN x"));
	assert_true(cluster_send(world.cluster, &two->call));
	assert_true(redirect(0, "ASK 2 c:3"));
	assert_true(cluster_send(world.cluster, &three->call));
	cluster_close(world.cluster);
	assert_int_equal(one->answered + two->answered + three->answered, 3);
	assert_false(cluster_has_any(world.cluster));
}

#define READY(test) cmocka_unit_test_setup_teardown(test, begin_ready, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(primaries_are_connected, begin, end),
		cmocka_unit_test_setup_teardown(many_are_connected_in_steps, begin, end),
		cmocka_unit_test_setup_teardown(those_that_are_lost_take_no_place, begin, end),
		READY(a_lost_primary_is_connected_again_and_looked_for),
		READY(one_without_slots_is_removed),
		cmocka_unit_test_setup_teardown(nobody_knows_it, begin, end),
		READY(a_moved_slot_is_followed),
		READY(one_that_moved_to_a_new_primary_waits_for_it),
		READY(one_that_is_asked_for_goes_there_once),
		READY(redirects_end_with_the_time_of_a_request),
		READY(what_is_tried_again_is_so_in_time),
		READY(a_slot_of_nobody),
		READY(a_slot_that_has_moved_is_not_nobodys),
		READY(a_cluster_that_is_down),
		READY(other_errors_are_answers),
		READY(a_node_that_cannot_be_used),
		READY(silent_ones_alone_are_dropped),
		READY(it_is_described),
		READY(all_calls_fail_when_it_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
