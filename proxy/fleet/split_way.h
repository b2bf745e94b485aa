/* `fleet = split` as a way (split.h). Private to the fleet. */
#ifndef FLEET_SPLIT_WAY_H
#define FLEET_SPLIT_WAY_H

#include "fleet/way.h"

extern const struct way split_way;

#endif
