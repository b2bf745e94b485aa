/*
 * Max-Forwards (RFC 9110 section 7.6.2): the last proxy of a chain answers an OPTIONS or TRACE.
 */
#ifndef EXCHANGE_MAX_FORWARDS_H
#define EXCHANGE_MAX_FORWARDS_H

#include <stdbool.h>

struct exchange;

/*
 * An OPTIONS or TRACE with `Max-Forwards: 0` ends here: it is answered, and true returned. Another
 * number is decremented in the request's head; other values pass as they came, as does the
 * field of other methods.
 */
bool max_forwards_reached(struct exchange *exchange);

#endif
