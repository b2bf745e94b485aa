/* Pieces of structured fields (RFC 8941): what a list's, a dictionary's or a parameter's reader
 * needs so as not to cut within strings. */
#ifndef HTTP_STRUCTURED_H
#define HTTP_STRUCTURED_H

#include "base/slice.h"

/*
 * Takes the piece up to the next `separator` that is in no string off `rest`: members of a list or
 * dictionary with ',', an item and its parameters with ';'. The piece comes back without the blanks
 * around it and may be empty. False when nothing is left. A string without an end makes the piece
 * SLICE_NONE (its `at` is NULL) and `rest` empty: the field is malformed (section 4.2).
 */
bool http_sf_next(struct slice *rest, char separator, struct slice *piece);

#endif
