/* The sockets of a worker: their ids, finding one, and visiting all of them, some in a turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "websocket/state.h"
#include "tests/unit/suite.h"

#define PROCESS UINT64_C(0x0123456789ab)

/* ---- ids ------------------------------------------------------------------------------------- */

static void ids_have_texts(void **state)
{
	char text[SOCKET_ID_BYTES];
	uint64_t id;

	(void)state;
	socket_id_text(PROCESS, UINT64_C(0x03000000002a), text);
	assert_string_equal(text, "0123456789ab03000000002a");
	assert_true(socket_id_read(slice_of(text), PROCESS, &id));
	assert_int_equal(id, UINT64_C(0x03000000002a));
	assert_int_equal(socket_id_worker(id), 3);
	socket_id_text(PROCESS, 255ull << 40 | ((1ull << 40) - 1), text);
	assert_string_equal(text, "0123456789abffffffffffff");
}

static void what_is_no_id_of_this_process(void **state)
{
	static const char *const texts[] = {"", "0123456789ab", "0123456789ab03000000002",
		"0123456789ab03000000002a0", "0123456789ac03000000002a", "0123456789AB03000000002a",
		"0123456789ab03000000002g", " 123456789ab03000000002a", "0123456789ab-3000000002a"};
	uint64_t id;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(socket_id_read(slice_of(texts[i]), PROCESS, &id));
}

/* ---- a worker of many sockets ---------------------------------------------------------------- */

#define SOCKETS 3000

static struct worker worker;
static struct websocket *sockets[SOCKETS]; /* NULL: removed */
static unsigned visits[SOCKETS];           /* by number */
static struct {
	unsigned in_turn, most, ended;
	bool (*on_visit)(unsigned number);
} seen;

static unsigned number_of(const struct websocket *socket)
{
	return (unsigned)(socket->id & 0xffffff) - 1;
}

static void remove_one(unsigned number)
{
	if (!sockets[number])
		return;
	websockets_remove(websockets_of(&worker), sockets[number]);
	free(sockets[number]);
	sockets[number] = NULL;
}

static void begin(unsigned count)
{
	memset(&worker, 0, sizeof(worker));
	memset(sockets, 0, sizeof(sockets));
	memset(visits, 0, sizeof(visits));
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(loop_init(&worker.loop), 0);
	loop_enter(&worker.loop);
	worker.memory[PART_WEBSOCKETS] = websockets_new();
	assert_non_null(websockets_of(&worker));
	for (unsigned i = 0; i < count; i++) {
		sockets[i] = calloc(1, sizeof(*sockets[i]));
		assert_non_null(sockets[i]);
		websockets_add(websockets_of(&worker), sockets[i], 7);
	}
}

static void end(void)
{
	for (unsigned i = 0; i < SOCKETS; i++)
		remove_one(i);
	assert_int_equal(websockets_of(&worker)->count, 0);
	assert_null(websockets_of(&worker)->first);
	websockets_free(websockets_of(&worker));
	loop_end(&worker.loop);
	loop_enter(NULL);
}

static void turn(void)
{
	seen.in_turn = 0;
	walk_end_turn(&worker);
	loop_wake(&worker.loop);
	assert_int_equal(loop_run_turn(&worker.loop), 0);
	if (seen.in_turn > seen.most)
		seen.most = seen.in_turn;
}

static bool visit(struct socket_walk *walk, struct websocket *socket)
{
	unsigned number = number_of(socket);

	(void)walk;
	seen.in_turn++;
	visits[number]++;
	return !seen.on_visit || seen.on_visit(number);
}

static void done(struct socket_walk *walk)
{
	(void)walk;
	seen.ended++;
}

static void one_is_found_by_its_id(void **state)
{
	(void)state;
	begin(SOCKETS);
	uint64_t first = sockets[0]->id;
	assert_int_equal(socket_id_worker(first), 7);
	for (unsigned i = 0; i < SOCKETS; i++)
		assert_ptr_equal(websockets_find(websockets_of(&worker), first + i), sockets[i]);
	for (unsigned i = 0; i < SOCKETS; i += 3)
		remove_one(i);
	for (unsigned i = 0; i < SOCKETS; i++)
		assert_ptr_equal(websockets_find(websockets_of(&worker), first + i), sockets[i]);
	assert_null(websockets_find(websockets_of(&worker), 0));
	assert_null(websockets_find(websockets_of(&worker), first + SOCKETS));
	end();
}

static void a_turn_visits_some(void **state)
{
	struct socket_walk walks[3] = {
		{visit, done, NULL, NULL}, {visit, done, NULL, NULL}, {visit, done, NULL, NULL}};

	(void)state;
	begin(SOCKETS);
	for (unsigned i = 0; i < 3; i++)
		walk_begin(&walks[i], &worker);
	unsigned turns = 0;
	for (; seen.ended < 3; turns++)
		turn();
	assert_in_range(turns, 3 * SOCKETS / WALK_SOCKETS, 3 * SOCKETS / WALK_SOCKETS + 6);
	assert_int_equal(seen.most, WALK_SOCKETS);
	for (unsigned i = 0; i < SOCKETS; i++)
		assert_int_equal(visits[i], 3);
	end();
}

static void no_sockets_are_visited_soon(void **state)
{
	struct socket_walk walk = {visit, done, NULL, NULL};

	(void)state;
	begin(0);
	walk_begin(&walk, &worker);
	turn();
	assert_int_equal(seen.ended, 1);
	turn();
	assert_int_equal(seen.ended, 1);
	end();
}

static bool stop_at_ten(unsigned number)
{
	(void)number;
	return seen.in_turn < 10;
}

static void a_visit_ends_its_walk(void **state)
{
	struct socket_walk walk = {visit, done, NULL, NULL};

	(void)state;
	begin(100);
	seen.on_visit = stop_at_ten;
	walk_begin(&walk, &worker);
	turn();
	assert_int_equal(seen.ended, 1);
	assert_int_equal(seen.in_turn, 10);
	end();
}

static struct random drawn;

/* It ends, or another one does, or several do. */
static bool end_some(unsigned number)
{
	for (size_t i = random_below(&drawn, 4); i > 0; i--)
		remove_one(
			random_below(&drawn, 3) ? (unsigned)random_below(&drawn, SOCKETS) : number);
	return true;
}

/* Each that is still there is visited once by each walk, whichever end meanwhile; none that was
 * opened since. */
static void sockets_end_meanwhile(void **state)
{
	struct socket_walk walks[2] = {{visit, done, NULL, NULL}, {visit, done, NULL, NULL}};

	(void)state;
	drawn = random_begin("sockets_end_meanwhile");
	for (unsigned life = 0; life < 20; life++) {
		begin(SOCKETS - 1);
		seen.on_visit = end_some;
		walk_begin(&walks[0], &worker);
		turn();
		walk_begin(&walks[1], &worker);
		sockets[SOCKETS - 1] = calloc(1, sizeof(struct websocket));
		assert_non_null(sockets[SOCKETS - 1]);
		websockets_add(websockets_of(&worker), sockets[SOCKETS - 1], 7);
		while (seen.ended < 2)
			turn();
		for (unsigned i = 0; i < SOCKETS - 1; i++)
			assert_true(sockets[i] ? visits[i] == 2 : visits[i] <= 2);
		assert_int_equal(visits[SOCKETS - 1], 0);
		end();
	}
}

UNIT_SUITE(test_registry)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_have_texts),
		cmocka_unit_test(what_is_no_id_of_this_process),
		cmocka_unit_test(one_is_found_by_its_id),
		cmocka_unit_test(a_turn_visits_some),
		cmocka_unit_test(no_sockets_are_visited_soon),
		cmocka_unit_test(a_visit_ends_its_walk),
		cmocka_unit_test(sockets_end_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
