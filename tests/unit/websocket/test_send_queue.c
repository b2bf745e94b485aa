/* What waits for a socket's client: the order of its lanes and its bounds against a plain oracle,
 * and that a frame that waits on many sockets is there once. */
#include "websocket/send_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "frames/frames.h"
#include "tests/unit/suite.h"

static uint64_t held(const struct node_sends *budget)
{
	return atomic_load(&budget->bytes);
}

/* ---- shared frames --------------------------------------------------------------------------- */

static void a_frame_is_composed_once(void **state)
{
	static char text[70000];
	static const struct {
		size_t len, head;
	} cases[] = {{0, 2}, {125, 2}, {126, 4}, {65535, 4}, {65536, 10}};
	struct node_sends budget = {0};

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct shared_frame *frame =
			shared_frame_new(&budget, FRAME_BINARY, (struct slice){text, cases[i].len});
		assert_non_null(frame);
		assert_int_equal(frame->bytes, cases[i].head + cases[i].len);
		assert_int_equal(frame->payload_bytes, cases[i].len);
		assert_int_equal((uint8_t)frame->at[0], 0x80 | FRAME_BINARY);
		assert_int_equal((uint8_t)frame->at[1], cases[i].head == 2   ? cases[i].len
							: cases[i].head == 4 ? 126
									     : 127);
		assert_memory_equal(frame->at + cases[i].head, text, cases[i].len);
		shared_frame_release(frame);
		assert_int_equal(held(&budget), 0);
	}
	shared_frame_release(NULL);
}

/* 10,000 queues that wait with one frame of 1 MB hold it once. */
static void many_queues_share_it(void **state)
{
	enum { QUEUES = 10000 };
	static struct send_queue queues[QUEUES];
	static char text[1 << 20];
	struct node_sends budget = {0};
	struct shared_frame *frame =
		shared_frame_new(&budget, FRAME_TEXT, (struct slice){text, sizeof(text)});

	(void)state;
	assert_non_null(frame);
	for (size_t i = 0; i < QUEUES; i++) {
		struct iovec piece;
		send_queue_init(&queues[i]);
		assert_true(send_queue_add(&queues[i], SEND_NORMAL, frame, NULL));
		/* What is written is the frame itself. */
		assert_int_equal(send_queue_peek(&queues[i], 1, &piece, 1, SIZE_MAX), 1);
		assert_ptr_equal(piece.iov_base, frame->at);
		assert_int_equal(piece.iov_len, frame->bytes);
	}
	assert_true(
		held(&budget) < sizeof(text) + 100 + QUEUES * (uint64_t)sizeof(struct send_item));
	shared_frame_release(frame);
	for (size_t i = 0; i < QUEUES; i++)
		send_queue_end(&queues[i]);
	assert_int_equal(held(&budget), 0);
}

static void all_together_are_bounded(void **state)
{
	struct node_sends budget = {.most = 1000};
	struct send_queue queue;
	char text[900] = "";

	(void)state;
	send_queue_init(&queue);
	struct shared_frame *frame =
		shared_frame_new(&budget, FRAME_TEXT, (struct slice){text, sizeof(text)});
	assert_non_null(frame);
	uint64_t before = held(&budget);
	assert_null(shared_frame_new(&budget, FRAME_TEXT, (struct slice){text, sizeof(text)}));
	assert_int_equal(held(&budget), before);
	unsigned added = 0;
	while (send_queue_add(&queue, SEND_HIGH, frame, NULL))
		added++;
	assert_in_range(added, 1, (1000 - 900) / sizeof(struct send_item));
	assert_true(held(&budget) <= 1000);
	send_queue_end(&queue);
	shared_frame_release(frame);
	assert_int_equal(held(&budget), 0);
}

/* ---- the order, against an oracle ------------------------------------------------------------ */

#define KNOWN 4096

struct entry {
	struct send_report report;
	unsigned number;
	enum send_lane lane;
	enum send_result result;
	bool is_reported;
};

/* The same queue as two arrays of numbers. */
struct oracle {
	unsigned lanes[SEND_LANES][KNOWN];
	size_t first[SEND_LANES], end[SEND_LANES];
	unsigned high_run, burst;
	struct entry entries[KNOWN];
	size_t sizes[KNOWN];
	unsigned made;
	unsigned written[KNOWN]; /* in the order of telling */
	unsigned written_count;
	int begun;    /* the number of one that was begun, -1: none */
	size_t taken; /* of it */
};

static struct oracle oracle;

static void tell(struct send_report *report, enum send_result result)
{
	struct entry *entry = (struct entry *)report;

	assert_false(entry->is_reported);
	entry->is_reported = true;
	entry->result = result;
	if (result == SEND_WRITTEN)
		oracle.written[oracle.written_count++] = entry->number;
}

static size_t waits(enum send_lane lane)
{
	return oracle.end[lane] - oracle.first[lane];
}

static unsigned oracle_next(void)
{
	bool high = waits(SEND_HIGH) && !(waits(SEND_NORMAL) && oracle.high_run >= oracle.burst);
	enum send_lane lane = high ? SEND_HIGH : SEND_NORMAL;

	oracle.high_run = high ? oracle.high_run + 1 : 0;
	return oracle.lanes[lane][oracle.first[lane]++];
}

static uint64_t lane_bytes(enum send_lane lane)
{
	uint64_t bytes = 0;

	for (size_t i = oracle.first[lane]; i < oracle.end[lane]; i++)
		bytes += oracle.sizes[oracle.lanes[lane][i]];
	return bytes;
}

static uint64_t oracle_bytes(void)
{
	return (oracle.begun >= 0 ? oracle.sizes[oracle.begun] : 0) + lane_bytes(SEND_HIGH) +
	       lane_bytes(SEND_NORMAL);
}

static size_t oracle_count(void)
{
	return waits(SEND_HIGH) + waits(SEND_NORMAL) + (oracle.begun >= 0);
}

static void add_one(struct send_queue *queue, struct node_sends *budget, struct random *random)
{
	char text[300];
	unsigned number = oracle.made++;
	enum send_lane lane = (enum send_lane)random_below(random, SEND_LANES);
	size_t len = random_below(random, sizeof(text));

	memset(text, (char)number, sizeof(text));
	struct shared_frame *frame =
		shared_frame_new(budget, FRAME_BINARY, (struct slice){text, len});
	assert_non_null(frame);
	oracle.entries[number] = (struct entry){{tell}, number, lane, 0, false};
	oracle.sizes[number] = frame->bytes;
	oracle.lanes[lane][oracle.end[lane]++] = number;
	assert_true(send_queue_add(queue, lane, frame, &oracle.entries[number].report));
	shared_frame_release(frame);
}

/* What is peeked is what comes next, by the payloads' bytes. */
static void take_some(struct send_queue *queue, struct random *random)
{
	struct iovec pieces[8];
	int count = send_queue_peek(
		queue, oracle.burst, pieces, 1 + (int)random_below(random, 8), 1000);
	size_t offered = 0;

	assert_int_equal(count > 0, oracle_count() > 0);
	for (int i = 0; i < count; i++)
		offered += pieces[i].iov_len;
	assert_true(offered <= 1000);
	size_t takes = random_below(random, offered + 1), left = takes;
	unsigned before = oracle.written_count;
	for (unsigned i = 0; left > 0; i++) {
		size_t start = oracle.begun >= 0 ? oracle.taken : 0;
		unsigned number = oracle.begun >= 0 ? (unsigned)oracle.begun : oracle_next();
		size_t rest = oracle.sizes[number] - start;
		/* The last byte of a payload tells whose it is; not where a piece was cut short. */
		if (pieces[i].iov_len == rest && rest > 10)
			assert_int_equal(
				((const char *)pieces[i].iov_base)[rest - 1], (char)number);
		oracle.begun = left < rest ? (int)number : -1;
		oracle.taken = left < rest ? start + left : 0;
		left -= left < rest ? left : rest;
	}
	send_queue_took(queue, oracle.burst, takes);
	for (unsigned i = before; i < oracle.written_count; i++)
		assert_true(oracle.entries[oracle.written[i]].is_reported);
}

static void drop_one(struct send_queue *queue)
{
	bool has = waits(SEND_NORMAL) > 0;

	assert_int_equal(send_queue_drop_oldest(queue), has);
	if (!has)
		return;
	unsigned number = oracle.lanes[SEND_NORMAL][oracle.first[SEND_NORMAL]++];
	assert_true(oracle.entries[number].is_reported);
	assert_int_equal(oracle.entries[number].result, SEND_DROPPED);
}

static void assert_alike(const struct send_queue *queue)
{
	struct send_bounds bounds = {oracle_bytes() + 10, (uint32_t)oracle_count() + 1};

	assert_int_equal(queue->bytes, oracle_bytes());
	assert_int_equal(queue->messages, oracle_count());
	assert_int_equal(send_queue_is_empty(queue), oracle_count() == 0);
	assert_int_equal(send_queue_is_within(queue), oracle.begun >= 0);
	assert_true(send_queue_fits(queue, &bounds, 10));
	assert_false(send_queue_fits(queue, &bounds, 11));
	bounds.messages--;
	assert_false(send_queue_fits(queue, &bounds, 1));
	assert_int_equal(send_queue_can_fit(queue, &bounds, 1), waits(SEND_NORMAL) > 0);
	bounds = (struct send_bounds){oracle_bytes(), (uint32_t)oracle_count() + 1};
	assert_true(send_queue_can_fit(queue, &bounds, lane_bytes(SEND_NORMAL)));
	assert_false(send_queue_can_fit(queue, &bounds, lane_bytes(SEND_NORMAL) + 1));
}

static void live(struct random *random)
{
	struct node_sends budget = {0};
	struct send_queue queue;

	memset(&oracle, 0, sizeof(oracle));
	oracle.begun = -1;
	oracle.burst = 1 + (unsigned)random_below(random, 4);
	send_queue_init(&queue);
	while (oracle.made < KNOWN / 8) {
		switch (random_below(random, 5)) {
		case 0:
		case 1:
			add_one(&queue, &budget, random);
			break;
		case 2:
		case 3:
			take_some(&queue, random);
			break;
		case 4:
			if (random_below(random, 4) == 0)
				drop_one(&queue);
			break;
		}
		assert_alike(&queue);
	}
	bool was_within = oracle.begun >= 0;
	send_queue_clear(&queue);
	assert_int_equal(queue.messages, was_within);
	send_queue_end(&queue);
	for (unsigned i = 0; i < oracle.made; i++)
		assert_true(oracle.entries[i].is_reported);
	assert_int_equal(held(&budget), 0);
}

static void order_and_bounds(void **state)
{
	struct random random = random_begin("order_and_bounds");

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		live(&random);
}

UNIT_SUITE(test_send_queue)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_composed_once),
		cmocka_unit_test(many_queues_share_it),
		cmocka_unit_test(all_together_are_bounded),
		cmocka_unit_test(order_and_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
