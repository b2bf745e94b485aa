/* Buffers and their pool: blocks are reused last freed first, never more kept than asked for, and
 * bytes survive every move. */
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define BLOCK 256

static void put(struct buffer *buffer, const char *bytes, size_t len)
{
	assert_true(buffer_room(buffer) >= len);
	memcpy(buffer->at + buffer->end, bytes, len);
	buffer->end += (uint32_t)len;
}

static void blocks_are_reused(void **state)
{
	struct buffer_pool pool;
	struct buffer buffers[5] = {{0}};
	char *blocks[5];

	(void)state;
	buffer_pool_init(&pool, BLOCK, 3);
	for (int i = 0; i < 5; i++) {
		assert_true(buffer_acquire(&buffers[i], &pool));
		assert_int_equal(buffer_room(&buffers[i]), BLOCK);
		assert_int_equal(buffer_used(&buffers[i]), 0);
		blocks[i] = buffers[i].at;
		memset(blocks[i], i, BLOCK); /* all of it is ours */
	}
	for (int i = 0; i < 5; i++) {
		buffer_release(&buffers[i], &pool);
		assert_null(buffers[i].at);
		assert_int_equal(pool.free_count, i < 3 ? i + 1 : 3);
	}
	/* The last that was kept comes first: it is still in the cache. */
	for (int i = 2; i >= 0; i--) {
		assert_true(buffer_acquire(&buffers[i], &pool));
		assert_ptr_equal(buffers[i].at, blocks[i]);
	}
	assert_int_equal(pool.free_count, 0);
	buffer_release(&buffers[4], &pool); /* an empty one has none to give back */
	assert_int_equal(pool.free_count, 0);
	for (int i = 0; i < 3; i++)
		buffer_release(&buffers[i], &pool);
	buffer_pool_clear(&pool);
	assert_int_equal(pool.free_count, 0);
	assert_null(pool.free);
}

static void room_is_made(void **state)
{
	struct buffer_pool pool;
	struct buffer buffer;

	(void)state;
	buffer_pool_init(&pool, BLOCK, 3);
	assert_true(buffer_acquire(&buffer, &pool));
	char *block = buffer.at;
	put(&buffer, "0123456789", 10);
	buffer.start = 6;
	/* It fits where it is: nothing moves. */
	assert_true(buffer_reserve(&buffer, &pool, BLOCK - 6));
	assert_int_equal(buffer.start, 6);
	/* It fits when moved to the front. */
	assert_true(buffer_reserve(&buffer, &pool, BLOCK));
	assert_ptr_equal(buffer.at, block);
	assert_int_equal(buffer.start, 0);
	assert_int_equal(buffer_used(&buffer), 4);
	assert_memory_equal(buffer_head(&buffer), "6789", 4);
	/* It does not fit: a larger one, and the block goes back. */
	buffer.start = 1;
	assert_true(buffer_reserve(&buffer, &pool, BLOCK + 1));
	assert_ptr_not_equal(buffer.at, block);
	assert_int_equal(buffer.capacity, BLOCK + 1);
	assert_int_equal(buffer_used(&buffer), 3);
	assert_memory_equal(buffer_head(&buffer), "789", 3);
	assert_int_equal(pool.free_count, 1);
	/* The larger one is of no pool. */
	buffer_release(&buffer, &pool);
	assert_int_equal(pool.free_count, 1);
	buffer_pool_clear(&pool);
}

/* A queue of bytes, against a plain array. */
static void random_steps(void **state)
{
	struct random random = random_begin("buffers");
	static char model[100000];
	struct buffer_pool pool;
	struct buffer buffer = {0};
	size_t used = 0;

	(void)state;
	buffer_pool_init(&pool, BLOCK, 2);
	for (int step = 0; step < 100000; step++) {
		size_t n = random_below(&random, random_below(&random, 20) ? 100 : 3000);
		switch (random_below(&random, 4)) {
		case 0: /* more comes */
			if (!buffer.at)
				assert_true(buffer_acquire(&buffer, &pool));
			assert_true(buffer_reserve(&buffer, &pool, used + n + 1));
			assert_true(buffer_room(&buffer) >= n);
			for (size_t i = 0; i < n; i++)
				model[used + i] = (char)random_next(&random);
			put(&buffer, model + used, n);
			used += n;
			break;
		case 1: /* some is taken */
		case 2:
			n = n < used ? n : used;
			if (n == 0)
				break;
			memmove(model, model + n, used - n);
			used -= n;
			buffer.start += (uint32_t)n;
			break;
		default: /* none left: the block goes */
			if (used == 0)
				buffer_release(&buffer, &pool);
		}
		assert_true(pool.free_count <= 2);
		assert_true(!buffer.at ||
			    (buffer.start <= buffer.end && buffer.end <= buffer.capacity));
		if (used == 0 && !buffer.at)
			continue;
		assert_int_equal(buffer_used(&buffer), used);
		assert_memory_equal(buffer_head(&buffer), model, used);
	}
	buffer_release(&buffer, &pool);
	buffer_pool_clear(&pool);
}

UNIT_SUITE(test_buffer)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_reused),
		cmocka_unit_test(room_is_made),
		cmocka_unit_test(random_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
