/* The Priority field (RFC 9218 section 4): the urgency that a client gives its request. */
#ifndef HTTP_PRIORITY_H
#define HTTP_PRIORITY_H

#include "base/slice.h"

/* The urgency, 0 (most) to 7, or -1 when the field has none, an invalid one, or is malformed.
 */
int http_priority_urgency(struct slice field);

#endif
