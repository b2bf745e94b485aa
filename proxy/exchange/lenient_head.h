/*
 * A response's head of an upstream with `lenient`: made clean in the connection's buffer, in front
 * of the parser.
 */
#ifndef EXCHANGE_LENIENT_HEAD_H
#define EXCHANGE_LENIENT_HEAD_H

#include <stdbool.h>

struct exchange;

/* Is what has come of the head ready for the parser? Only a whole head is, or what can be none. */
bool lenient_head_is_ready(struct exchange *exchange);

#endif
