/* The shorter path of most requests: all their limits are leased, and there is enough of each in
 * hand. Private to the fleet; on the worker's thread. */
#ifndef FLEET_ADMIT_H
#define FLEET_ADMIT_H

#include <stdbool.h>

#include "gate/authority.h"

/* As in struct authority_calls. It does what fleet_ask does, and leaves to that whatever is not so.
 */
bool fleet_admit(struct authority *authority, const struct authority_question *question,
	struct authority_judgement *judgement);

#endif
