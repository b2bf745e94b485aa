#include "base/log_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static void ring_wraps_at_every_length(void **state)
{
	struct log_ring ring;
	char line[600];

	(void)state;
	assert_int_equal(log_ring_init(&ring, 1), 0);
	for (unsigned round = 0; round < 3000; round++) {
		uint32_t len = round % sizeof(line);
		for (uint32_t i = 0; i < len; i++)
			line[i] = (char)(round + i);
		for (unsigned copy = 0; copy < 3; copy++)
			assert_true(log_ring_put(&ring, (struct log_record){.len = len}, line) > 0);
		for (unsigned copy = 0; copy < 3; copy++) {
			struct log_record record;
			struct iovec span[2];
			assert_true(log_ring_peek(&ring, &record, span));
			assert_int_equal(record.len, len);
			assert_int_equal(span[0].iov_len + span[1].iov_len, len);
			assert_memory_equal(span[0].iov_base, line, span[0].iov_len);
			assert_memory_equal(
				span[1].iov_base, line + span[0].iov_len, span[1].iov_len);
			log_ring_release(&ring);
		}
		assert_int_equal(log_ring_used(&ring), 0);
	}
	log_ring_free(&ring);
}

static void ring_refuses_what_does_not_fit(void **state)
{
	struct log_ring ring;
	char line[4096] = {0};
	unsigned taken = 0;

	(void)state;
	assert_int_equal(log_ring_init(&ring, 4096), 0);
	assert_int_equal(log_ring_put(&ring, (struct log_record){.len = 4096}, line), 0);
	while (log_ring_put(&ring, (struct log_record){.len = 56}, line) > 0)
		taken++;
	assert_int_equal(taken, 4096 / 64);
	assert_int_equal(atomic_load(&ring.dropped), 2);
	log_ring_release(&ring);
	assert_int_equal(log_ring_put(&ring, (struct log_record){.len = 56}, line), 4096);
	log_ring_free(&ring);
}

UNIT_SUITE(test_log_ring)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_wraps_at_every_length),
		cmocka_unit_test(ring_refuses_what_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
