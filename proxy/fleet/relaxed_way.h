/* `fleet = relaxed` for a request's limit: it is judged by this node's table beside what the others
 * have published (relaxed.h). Private to the fleet. */
#ifndef FLEET_RELAXED_WAY_H
#define FLEET_RELAXED_WAY_H

#include "fleet/way.h"

extern const struct way relaxed_way;

/* ---- split way ------------------------------------------------------------------------------ */

/* `fleet = split` as a way (split.h). Private to the fleet. */

extern const struct way split_way;

#endif
