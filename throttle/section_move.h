/* From an older section to a newer one, and from a level to the next; see section_move.c. */
#ifndef THROTTLE_SECTION_MOVE_H
#define THROTTLE_SECTION_MOVE_H

#include "throttle/section.h"

/* In section.c. */
struct throttle_key section_key_of(const struct section *section, uint64_t bucket, uint64_t tag);
uint64_t section_tag(uint64_t fingerprint, unsigned way, unsigned sequence);
/* One caller more has a place. */
void section_count_entry(const struct section *section);
/* No more insertions, charges or refunds in it: all of it stays as it is. The first decision stays,
 * to split it or to move it to a newer section: the word has it. */
uint64_t section_freeze_bucket(struct section *section, uint64_t number, bool is_split);

/* Has all that there was for this bucket been moved? Not where there was nothing. */
static inline bool section_is_moved(const struct section *section, uint64_t number)
{
	/* acquire: pairs with the store that let go of it; and with the swap of the word that says
	 * so, after which all of the bucket is there */
	return (atomic_load_explicit(&section->old, memory_order_acquire) == NULL &&
		       !section_is_upper(section)) ||
	       atomic_load_explicit(section_word(section, number), memory_order_acquire) != 0;
}

/* Moves what an older section or the level below has for this bucket, unless that was done. True:
 * there was something, look again. */
bool section_move_bucket(struct section *section, uint64_t number);

/* Moves all that an older section still has for this one, the bottom's, and for those above it,
 * then releases it. One thread; others may continue. */
void section_move_all(struct section *section);

/* Splits all buckets of the bottom's section. One thread; others may continue. */
void section_split_all(struct section *section);

#endif
