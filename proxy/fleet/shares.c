#include "fleet/shares.h"

#include <stdio.h>
#include <stdlib.h>

#define EXACT_WORD UINT64_MAX

void shares_init(struct shares *shares)
{
	for (unsigned i = 0; i < SHARES_MOST; i++)
		atomic_init(&shares->all[i], NULL);
}

void shares_end(struct shares *shares)
{
	for (unsigned i = 0; i < SHARES_MOST; i++)
		free(atomic_load(&shares->all[i]));
}

const struct share_cell *shares_cell(const struct shares *shares, uint32_t number)
{
	return number < SHARES_MOST ? /* acquire: the name, and that it is zeroed */
		       atomic_load_explicit(&shares->all[number], memory_order_acquire)
				    : NULL;
}

static struct share_cell *own_cell(struct shares *shares, uint32_t number)
{
	return number < SHARES_MOST ? /* relaxed: this thread has set it */
		       atomic_load_explicit(&shares->all[number], memory_order_relaxed)
				    : NULL;
}

bool shares_add(struct shares *shares, uint32_t number, const char *name, uint64_t quota)
{
	struct share_cell *cell;

	if (number >= SHARES_MOST)
		return false;
	if (own_cell(shares, number))
		return true;
	cell = calloc(1, sizeof(*cell));
	if (!cell)
		return false;
	snprintf(cell->name, sizeof(cell->name), "%s", name);
	atomic_init(&cell->quota, quota);
	/* release: pairs with shares_cell */
	atomic_store_explicit(&shares->all[number], cell, memory_order_release);
	return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Floor of units * part / whole, part <= whole. */
static uint64_t part_of(uint64_t units, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)units * part / whole);
}

struct share shares_read(
	const struct shares *shares, uint32_t number, uint64_t quota, uint64_t now_ns)
{
	const struct share_cell *cell = shares_cell(shares, number);
	struct share share = {.kind = SHARE_NONE};
	uint64_t word, again;

	if (!cell)
		return share;
	/* The time first: a later one belongs to the same or a newer number of units, which is
	 * stored before it (acquire, with the release in shares_set). */
	share.until_ns = atomic_load_explicit(&cell->until_ns, memory_order_acquire);
	again = atomic_load_explicit(&cell->word, memory_order_acquire);
	do { /* the quota is that of the units: these are read again after it */
		word = again;
		share.quota = atomic_load_explicit(&cell->quota, memory_order_acquire);
		again = atomic_load_explicit(&cell->word, memory_order_acquire);
	} while (again != word);
	share.grows_ns = atomic_load_explicit(&cell->grows_ns, memory_order_relaxed); /* a hint */
	if (now_ns >= share.until_ns)
		return share;
	share.kind = word == EXACT_WORD ? SHARE_EXACT : SHARE_UNITS;
	share.units = word == EXACT_WORD ? 0 : word;
	if (quota < share.quota)
		share.units = part_of(share.units, quota, share.quota);
	return share;
}

/* ---- setting --------------------------------------------------------------------------------- */

struct share shares_held(const struct shares *shares, uint32_t number, uint64_t now_ns)
{
	return shares_read(shares, number, UINT64_MAX, now_ns);
}

void shares_set(struct shares *shares, uint32_t number, const struct share *share, uint32_t nodes)
{
	struct share_cell *cell = own_cell(shares, number);

	if (!cell)
		return;
	atomic_store_explicit(&cell->word,
		share->kind == SHARE_EXACT   ? EXACT_WORD
		: share->kind == SHARE_UNITS ? share->units
					     : 0,
		memory_order_release);
	atomic_store_explicit(&cell->grows_ns, share->grows_ns, memory_order_relaxed);
	atomic_store_explicit(&cell->nodes, nodes, memory_order_relaxed);
	/* release: after the units, see shares_read */
	atomic_store_explicit(&cell->until_ns, share->kind == SHARE_NONE ? 0 : share->until_ns,
		memory_order_release);
}

void shares_scale(struct shares *shares, uint32_t number, uint64_t quota)
{
	struct share_cell *cell = own_cell(shares, number);

	if (!cell)
		return;
	uint64_t before = atomic_load_explicit(&cell->quota, memory_order_relaxed);
	uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
	if (quota < before && word != EXACT_WORD)
		atomic_store_explicit(
			&cell->word, part_of(word, quota, before), memory_order_release);
	atomic_store_explicit(&cell->quota, quota, memory_order_release);
}
