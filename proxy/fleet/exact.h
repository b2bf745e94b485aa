/* `fleet = exact`: each verdict is the store's (judge.lua). Private to the fleet. */
#ifndef FLEET_EXACT_H
#define FLEET_EXACT_H

#include "fleet/way.h"

extern const struct way exact_way;

#endif
