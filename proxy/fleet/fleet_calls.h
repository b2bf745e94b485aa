/* The fleet as an authority: its units' functions as the gate calls them. Private to the fleet. */
#ifndef FLEET_FLEET_CALLS_H
#define FLEET_FLEET_CALLS_H

#include "gate/authority.h"

extern const struct authority_calls fleet_calls;

#endif
