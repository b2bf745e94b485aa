/* Which idle connection gives way to a new one. */
#include "http1/idle.h"

#include "connected.h"
#include "listen/give_way.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define MOST 40

static const struct stage_conf conf = {.route = "path = /none/"};

/* Connections of one listener; `at` as they were accepted. */
struct crowd {
	struct stage *stage;
	struct memory_peer *wires[MOST];
	struct downstream *at[MOST];
	unsigned count;
};

static void crowd_begin(struct crowd *crowd)
{
	*crowd = (struct crowd){.stage = stage_begin(&conf)};
	listen_part(crowd->stage->worker)->listeners = &crowd->stage->listener;
}

static struct downstream *add(struct crowd *crowd, const char *address)
{
	struct memory_peer **wire = &crowd->wires[crowd->count];
	struct downstream *d = connected_accept(crowd->stage, wire, address);

	assert_true(crowd->count < MOST);
	crowd->at[crowd->count++] = d;
	stage_turn(crowd->stage);
	return d;
}

static void crowd_end(struct crowd *crowd)
{
	while (http1_part(crowd->stage->worker)->downstreams)
		downstream_close(http1_part(crowd->stage->worker)->downstreams, "the end");
	stage_turn(crowd->stage);
	for (unsigned i = 0; i < crowd->count; i++)
		memory_peer_close(crowd->wires[i]);
	listen_part(crowd->stage->worker)->listeners = NULL;
	stage_end(crowd->stage);
}

static struct downstream *find(struct crowd *crowd)
{
	struct idle_link *link = idle_find(crowd->stage->worker, &crowd->stage->bound);

	return link ? CONTAINER_OF(link, struct downstream, idle) : NULL;
}

/* It asks for something that there is not, and is idle again. */
static void use(struct crowd *crowd, unsigned i)
{
	char bytes[STAGE_ROOM];

	memory_peer_send(crowd->wires[i], GET, strlen(GET));
	stage_turn(crowd->stage);
	assert_true(memory_peer_receive(crowd->wires[i], bytes, sizeof(bytes)) > 0);
}

static void none_before_its_time(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_begin(&crowd);
	assert_null(find(&crowd));
	struct downstream *d = add(&crowd, "192.0.2.1");
	assert_null(find(&crowd));
	stage_at(crowd.stage, GIVE_WAY_IDLE_MS - 1);
	assert_null(find(&crowd));
	stage_at(crowd.stage, GIVE_WAY_IDLE_MS);
	assert_ptr_equal(find(&crowd), d);
	use(&crowd, 0);
	assert_null(find(&crowd));
	stage_at(crowd.stage, 2 * GIVE_WAY_IDLE_MS);
	assert_ptr_equal(find(&crowd), d);
	crowd_end(&crowd);
}

static void the_oldest_of_those_who_have_most(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_begin(&crowd);
	add(&crowd, "192.0.2.1");
	stage_at(crowd.stage, 200);
	struct downstream *second = add(&crowd, "192.0.2.2");
	stage_at(crowd.stage, 400);
	assert_ptr_equal(find(&crowd), crowd.at[0]); /* as many each */
	add(&crowd, "192.0.2.2");
	stage_at(crowd.stage, 600);
	assert_ptr_equal(find(&crowd), second);
	use(&crowd, 1);
	stage_at(crowd.stage, 800);
	assert_ptr_equal(find(&crowd), crowd.at[2]);
	crowd_end(&crowd);
}

/* Beyond the first IDLE_LOOK nobody looks. */
static void newer_ones_are_not_looked_at(void **state)
{
	struct crowd crowd;
	char address[16];

	(void)state;
	crowd_begin(&crowd);
	for (unsigned i = 0; i < IDLE_LOOK; i++) {
		snprintf(address, sizeof(address), "192.0.2.%u", i);
		stage_at(crowd.stage, 200 * i);
		add(&crowd, address);
	}
	for (unsigned i = 0; i < 5; i++) {
		stage_at(crowd.stage, 4000 + 200 * i);
		add(&crowd, "192.0.2.99");
	}
	stage_at(crowd.stage, 8000);
	assert_ptr_equal(find(&crowd), crowd.at[0]);
	/* With room for three of them, they have most. */
	for (unsigned i = 0; i < 3; i++)
		downstream_close(crowd.at[i], "test");
	assert_ptr_equal(find(&crowd), crowd.at[IDLE_LOOK]);
	crowd_end(&crowd);
}

static void those_that_are_not_idle(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_begin(&crowd);
	for (unsigned i = 0; i < 4; i++)
		add(&crowd, "192.0.2.1");
	memory_peer_send(crowd.wires[0], "GET /", 5);
	stage_turn(crowd.stage); /* a request has begun */
	flow_append(&crowd.at[1]->out, &crowd.stage->worker->blocks, SLICE("x"));
	stage_at(crowd.stage, 1000);
	memory_peer_send(crowd.wires[2], "G", 1); /* nobody has looked yet */
	assert_ptr_equal(find(&crowd), crowd.at[3]);
	memory_peer_end_output(crowd.wires[3]);
	assert_null(find(&crowd));
	struct downstream *last = add(&crowd, "192.0.2.1");
	stage_at(crowd.stage, 2000);
	assert_ptr_equal(find(&crowd), last);
	last->stream.readable = true; /* as the loop has told */
	assert_null(find(&crowd));
	last->stream.readable = false;
	last->stream.woken = true;
	assert_null(find(&crowd));
	last->stream.woken = false;
	flow_clear(&crowd.at[1]->out, &crowd.stage->worker->blocks);
	crowd_end(&crowd);
}

/* What has come without the loop's saying so: it is idle from now on, and another is chosen. */
static void one_whose_request_is_here_is_kept(void **state)
{
	struct crowd crowd;

	(void)state;
	crowd_begin(&crowd);
	add(&crowd, "192.0.2.1");
	stage_at(crowd.stage, 200);
	add(&crowd, "192.0.2.1");
	stage_at(crowd.stage, 1000);
	memory_peer_send(crowd.wires[0], "G", 1);
	struct stream *stream = &crowd.at[0]->stream;
	const bool was_readable = stream->readable, was_woken = stream->woken;
	stream->readable = stream->woken = false;
	assert_ptr_equal(find(&crowd), crowd.at[1]);
	assert_int_equal(crowd.at[0]->idle.since_ms, STAGE_START_MS + 1000);
	stream->readable = was_readable;
	stream->woken = was_woken;
	crowd_end(&crowd);
}

static void of_which_bound(void **state)
{
	struct crowd crowd;
	struct connection_bound other = {0};

	(void)state;
	crowd_begin(&crowd);
	struct downstream *d = add(&crowd, "192.0.2.1");
	stage_at(crowd.stage, 1000);
	struct worker *worker = crowd.stage->worker;
	assert_null(idle_find(worker, &other));
	assert_ptr_equal(idle_find(worker, &crowd.stage->daemon.listening.descriptors), &d->idle);
	listen_part(worker)->listeners = NULL;
	assert_null(find(&crowd));
	listen_part(worker)->listeners = &crowd.stage->listener;
	struct idle_link *link = idle_find(worker, &crowd.stage->bound);
	assert_ptr_equal(link, &d->idle);
	idle_close(link);
	assert_null(http1_part(worker)->downstreams);
	assert_null(find(&crowd));
	crowd_end(&crowd);
}

/* ---- the same, by a search of all ------------------------------------------------------------ */

struct oracle {
	uint64_t since_ms[IDLE_LOOK];
	unsigned peer[IDLE_LOOK];
};

static int expected(const struct oracle *oracle, unsigned count, uint64_t now_ms)
{
	int best = -1;
	unsigned most = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned same = 0;
		for (unsigned j = 0; j < count; j++)
			same += oracle->peer[j] == oracle->peer[i] &&
				oracle->since_ms[j] + GIVE_WAY_IDLE_MS <= now_ms;
		if (oracle->since_ms[i] + GIVE_WAY_IDLE_MS > now_ms)
			continue;
		if (same > most || (same == most && oracle->since_ms[i] < oracle->since_ms[best])) {
			most = same;
			best = (int)i;
		}
	}
	return best;
}

static void whatever_they_do(void **state)
{
	struct random random = random_begin("idle connections");

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct oracle oracle;
		struct crowd crowd;
		unsigned count = 1 + (unsigned)random_below(&random, IDLE_LOOK);
		uint64_t ms = 0;
		crowd_begin(&crowd);
		lines.has_no_access = true;
		for (unsigned i = 0; i < count; i++) {
			char address[16];
			oracle.peer[i] = (unsigned)random_below(&random, 4);
			snprintf(address, sizeof(address), "192.0.2.%u", oracle.peer[i]);
			stage_at(crowd.stage, ms += 1 + random_below(&random, 60));
			oracle.since_ms[i] = ms;
			add(&crowd, address);
		}
		for (unsigned step = 0; step < 200; step++) {
			stage_at(crowd.stage, ms += 1 + random_below(&random, 60));
			if (random_below(&random, 2)) {
				unsigned i = (unsigned)random_below(&random, count);
				use(&crowd, i);
				oracle.since_ms[i] = ms;
			}
			int wanted = expected(&oracle, count, ms);
			assert_ptr_equal(find(&crowd), wanted < 0 ? NULL : crowd.at[wanted]);
		}
		crowd_end(&crowd);
		lines.has_no_access = false;
	}
}

UNIT_SUITE(test_idle)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_before_its_time),
		cmocka_unit_test(the_oldest_of_those_who_have_most),
		cmocka_unit_test(newer_ones_are_not_looked_at),
		cmocka_unit_test(those_that_are_not_idle),
		cmocka_unit_test(one_whose_request_is_here_is_kept),
		cmocka_unit_test(of_which_bound),
		cmocka_unit_test(whatever_they_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
