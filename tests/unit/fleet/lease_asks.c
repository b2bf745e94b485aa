#include "lease_asks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/integers.h"

struct lease_node node;
struct stats *stats;
struct account account;
struct question question;
unsigned went_on;
bool was_answered;
int64_t epoch_said;

void lease_went_on(struct lease_node *of, struct question *asked, bool answered)
{
	assert_ptr_equal(of, &node);
	assert_ptr_equal(asked, &question);
	went_on++;
	was_answered = answered;
}

void lease_at(uint64_t ms)
{
	lease_node_set_time(&node, ms * MS);
}

struct account_charge *lease_charge(uint64_t cost)
{
	struct account_charge *charge = &account.charges[0];

	account.count = 1;
	account.refused = false;
	*charge = (struct account_charge){.caller = {77, 0x12345600},
		.rule = {.quota = 100, .window_us = WINDOW_MS * 1000, .quantum_us = 1},
		.limit = "it",
		.name_hash = limit_hash_name("it"),
		.cost = cost,
		.local = -1,
		.way = &lease_way,
		.said = WAY_ASK};
	return charge;
}

void lease_name_limit(struct account_charge *charge, const char *limit)
{
	charge->limit = limit;
	charge->name_hash = limit_hash_name(limit);
}

int lease_begin(void **state)
{
	(void)state;
	stats = stats_new(1);
	node = (struct lease_node){.went_on = lease_went_on};
	lease_node_init(&node, 4, stats_block(stats, 0));
	lease_at(BEGIN_MS);
	account = (struct account){.worker = &node.fleet};
	question = (struct question){.account = &account};
	went_on = 0;
	lease_charge(1);
	return 0;
}

int lease_end(void **state)
{
	(void)state;
	lease_node_end(&node);
	stats_free(stats);
	return 0;
}

enum way_verdict lease_take_of(struct account_charge *charge)
{
	account.now_ns = node.now_ns;
	return lease_way.take(&account, charge);
}

enum way_verdict lease_take(void)
{
	return lease_take_of(&account.charges[0]);
}

unsigned lease_in_hand(void)
{
	return (unsigned)hands_look(&node.hands, hand_ms(node.now_ns)).units;
}

void lease_ask_it(void)
{
	lease_ask(fleet_filling(&node.fleet, FLEET_LEASE, account.charges[0].caller, account.count),
		&question, &account);
}

uint64_t lease_counted(unsigned slot)
{
	return atomic_load(&stats_row(stats_block(stats, 0), STATS_NODE, 0)[slot]);
}

/* ---- what is asked --------------------------------------------------------------------------- */

struct asked lease_asked(void)
{
	struct asked asked = {.count = 0};
	struct integers words = {0};

	if (!node.filling)
		return asked;
	words.at = (const uint8_t *)node.filling->batch.words.at;
	words.end = words.at + node.filling->batch.words.len;
	words.left = asked.count = node.filling->batch.word_count;
	assert_true(asked.count <= 64);
	for (unsigned i = 0; i < asked.count; i++)
		asked.words[i] = integers_next(&words);
	assert_false(words.wrong);
	return asked;
}

void lease_assert_asked(const int64_t *of)
{
	struct asked got = lease_asked();

	assert_int_equal(got.count, 12);
	assert_int_equal(got.words[0], 1);
	assert_int_equal(got.words[1], 1);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(got.words[4 + i], of[i]);
}

/* ---- what is answered ------------------------------------------------------------------------ */

void lease_answer_it(unsigned count, bool admitted, const struct said *of)
{
	struct fleet_batch *batch = lease_node_take_batch(&node);
	uint8_t bytes[256];
	size_t len = integers_head(bytes, 3 + 6 * count);

	len += integers_put(bytes + len, 1000);
	len += integers_put(bytes + len, 9);
	len += integers_put(bytes + len, admitted);
	for (unsigned i = 0; i < count; i++) {
		len += integers_put(bytes + len, of[i].used);
		len += integers_put(bytes + len, of[i].slot);
		len += integers_put(bytes + len, of[i].kept);
		len += integers_put(bytes + len, of[i].got);
		if (of[i].time_us == UINT64_MAX)
			bytes[len++] = 0xff; /* -1 */
		else
			len += integers_put(bytes + len, of[i].time_us);
		len += integers_put(bytes + len, of[i].fits);
	}
	lease_answer(batch, (const char *)bytes, len);
	assert_int_equal(batch->part_count, 0);
	lease_node_put_batch(&node, batch);
	epoch_said = 9;
}

void lease_lose_answer(void)
{
	struct fleet_batch *batch = lease_node_take_batch(&node);

	lease_answer(batch, NULL, 0);
	lease_node_put_batch(&node, batch);
}

void lease_get(uint64_t units, uint64_t used)
{
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){used, 5, 0, units, 0, 1});
}
