/* `fleet = relaxed` for a request's limit: it is judged by this node's table beside what the others
 * have published (relaxed.h). Private to the fleet. */
#ifndef FLEET_RELAXED_WAY_H
#define FLEET_RELAXED_WAY_H

#include "fleet/way.h"

extern const struct way relaxed_way;

#endif
