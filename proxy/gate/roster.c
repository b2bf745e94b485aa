/* The tables of a roster. See roster.h; its file is roster_file.c. */
#include "gate/roster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "gate/text_set.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static struct roster_table *table_new(size_t size)
{
	struct roster_table *table =
		calloc(1, sizeof(*table) + size * sizeof(struct roster_entry * _Atomic));

	if (table)
		table->mask = size - 1;
	return table;
}

static uint64_t hash_of_key(struct slice key)
{
	return text_hash(key);
}

/* Callers' hashes are spread already. */
static uint64_t hash_of_caller(uint64_t caller)
{
	return caller >> 32 | caller << 32;
}

/* The entry, or the free place that it would have in `*at`. */
static struct roster_entry *find_entry(const struct roster_table *table, uint64_t hash,
	struct slice key, uint64_t caller, size_t *at)
{
	size_t i = hash & table->mask;

	for (;; i = (i + 1) & table->mask) {
		/* acquire: pairs with the release in add_entry, so the entry is seen whole */
		struct roster_entry *entry =
			atomic_load_explicit(&table->places[i], memory_order_acquire);
		if (!entry || (entry->hash == hash && entry->caller == caller &&
				      slice_equal(entry->key, key))) {
			*at = i;
			return entry;
		}
	}
}

static struct roster_table *current(const struct roster_side *side)
{
	/* acquire: pairs with the release in grow */
	return atomic_load_explicit(&side->table, memory_order_acquire);
}

static bool grow(struct roster_side *side)
{
	struct roster_table *old = current(side),
			    *table = table_new(old ? 2 * (old->mask + 1) : 64);
	size_t at;

	if (!table)
		return false;
	for (struct roster_entry *entry = side->entries; entry; entry = entry->next) {
		find_entry(table, entry->hash, entry->key, entry->caller, &at);
		/* relaxed: published with the table */
		atomic_store_explicit(&table->places[at], entry, memory_order_relaxed);
	}
	table->older = old; /* somebody may be looking at it */
	/* release: pairs with the acquire in current */
	atomic_store_explicit(&side->table, table, memory_order_release);
	return true;
}

static struct roster_entry *entry_new(uint64_t hash, struct slice key, uint64_t caller)
{
	struct roster_entry *entry = calloc(1, sizeof(*entry) + key.len);

	if (!entry)
		return NULL;
	if (key.len > 0)
		memcpy(entry->text, key.at, key.len);
	entry->hash = hash;
	entry->caller = caller;
	entry->key = (struct slice){entry->text, key.len};
	return entry;
}

static void add_entry(struct roster_side *side, struct roster_entry *entry)
{
	struct roster_table *table = current(side);
	size_t at;

	find_entry(table, entry->hash, entry->key, entry->caller, &at);
	entry->next = side->entries;
	side->entries = entry;
	side->count++;
	/* release: pairs with the acquire in find_entry */
	atomic_store_explicit(&table->places[at], entry, memory_order_release);
}

/* Room for one more; at most half of the places are taken. */
static bool has_room(struct roster_side *side)
{
	struct roster_table *table = current(side);

	return (table && side->count < (table->mask + 1) / 2) || grow(side);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static uint64_t find_value(
	const struct roster_side *side, uint64_t hash, struct slice key, uint64_t caller)
{
	const struct roster_table *table = current(side);
	const struct roster_entry *entry;
	size_t at;

	if (!table)
		return 0;
	entry = find_entry(table, hash, key, caller, &at);
	/* relaxed: all of a value is in this word */
	return entry ? atomic_load_explicit(&entry->value, memory_order_relaxed) : 0;
}

bool roster_has_keys(const struct roster *roster)
{
	return current(&roster->keys) != NULL;
}

bool roster_has_overrides(const struct roster *roster)
{
	return current(&roster->overrides) != NULL;
}

uint32_t roster_find_text(const struct roster *roster, struct slice text)
{
	return (uint32_t)find_value(&roster->keys, hash_of_key(text), text, 0);
}

uint32_t roster_find_key(const struct roster *roster, struct slice key)
{
	uint32_t plan = digest_is_text(key) ? 0 : roster_find_text(roster, key);
	char digest[DIGEST_TEXT_BYTES];

	/* relaxed: it is set before the first of them is there to be found */
	if (plan != ROSTER_PLAN_NONE || key.len == 0 ||
		!atomic_load_explicit(&roster->has_digests, memory_order_relaxed))
		return plan;
	digest_text(key, digest);
	return roster_find_text(roster, (struct slice){digest, sizeof(digest)});
}

struct roster_override roster_find_override(
	const struct roster *roster, uint64_t caller, uint64_t now_s)
{
	uint64_t value = find_value(&roster->overrides, hash_of_caller(caller), SLICE_NONE, caller);
	struct roster_override override = roster_unpack(value);

	return override.until_s > now_s ? override : (struct roster_override){0};
}

bool roster_is_in_force(const struct roster *roster, uint64_t now_s)
{
	/* relaxed: this thread has written them */
	for (struct roster_entry *entry = roster->keys.entries; entry; entry = entry->next) {
		if (atomic_load_explicit(&entry->value, memory_order_relaxed) != ROSTER_PLAN_NONE)
			return true;
	}
	for (struct roster_entry *entry = roster->overrides.entries; entry; entry = entry->next) {
		if (roster_find_override(roster, entry->caller, now_s).kind != ROSTER_NO_OVERRIDE)
			return true;
	}
	return false;
}

/* ---- changing -------------------------------------------------------------------------------- */

uint32_t roster_plan_number(struct roster *roster, const char *name)
{
	char **names;

	for (uint32_t i = 0; i < roster->plan_count; i++) {
		if (strcmp(roster->plans[i], name) == 0)
			return i + 1;
	}
	names = realloc(roster->plans, (roster->plan_count + 1) * sizeof(*names));
	if (!names || roster->plan_count + 1 > ROSTER_PLANS_MAX)
		return 0;
	roster->plans = names;
	names[roster->plan_count] = strdup(name);
	return names[roster->plan_count] ? ++roster->plan_count : 0;
}

const char *roster_plan_name(const struct roster *roster, uint32_t plan)
{
	return plan > 0 && plan <= roster->plan_count ? roster->plans[plan - 1] : NULL;
}

static int put(struct roster *roster, struct roster_side *side, uint64_t hash, struct slice key,
	uint64_t caller, uint64_t value, uint64_t now_s)
{
	struct roster_entry *entry = NULL, *made = NULL;
	size_t at;
	int error;

	if (!has_room(side))
		return ENOMEM;
	entry = find_entry(current(side), hash, key, caller, &at);
	if (!entry && !(entry = made = entry_new(hash, key, caller)))
		return ENOMEM;
	error = roster_write(roster, side, entry, value, now_s);
	if (error != 0) {
		free(made);
		return error;
	}
	/* relaxed: all of a value is in this word; a new entry is published below */
	atomic_store_explicit(&entry->value, value, memory_order_relaxed);
	if (made)
		add_entry(side, made);
	return 0;
}

int roster_put_key(struct roster *roster, struct slice key, uint32_t plan, uint64_t now_s)
{
	if (digest_is_text(key))
		atomic_store_explicit(&roster->has_digests, true, memory_order_relaxed);
	return put(roster, &roster->keys, hash_of_key(key), key, 0, plan, now_s);
}

int roster_put_override(struct roster *roster, uint64_t caller,
	const struct roster_override *override, uint64_t now_s)
{
	return put(roster, &roster->overrides, hash_of_caller(caller), SLICE_NONE, caller,
		roster_pack(override), now_s);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool roster_is_kept(const struct roster *roster)
{
	return roster->folder != NULL;
}

struct roster *roster_open(const char *folder, uint64_t now_s, char *why, size_t why_bytes)
{
	struct roster *roster = calloc(1, sizeof(*roster));

	snprintf(why, why_bytes, "%s", roster ? "" : "no memory");
	if (!roster)
		return NULL;
	if (folder && !(roster->folder = strdup(folder)))
		snprintf(why, why_bytes, "no memory");
	else if (!folder || roster_read(roster, now_s, why, why_bytes))
		return roster;
	roster_close(roster);
	return NULL;
}

static void clear_side(struct roster_side *side)
{
	struct roster_table *table = current(side);

	while (table) {
		struct roster_table *older = table->older;
		free(table);
		table = older;
	}
	while (side->entries) {
		struct roster_entry *entry = side->entries;
		side->entries = entry->next;
		free(entry);
	}
}

void roster_close(struct roster *roster)
{
	if (!roster)
		return;
	clear_side(&roster->keys);
	clear_side(&roster->overrides);
	for (uint32_t i = 0; i < roster->plan_count; i++)
		free(roster->plans[i]);
	free(roster->plans);
	free(roster->folder);
	free(roster);
}
