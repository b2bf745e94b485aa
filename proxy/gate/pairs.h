/*
 * Named values in Cookie fields and in queries, as a key reads them: the value of one name, and
 * whether some server may read another one.
 */
#ifndef GATE_PAIRS_H
#define GATE_PAIRS_H

#include <stdbool.h>

#include "base/slice.h"
#include "http/message.h"

/* The value of the first cookie of that name, without the optional quotes, or none (RFC 6265
 * section 4.2.1, over all Cookie lines). Names are compared without decoding. `*ambiguous` is set
 * when there is another with another value. */
struct slice pairs_cookie(const struct http_head *head, struct slice name, bool *ambiguous);

/* The raw value of the first parameter of that very name in a query, or none; it may hold %XX and
 * '+', which count as their decoded values. `*ambiguous` is set when there is another, or one that
 * a server might take for it. */
struct slice pairs_parameter(struct slice query, struct slice name, bool *ambiguous);

/* Takes the next cookie off the Cookie fields that has this name or that some server takes for it,
 * from `*place`, which is zero at the beginning. Its value is without quotes. False: there is none
 * more. */
struct pairs_place {
	unsigned field;    /* of the head */
	struct slice rest; /* of its value */
};
bool pairs_next_cookie(const struct http_head *head, struct slice name, struct pairs_place *place,
	struct slice *value);

/* Takes the next parameter off `rest` that has this name or that some server takes for it (Q=,
 * %71=, q[]=, and q= behind a ';'); its value is as it came. */
struct pairs_parameters {
	struct slice query;  /* what is left of it */
	struct slice pieces; /* of the last parameter: between ';' */
};
bool pairs_next_parameter(struct pairs_parameters *rest, struct slice name, struct slice *value);

/* True: the text begins with %XX, and `*byte` is its decoded value. */
bool pairs_is_escape(struct slice text, char *byte);

#endif
