/* From the configuration's limits to the library's. */
#include "gate/gate.h"

#include <errno.h>
#include <stdlib.h>

#include "conf/throttle_limit.h"

struct throttle_limit *gate_throttle_limits(const struct conf *conf, uint64_t guard_ns)
{
	struct throttle_limit *limits = calloc(conf->limit_count + 1, sizeof(*limits));

	for (size_t i = 0; limits && i < conf->limit_count; i++) {
		if (!conf_throttle_limit(&conf->limits[i], guard_ns, &limits[i])) {
			free(limits);
			errno = ENAMETOOLONG;
			return NULL;
		}
	}
	return limits;
}
