/* Flows: what goes in comes out in order, whatever of it is borrowed, owned or moved up meanwhile.
 */
#include "body/flow.h"

#include "net/socket_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../random.h"
#include "tests/unit/spool/broken_reads.h"
#include "tests/unit/suite.h"

#define BLOCK 512

struct fixture {
	struct loop turn;
	struct stream_loop loop;
	struct buffer_pool pool;
	struct stream stream;
	struct flow flow;
	struct spool_store store;
	struct spool_limits kept;
	int peer;
	size_t in, out; /* bytes of the pattern given to the flow, and received from it */
};

static void on_notify(struct stream *stream)
{
	(void)stream;
}

static const struct stream_calls calls = {NULL, on_notify};

static struct fixture *begin(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2], small = 1;

	assert_non_null(f);
	assert_int_equal(loop_init(&f->turn), 0);
	stream_loop_init(&f->loop, &f->turn);
	buffer_pool_init(&f->pool, BLOCK, 4);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_true(store_init(&f->store, "/tmp"));
	f->store.files_max = 1;
	f->kept = (struct spool_limits){4096, 4096, SPOOL_REQUEST};
	store_set_bounds(&f->store, 1 << 20, 1 << 20);
	f->peer = pair[1];
	assert_true(socket_stream_open(&f->stream, &f->loop, pair[0], true, &calls));
	return f;
}

static void end(struct fixture *f)
{
	flow_clear(&f->flow, &f->pool);
	assert_true(flow_is_empty(&f->flow));
	assert_int_equal(f->store.memory + f->store.disk + f->store.files, 0);
	store_end(&f->store);
	stream_close(&f->stream);
	close(f->peer);
	buffer_pool_clear(&f->pool);
	loop_end(&f->turn);
	free(f);
}

/* The byte at a place of all that goes through the flow. */
static char pattern(size_t at)
{
	return (char)('!' + at * 7 % 89);
}

static void put_prefix(struct fixture *f, size_t len)
{
	char text[2 * BLOCK];

	for (size_t i = 0; i < len; i++)
		text[i] = pattern(f->in++);
	assert_true(flow_append(&f->flow, &f->pool, (struct slice){text, len}));
}

/* A body in a block that the flow gets for its own, and a suffix behind it. */
static void put_owned(struct fixture *f, size_t len, size_t suffix_len)
{
	static char suffix[8];

	assert_int_equal(f->flow.body.len + f->flow.suffix.len, 0);
	assert_true(buffer_acquire(&f->flow.kept, &f->pool));
	for (size_t i = 0; i < len; i++)
		f->flow.kept.at[i] = pattern(f->in++);
	f->flow.body = (struct slice){f->flow.kept.at, len};
	for (size_t i = 0; i < suffix_len; i++)
		suffix[i] = pattern(f->in++);
	f->flow.suffix = (struct slice){suffix, suffix_len};
}

static void receive(struct fixture *f)
{
	char text[4096];
	ssize_t n;

	while ((n = recv(f->peer, text, sizeof(text), MSG_DONTWAIT)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] != pattern(f->out++))
				fail_msg("byte %zu is another", f->out - 1);
		}
	}
	f->stream.writable = true; /* there is room again */
}

static void write_some(struct fixture *f)
{
	uint64_t written = 0, left = flow_bytes(&f->flow);

	left += f->flow.spool ? spool_bytes(f->flow.spool) : 0;
	enum stream_result result = flow_write(&f->flow, &f->stream, &f->pool, &written);

	assert_true(written <= left);
	assert_int_equal(result == STREAM_OK, written == left);
	assert_int_equal(flow_is_empty(&f->flow), written == left);
	if (f->flow.body.len == 0)
		assert_null(f->flow.kept.at); /* its block is not held longer than it is needed */
}

/* A body that is only borrowed is in nobody's way but the prefix's. */
static void borrowed(void **state)
{
	static const char text[] = "borrowed";
	struct fixture *f = begin();

	(void)state;
	assert_true(flow_takes_prefix(&f->flow));
	f->flow.body = (struct slice){text, 8};
	assert_false(flow_takes_prefix(&f->flow));
	assert_false(flow_is_empty(&f->flow));
	uint64_t written = 0;
	assert_int_equal(flow_write(&f->flow, &f->stream, &f->pool, &written), STREAM_OK);
	assert_int_equal(written, 8);
	assert_true(flow_is_empty(&f->flow) && flow_takes_prefix(&f->flow));
	end(f);
}

/* An answer that waits with its own block, and one more behind it: both leave in order. */
static void owned_moves_up(void **state)
{
	struct fixture *f = begin();

	(void)state;
	put_prefix(f, 100);
	put_owned(f, 300, 5);
	assert_true(flow_takes_prefix(&f->flow));
	put_prefix(f, 400); /* more than the block has room for */
	assert_null(f->flow.kept.at);
	assert_int_equal(f->flow.body.len + f->flow.suffix.len, 0);
	assert_int_equal(buffer_used(&f->flow.prefix), 805);
	write_some(f);
	receive(f);
	assert_int_equal(f->out, 805);
	/* Of the suffix alone something is left: that too. */
	f->flow.suffix = (struct slice){"\r\n", 2};
	assert_true(flow_takes_prefix(&f->flow));
	assert_true(flow_append(&f->flow, &f->pool, SLICE("next")));
	assert_int_equal(buffer_used(&f->flow.prefix), 6);
	assert_memory_equal(buffer_head(&f->flow.prefix), "\r\nnext", 6);
	end(f);
}

/* What is added to a long one bit by bit is moved some times, not each time. */
static void grows_by_doubling(void **state)
{
	struct fixture *f = begin();
	unsigned moves = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		const char *before = f->flow.prefix.at;
		put_prefix(f, 100);
		moves += f->flow.prefix.at != before;
	}
	assert_int_equal(buffer_used(&f->flow.prefix), 1000000);
	assert_true(moves < 15);
	while (!flow_is_empty(&f->flow)) {
		write_some(f);
		receive(f);
	}
	assert_int_equal(f->out, 1000000);
	end(f);
}

/* The runs go out of the way as far as there is room, and before what comes later. */
static void spill_some(struct fixture *f)
{
	size_t before = flow_bytes(&f->flow);
	uint64_t held = f->flow.spool ? spool_bytes(f->flow.spool) : 0;
	bool all = flow_spill(&f->flow, &f->pool, &f->store, f->kept);

	assert_int_equal(all, flow_bytes(&f->flow) == 0);
	assert_true(all || spool_room(f->flow.spool, 1) == 0);
	assert_int_equal((f->flow.spool ? spool_bytes(f->flow.spool) : 0) - held,
		before - flow_bytes(&f->flow));
	if (f->flow.body.len == 0)
		assert_null(f->flow.kept.at);
}

/* What was spilled leaves first; a flow is not empty before it has. */
static void spilled(void **state)
{
	struct fixture *f = begin();

	(void)state;
	assert_true(flow_spill(&f->flow, &f->pool, &f->store, f->kept));
	assert_null(f->flow.spool);
	assert_true(flow_is_empty(&f->flow));
	put_prefix(f, 100);
	put_owned(f, 300, 5);
	spill_some(f);
	assert_false(flow_is_empty(&f->flow));
	assert_true(flow_takes_prefix(&f->flow));
	assert_int_equal(flow_bytes(&f->flow), 0);
	put_prefix(f, 50);
	write_some(f);
	receive(f);
	assert_int_equal(f->out, 455);
	assert_null(f->flow.spool);
	put_prefix(f, 10);
	spill_some(f);
	end(f); /* forgets it */
}

/* Random orders of all that can happen, with a socket that takes little. */
static void anything_in_any_order(void **state)
{
	struct random random = random_begin("flow");

	(void)state;
	for (int run = 0; run < 200; run++) {
		struct fixture *f = begin();
		for (int step = 0; step < 200; step++) {
			switch (random_below(&random, 5)) {
			case 0:
				put_prefix(f, random_below(&random, 2 * BLOCK));
				break;
			case 1:
				if (f->flow.body.len + f->flow.suffix.len == 0)
					put_owned(f, 1 + random_below(&random, BLOCK - 1),
						random_below(&random, 8));
				break;
			case 2:
				if (!flow_is_empty(&f->flow))
					write_some(f);
				break;
			case 3:
				spill_some(f);
				break;
			default:
				receive(f);
				break;
			}
		}
		while (!flow_is_empty(&f->flow)) {
			write_some(f);
			receive(f);
		}
		receive(f);
		assert_int_equal(f->out, f->in);
		end(f);
	}
}

/* Bytes that are lost leave no hole: nothing follows them, whatever is added and tried. */
static void nothing_follows_what_is_lost(void **state)
{
	struct random random = random_begin("lost");
	unsigned lost = 0;

	(void)state;
	for (int run = 0; run < 200; run++) {
		struct fixture *f = begin();
		uint64_t written = 0;
		for (int step = 0; step < 100; step++) {
			if (f->flow.body.len == 0)
				put_prefix(f, random_below(&random, 2 * BLOCK));
			broken_reads = random_below(&random, 4) == 0 ? EIO : 0;
			if (random_below(&random, 3) > 0)
				flow_spill(&f->flow, &f->pool, &f->store, f->kept);
			else
				flow_write(&f->flow, &f->stream, &f->pool, &written);
			broken_reads = 0;
			receive(f); /* which compares */
			if (!flow_is_lost(&f->flow))
				continue;
			assert_false(flow_is_empty(&f->flow));
			assert_false(flow_spill(&f->flow, &f->pool, &f->store, f->kept));
			assert_int_equal(flow_write(&f->flow, &f->stream, &f->pool, &written),
				STREAM_FAILED);
		}
		lost += flow_is_lost(&f->flow);
		receive(f);
		assert_int_equal(f->out, written);
		end(f);
	}
	assert_true(lost > 0);
}

UNIT_SUITE(test_flow)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(borrowed),
		cmocka_unit_test(owned_moves_up),
		cmocka_unit_test(grows_by_doubling),
		cmocka_unit_test(spilled),
		cmocka_unit_test(anything_in_any_order),
		cmocka_unit_test(nothing_follows_what_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
