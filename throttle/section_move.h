/* From an older section to a newer one; see section_move.c. */
#ifndef THROTTLE_SECTION_MOVE_H
#define THROTTLE_SECTION_MOVE_H

#include "throttle/section.h"

/* In section.c. */
struct throttle_key section_key_of(const struct section *section, uint64_t bucket, uint64_t tag);
void section_freeze_bucket(struct section *section, uint64_t number);

/* Freezes what `section->old`, if there is one, has of this caller. */
void section_freeze_old(struct section *section, struct throttle_key key);

/* The image of what the old section remembers of this caller, and its sum. False: nothing. */
bool section_recall(
	struct section *section, struct throttle_key key, struct image *image, uint64_t *units);

#endif
