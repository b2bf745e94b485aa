/*
 * Is a text UTF-8 (RFC 3629)? It may come in pieces: a character that is cut is judged when the
 * rest of it has come.
 */
#ifndef FRAMES_UTF8_H
#define FRAMES_UTF8_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* All zero: before the first character. */
struct utf8 {
	uint8_t left;      /* bytes of a character that are still to come */
	uint8_t low, high; /* bounds of the next of these */
};

/* False: it is none, whatever follows. */
bool utf8_continue(struct utf8 *utf8, struct slice bytes);

/* Does it end here, with no part of a character? */
static inline bool utf8_is_whole(const struct utf8 *utf8)
{
	return utf8->left == 0;
}

/* Is all of it? */
bool utf8_is_valid(struct slice text);

#endif
