#include "fleet/batch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct batch_function batch_judge = {"sluice_judge_1", ":1", {"", "g", "c", "n"}, true};
const struct batch_function batch_lease = {"sluice_lease_1", ":lease", {"", "", "", ""}, false};

/* What the key of the store's epoch ends with, for both functions. */
#define EPOCH_SUFFIX ":1"

enum { CALLER_BYTES = 48 }; /* of a key, with its NUL */

enum {
	RULE_SHADOW = 1,
	RULE_WAITS = 2,
	RULE_COUNTS = 4,
	RULE_BANS = 8,
	RULE_KIND = 16,
	RULE_WAITS_YOUNG = 64
};

enum { ASK = 1, GIVE = 2, CHARGE = 3, LOOK = 4, HOLD = 5, FORGET = 6, RUN = 7 };

/* Of a rule: flags, quota, four times, how long it bans. */
enum { RULE_WORDS_MOST = 7 };

/* What batch_function.slot says of what was not charged. */
enum { SLOT_UNFIT = -1, SLOT_BANNED = -2 };

/* ---- texts ----------------------------------------------------------------------------------- */

static char *make_room(struct batch *batch, struct batch_text *text, size_t more)
{
	size_t size = text->size > 0 ? text->size : 1024;

	while (size < text->len + more)
		size *= 2;
	if (size > text->size) {
		char *at = realloc(text->at, size);
		if (!at) {
			batch->failed = true;
			return NULL;
		}
		text->at = at;
		text->size = size;
	}
	return text->at + text->len;
}

static void put(struct batch *batch, struct batch_text *text, const char *bytes, size_t len)
{
	char *at = make_room(batch, text, len);

	if (!at || len == 0)
		return;
	memcpy(at, bytes, len);
	text->len += len;
}

/* At most 64 bytes. */
static void put_line(struct batch *batch, struct batch_text *text, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void put_line(struct batch *batch, struct batch_text *text, const char *format, ...)
{
	char line[64];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	put(batch, text, line, (size_t)len);
}

static void put_word(struct batch *batch, uint64_t word)
{
	char *at = make_room(batch, &batch->words, INTEGERS_MOST_BYTES);

	if (!at)
		return;
	batch->words.len += integers_put((uint8_t *)at, word);
	batch->word_count++;
}

/* What comes next is another operation than one more request of the run. */
static void end_run(struct batch *batch)
{
	struct batch_run *run = &batch->run;

	if (run->requests == 0)
		return;
	put_word(batch, RUN);
	put_word(batch, run->limits);
	put_word(batch, run->requests);
	put_word(batch, run->first_key);
	for (uint32_t i = 0; i < run->limits; i++) {
		put_word(batch, run->rules[i]);
		put_word(batch, run->costs[i]);
	}
	run->requests = 0;
}

static void begin_operation(struct batch *batch, uint64_t kind)
{
	end_run(batch);
	put_word(batch, kind);
}

/* ---- keys and rules -------------------------------------------------------------------------- */

void batch_begin(struct batch *batch, const struct batch_function *function, const char *prefix,
	unsigned part)
{
	batch->function = function;
	batch->prefix = prefix;
	batch->part = part;
	batch->keys.len = batch->words.len = batch->all.len = 0;
	batch->key_count = batch->word_count = batch->rule_count = 0;
	batch->failed = false;
	batch->known_epoch = batch->holder = batch->lease_us = 0;
	batch->run.requests = 0;
	memset(batch->places, 0, sizeof(batch->places));
}

void batch_free(struct batch *batch)
{
	free(batch->keys.at);
	free(batch->words.at);
	free(batch->all.at);
	batch->keys = batch->words = batch->all = (struct batch_text){0};
}

bool batch_has_room(const struct batch *batch, unsigned limits)
{
	/* each may have another of its ban */
	return batch->key_count + 2 * limits < BATCH_KEYS_MOST &&
	       batch->rule_count + 2 * limits < BATCH_RULES_MOST;
}

/* What all keys of a part begin with, behind the prefix: a hash tag in braces, and what else tells
 * them apart. Without a cluster the caller is in the braces. Returns its length. */
static size_t write_caller(const struct batch *batch, struct throttle_key caller, char *out)
{
	char tag[SLOT_TAG_BYTES];

	if (batch->part == 0)
		return (size_t)sprintf(out, "{%016" PRIx64 "%016" PRIx64 "}", caller.hi, caller.lo);
	slot_write_tag(batch->part, tag);
	return (size_t)sprintf(out, "{%s}%016" PRIx64 "%016" PRIx64, tag, caller.hi, caller.lo);
}

static bool add_key(struct batch *batch, const struct batch_charge *charge, const char *kind)
{
	const char *suffix = batch->function->suffix;
	char caller[CALLER_BYTES];
	size_t len = strlen(batch->prefix) + write_caller(batch, charge->caller, caller) +
		     strlen(charge->limit) + strlen(suffix) + strlen(kind);
	char *at = make_room(batch, &batch->keys, len + 64);

	if (!at)
		return false;
	batch->has_ban[batch->key_count] = false;
	batch->key_at[batch->key_count++] = (uint32_t)batch->keys.len;
	batch->keys.len += (size_t)sprintf(at, "$%zu\r\n%s%s%s%s%s\r\n", len, batch->prefix, caller,
		charge->limit, suffix, kind);
	return true;
}

/* Its number, from 2 on: 1 is the epoch's. 0 without memory. That of a new caller's refusals, if it
 * may be banned, is the next. */
static uint32_t key_number(struct batch *batch, const struct batch_charge *charge)
{
	size_t place = (charge->caller.lo >> 4 ^ (unsigned char)charge->limit[0]) % BATCH_PLACES;
	size_t begin = batch->keys.len;

	if (!add_key(batch, charge, batch->function->kinds[charge->rule->kind]))
		return 0;
	size_t len = batch->keys.len - begin;
	for (; batch->places[place] != 0; place = (place + 1) % BATCH_PLACES) {
		uint32_t other = batch->places[place] - 1u;
		uint32_t ends = batch->key_at[other + 1];
		if (ends - batch->key_at[other] == len &&
			memcmp(batch->keys.at + batch->key_at[other], batch->keys.at + begin,
				len) == 0) {
			batch->key_count--;
			batch->keys.len = begin;
			return other + 2;
		}
	}
	uint32_t number = batch->key_count + 1;
	batch->places[place] = (uint16_t)batch->key_count;
	batch->has_ban[number - 2] = charge->rule->ban_count > 0 && add_key(batch, charge, "b");
	return number;
}

/* That of a ban's refusals is the next. */
static uint32_t rule_number(struct batch *batch, const struct rule *rule)
{
	uint32_t i = 0;

	while (i < batch->rule_count && !rule_is_same(&batch->rules[i], rule))
		i += 1 + (batch->rules[i].ban_count > 0);
	if (i == batch->rule_count) {
		batch->rules[batch->rule_count++] = *rule;
		if (rule->ban_count > 0)
			batch->rules[batch->rule_count++] = rule_of_ban(rule);
	}
	return i + 1;
}

/* A caller that this batch knows from before a reload by a rule without a ban is not banned by this
 * batch. */
static void put_caller(struct batch *batch, const struct batch_charge *charge)
{
	uint32_t number = key_number(batch, charge);
	struct rule rule = *charge->rule;

	if (number == 0 || !batch->has_ban[number - 2]) {
		rule.ban_count = 0;
		rule.ban_per_us = rule.ban_for_us = 0;
	}
	put_word(batch, number);
	put_word(batch, rule_number(batch, &rule));
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Are they judged the same whatever the callers have done? */
static bool may_run(const struct batch_charge *charges, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct rule *rule = charges[i].rule;
		if (rule->kind != RULE_RING || rule->counts_refused || rule->ban_count > 0 ||
			charges[i].cost == 0)
			return false;
	}
	return count > 0 && count <= BATCH_RUN_LIMITS;
}

/* Are all the callers new to the batch? They are known then, by numbers from `first` on. */
static bool are_new(
	struct batch *batch, const struct batch_charge *charges, unsigned count, uint32_t first)
{
	for (unsigned i = 0; i < count; i++) {
		if (key_number(batch, &charges[i]) != first + i)
			return false;
	}
	return true;
}

static bool goes_on(const struct batch_run *a, const struct batch_run *b)
{
	return a->requests > 0 && a->limits == b->limits &&
	       b->first_key == a->first_key + a->requests * a->limits &&
	       memcmp(a->rules, b->rules, a->limits * sizeof(a->rules[0])) == 0 &&
	       memcmp(a->costs, b->costs, a->limits * sizeof(a->costs[0])) == 0;
}

/* The request continues with the run, or begins one. False: it is none for a run. */
static bool put_in_run(struct batch *batch, const struct batch_charge *charges, unsigned count)
{
	struct batch_run one = {.limits = count, .requests = 1, .first_key = batch->key_count + 2};

	if (!may_run(charges, count) || !are_new(batch, charges, count, one.first_key))
		return false;
	for (unsigned i = 0; i < count; i++) {
		one.rules[i] = rule_number(batch, charges[i].rule);
		one.costs[i] = charges[i].cost;
	}
	if (goes_on(&batch->run, &one)) {
		batch->run.requests++;
		return true;
	}
	end_run(batch);
	batch->run = one;
	return true;
}

void batch_ask(struct batch *batch, const struct batch_charge *charges, unsigned count, bool takes)
{
	if (takes && batch->function->has_runs && put_in_run(batch, charges, count))
		return;
	begin_operation(batch, takes ? ASK : LOOK);
	put_word(batch, count);
	for (unsigned i = 0; i < count; i++) {
		put_caller(batch, &charges[i]);
		put_word(batch, charges[i].cost);
	}
}

void batch_give(
	struct batch *batch, const struct batch_charge *charge, uint64_t slot, uint64_t epoch)
{
	begin_operation(batch, GIVE);
	put_caller(batch, charge);
	put_word(batch, slot);
	put_word(batch, charge->cost);
	put_word(batch, epoch);
}

void batch_charge(struct batch *batch, const struct batch_charge *charge)
{
	begin_operation(batch, CHARGE);
	put_caller(batch, charge);
	put_word(batch, charge->cost);
}

void batch_hold(
	struct batch *batch, const struct batch_charge *charge, uint64_t held, bool is_settled)
{
	begin_operation(batch, HOLD);
	put_caller(batch, charge);
	put_word(batch, held);
	put_word(batch, is_settled);
}

void batch_forget(struct batch *batch, const struct batch_charge *charge)
{
	begin_operation(batch, FORGET);
	put_caller(batch, charge);
}

void batch_ask_lease(struct batch *batch, const struct batch_charge *charges,
	const struct batch_lease *leases, unsigned count)
{
	begin_operation(batch, ASK);
	put_word(batch, count);
	for (unsigned i = 0; i < count; i++) {
		const struct batch_lease *lease = &leases[i];
		put_caller(batch, &charges[i]);
		put_word(batch, charges[i].cost);
		put_word(batch, lease->slot);
		put_word(batch, lease->units);
		put_word(batch, lease->used);
		put_word(batch, lease->keep);
		put_word(batch, lease->want);
		put_word(batch, lease->term_us);
		put_word(batch, lease->epoch);
	}
}

void batch_give_lease(
	struct batch *batch, const struct batch_charge *charge, uint64_t epoch, uint64_t since_us)
{
	begin_operation(batch, GIVE);
	put_caller(batch, charge);
	put_word(batch, charge->cost);
	put_word(batch, epoch);
	put_word(batch, since_us);
}

void batch_know(struct batch *batch, uint64_t epoch)
{
	batch->known_epoch = epoch;
}

void batch_hold_as(struct batch *batch, uint64_t holder, uint64_t lease_us)
{
	batch->holder = holder;
	batch->lease_us = lease_us;
}

/* One rule as judge.lua reads it: in `words`. Returns how many. */
static unsigned rule_words(const struct rule *rule, uint64_t *words)
{
	unsigned count = 0;

	words[count++] = (rule->shadow ? RULE_SHADOW : 0u) + (rule->waits ? RULE_WAITS : 0u) +
			 (rule->counts_refused ? RULE_COUNTS : 0u) +
			 (rule->ban_count > 0 ? RULE_BANS : 0u) + RULE_KIND * (unsigned)rule->kind +
			 (rule->waits_young ? RULE_WAITS_YOUNG : 0u);
	words[count++] = rule->quota;
	switch (rule->kind) {
	case RULE_GCRA:
	case RULE_RING:
		words[count++] = rule->window_us;
		words[count++] = rule->kind == RULE_RING ? rule->quantum_us : rule->burst;
		break;
	case RULE_CALENDAR:
		for (int i = 0; i < RULE_EDGES; i++)
			words[count++] = rule->edges[i];
		break;
	case RULE_HOLDERS:
		break;
	}
	if (rule->ban_count > 0)
		words[count++] = rule->ban_for_us;
	return count;
}

enum { RULES_BYTES = INTEGERS_MOST_BYTES * (3 + RULE_WORDS_MOST * BATCH_RULES_MOST) };

/* Where no limit asks who holds, requests of all workers have the same text, which the store then
 * knows (operate.lua). */
static bool has_holders(const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->rule_count; i++) {
		if (batch->rules[i].kind == RULE_HOLDERS)
			return true;
	}
	return false;
}

/* All numbers, of which the operations follow, are counted in the head. */
static size_t write_rules(const struct batch *batch, uint8_t *out)
{
	size_t len = 0, head;
	uint8_t rules[RULES_BYTES];
	uint32_t count = 3;

	len += integers_put(rules, has_holders(batch) ? batch->holder : 0);
	len += integers_put(rules + len, batch->lease_us);
	len += integers_put(rules + len, batch->rule_count);
	for (uint32_t i = 0; i < batch->rule_count; i++) {
		uint64_t words[RULE_WORDS_MOST];
		unsigned n = rule_words(&batch->rules[i], words);
		for (unsigned k = 0; k < n; k++)
			len += integers_put(rules + len, words[k]);
		count += n;
	}
	head = integers_head(out, count + batch->word_count);
	memcpy(out + head, rules, len);
	return head + len;
}

/* The key of the epoch: of the store, or of the part. */
static void put_epoch(struct batch *batch)
{
	char tag[SLOT_TAG_BYTES] = "", key[32];

	if (batch->part > 0)
		slot_write_tag(batch->part, tag);
	snprintf(key, sizeof(key),
		batch->part > 0 ? "{%s}epoch" EPOCH_SUFFIX : "%s{epoch}" EPOCH_SUFFIX, tag);
	put_line(batch, &batch->all, "$%zu\r\n", strlen(batch->prefix) + strlen(key));
	put(batch, &batch->all, batch->prefix, strlen(batch->prefix));
	put_line(batch, &batch->all, "%s\r\n", key);
}

bool batch_compose(struct batch *batch, const char **command, size_t *len)
{
	uint8_t rules[INTEGERS_HEAD_BYTES + RULES_BYTES];
	end_run(batch);
	size_t rules_len = write_rules(batch, rules);
	struct batch_text *all = &batch->all;
	char count[24];

	all->len = 0;
	int digits = snprintf(count, sizeof(count), "%u", batch->key_count + 1);
	put_line(batch, all, "*%u\r\n$5\r\nFCALL\r\n", batch->key_count + 6);
	put_line(
		batch, all, "$%zu\r\n%s\r\n", strlen(batch->function->name), batch->function->name);
	put_line(batch, all, "$%d\r\n%s\r\n", digits, count);
	put_epoch(batch);
	put(batch, all, batch->keys.at, batch->keys.len);
	put_line(batch, all, "$%zu\r\n", rules_len + batch->words.len);
	put(batch, all, (const char *)rules, rules_len);
	put(batch, all, batch->words.at, batch->words.len);
	digits = snprintf(count, sizeof(count), "%" PRIu64, batch->known_epoch);
	put_line(batch, all, "\r\n$%d\r\n%s\r\n", digits, count);
	*command = all->at;
	*len = all->len;
	return !batch->failed;
}

/* ---- the answer ------------------------------------------------------------------------------ */

bool answer_begin(
	struct answer *answer, const struct batch_function *function, const void *bytes, size_t len)
{
	if (function->has_runs)
		integers_begin_doubles(&answer->numbers, bytes, len);
	else
		integers_begin(&answer->numbers, bytes, len);
	answer->now_us = (uint64_t)integers_next(&answer->numbers);
	answer->epoch = (uint64_t)integers_next(&answer->numbers);
	return !answer->numbers.wrong;
}

/* One limit's of which the store says some of what it keeps of the caller (ring.lua). It was
 * charged in the newest slot, and has something left. */
static void read_kept(
	struct answer *answer, int64_t used, const struct rule *rule, struct answer_limit *limit)
{
	uint64_t newest = (uint64_t)integers_next(&answer->numbers);
	uint64_t ends = (newest + 1) * rule->quantum_us + rule->window_us;

	integers_next(&answer->numbers); /* the count of that slot */
	*limit = (struct answer_limit){.used = (uint64_t)used, .slot = newest, .fits = true};
	limit->time_us = (int64_t)(ends - answer->now_us);
	if (newest == 0 || limit->time_us < 0)
		answer->numbers.wrong = true;
}

static void read_judged(struct answer *answer, struct answer_limit *limit)
{
	limit->used = (uint64_t)integers_next(&answer->numbers);
	int64_t slot = integers_next(&answer->numbers);
	limit->fits = slot >= 0;
	limit->is_banned = slot == SLOT_BANNED;
	limit->slot = slot > 0 ? (uint64_t)slot : 0;
	limit->time_us = integers_next(&answer->numbers);
}

bool answer_verdict(struct answer *answer, const struct rule *const *rules, unsigned count,
	bool *admitted, struct answer_limit *limits)
{
	int64_t first = integers_next(&answer->numbers);

	*admitted = first != 0;
	for (unsigned i = 0; i < count; i++) {
		if (first <= 0)
			read_judged(answer, &limits[i]);
		else
			read_kept(answer, i == 0 ? first : integers_next(&answer->numbers),
				rules[i], &limits[i]);
	}
	return !answer->numbers.wrong;
}

bool answer_leases(
	struct answer *answer, unsigned count, bool *admitted, struct answer_lease *limits)
{
	*admitted = integers_next(&answer->numbers) == 1;
	for (unsigned i = 0; i < count; i++) {
		limits[i].used = (uint64_t)integers_next(&answer->numbers);
		limits[i].slot = (uint64_t)integers_next(&answer->numbers);
		limits[i].kept = (uint64_t)integers_next(&answer->numbers);
		limits[i].got = (uint64_t)integers_next(&answer->numbers);
		limits[i].time_us = integers_next(&answer->numbers);
		limits[i].fits = integers_next(&answer->numbers) == 1;
	}
	return !answer->numbers.wrong;
}
