/* The clocks of a worker, beside that of its turn (worker.h): the throttles' and the wall's. */
#ifndef WORKER_WORKER_CLOCK_H
#define WORKER_WORKER_CLOCK_H

#include "worker/worker.h"

/* The clock of the throttles: the wall's time at the start and CLOCK_BOOTTIME since, so that it
 * continues after a restart, through a suspend, and never steps. Read at each call: a limit is
 * promised over true times, and a turn may be long. */
uint64_t worker_throttle_ns(struct worker *worker);

/* Reads the wall clock for this turn, for worker_wall_ns only. Returns CLOCK_BOOTTIME, which it
 * read for that. */
uint64_t worker_read_wall(struct worker *worker);

static inline bool worker_knows_wall(struct worker *worker)
{
	return worker_now_ns(worker) == worker->wall.turn_ns;
}

/* The wall's time of this turn, for dates. Read once a turn; a step of the clock is noticed then.
 */
static inline uint64_t worker_wall_ns(struct worker *worker)
{
	if (!worker_knows_wall(worker))
		worker_read_wall(worker);
	return worker->wall.ns;
}

/* `Sun, 06 Nov 1994 08:49:37 GMT` */
struct slice worker_date(struct worker *worker);

#endif
