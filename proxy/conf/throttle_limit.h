/* A limit of the configuration in the words of libthrottle. */
#ifndef CONF_THROTTLE_LIMIT_H
#define CONF_THROTTLE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "throttle/throttle.h"

/* `guard_ns` is how far behind the true time the library's callers may be. False when the limit's
 * name or its zone's is longer than the library takes. */
bool conf_throttle_limit(
	const struct conf_limit *limit, uint64_t guard_ns, struct throttle_limit *out);

enum throttle_period conf_throttle_period(enum conf_calendar calendar);

#endif
