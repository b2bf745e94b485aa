/* What two nodes prove to each other. */
#include "base/hop_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

#define A      "00112233445566778899aabbccddeeff"
#define B      "ffeeddccbbaa99887766554433221100"
#define SECRET SLICE("of the fleet")

static struct slice prove(enum hop_side side, char out[HOP_PROOF_BYTES])
{
	return (struct slice){out, hop_prove(SECRET, side, A, B, out)};
}

static void a_proof_is_that_of_its_side_and_connection_alone(void **state)
{
	char asker[HOP_PROOF_BYTES], owner[HOP_PROOF_BYTES];
	const struct slice of_asker = prove(HOP_ASKER, asker), of_owner = prove(HOP_OWNER, owner);

	(void)state;
	assert_true(hop_is_proof(SECRET, HOP_ASKER, A, B, of_asker));
	assert_true(hop_is_proof(SECRET, HOP_OWNER, A, B, of_owner));
	assert_false(hop_is_proof(SECRET, HOP_OWNER, A, B, of_asker));
	assert_false(hop_is_proof(SECRET, HOP_ASKER, A, B, of_owner));
	assert_false(hop_is_proof(SECRET, HOP_ASKER, B, A, of_asker));
	assert_false(hop_is_proof(SECRET, HOP_ASKER, A, A, of_asker));
	assert_false(hop_is_proof(SLICE("of another"), HOP_ASKER, A, B, of_asker));
}

static void what_is_changed_is_no_proof(void **state)
{
	char proof[HOP_PROOF_BYTES], room[2 * HOP_PROOF_BYTES] = {0};
	const struct slice good = prove(HOP_ASKER, proof);

	(void)state;
	for (size_t i = 0; i < good.len; i++) {
		memcpy(room, good.at, good.len);
		room[i] = room[i] == 'x' ? 'y' : 'x';
		assert_false(hop_is_proof(SECRET, HOP_ASKER, A, B, (struct slice){room, good.len}));
		assert_false(hop_is_proof(SECRET, HOP_ASKER, A, B, (struct slice){good.at, i}));
	}
	assert_false(hop_is_proof(SECRET, HOP_ASKER, A, B, (struct slice){room, sizeof(room)}));
}

static void nonces(void **state)
{
	char one[HOP_NONCE_BYTES], other[HOP_NONCE_BYTES];

	(void)state;
	assert_true(hop_draw_nonce(one) && hop_draw_nonce(other));
	assert_string_not_equal(one, other);
	assert_true(hop_is_nonce(slice_of(one)));
	assert_false(hop_is_nonce(SLICE("")));
	assert_false(hop_is_nonce(SLICE("00112233445566778899aabbccddeef")));
	assert_false(hop_is_nonce(SLICE("00112233445566778899aabbccddeeffa")));
	assert_false(hop_is_nonce(SLICE("00112233445566778899AABBCCDDEEFF")));
	assert_false(hop_is_nonce(SLICE("00112233445566778899aabbccdde\"ff")));
}

UNIT_SUITE(test_hop_proof)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proof_is_that_of_its_side_and_connection_alone),
		cmocka_unit_test(what_is_changed_is_no_proof),
		cmocka_unit_test(nonces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
