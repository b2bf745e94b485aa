/*
 * A hash table of links that its elements embed. No operation takes longer because there are many
 * elements: when the chains are to be doubled, each insertion moves two of them.
 *
 *   older   [ moved | moved | chain | chain ]      chains before `moved` are empty, and are found
 *   chains  [ chain | chain | - | - | chain | ...    here; those behind it still in `older`
 *
 * The user compares keys and hashes them: by a secret seed (throttle_hash) where anybody can choose
 * them. Zeroed memory is an empty table; it does not own its elements. One thread at a time.
 */
#ifndef BASE_HASH_TABLE_H
#define BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_link {
	struct hash_link *next;
	uint64_t hash;
};

struct hash_table {
	struct hash_link **chains, **older; /* of `mask` + 1 and `older_mask` + 1; older: or NULL */
	size_t mask, older_mask, moved, count;
	uint64_t steps; /* links that were looked at or moved: for tests of what operations cost */
};

/* Makes the first chains, so that no insertion can fail. False without memory. */
bool hash_table_begin(struct hash_table *table);
/* Frees the chains; the table is empty. */
void hash_table_end(struct hash_table *table);

/* False without memory for the first chains. (Without memory for more the present ones get longer.)
 */
bool hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash);
void hash_table_remove(struct hash_table *table, struct hash_link *link);

/* The elements of this hash, of which there may be several, the newest first; NULL: no more. */
struct hash_link *hash_table_first(struct hash_table *table, uint64_t hash);
struct hash_link *hash_table_next(struct hash_table *table, const struct hash_link *link);

#endif
