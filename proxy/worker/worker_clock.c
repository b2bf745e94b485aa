#include "worker/worker_clock.h"

#include <time.h>

#include "base/log.h"
#include "throttle/throttle.h"

/* Calendar limits follow a wall clock that was set; all windows continue undisturbed. */
static __attribute__((noinline, cold)) void follow_wall(
	struct node *node, uint64_t boot_ns, uint64_t wall_ns, int64_t step_ns)
{
	throttle_set_wall(node->throttles, clock_anchor_time(&node->anchor, boot_ns), wall_ns);
	log_warn("the system clock was set %s by %lld ms; calendar limits follow it",
		step_ns > 0 ? "forward" : "back",
		(long long)(step_ns > 0 ? step_ns : -step_ns) / (long long)CLOCK_NS_PER_MS);
}

uint64_t worker_read_wall(struct worker *worker)
{
	struct node *node = worker->node;
	uint64_t boot_ns = clock_boot_ns(), wall_ns = clock_wall_ns();
	int64_t step_ns = clock_anchor_step(&node->anchor, boot_ns, wall_ns);

	if (step_ns != 0)
		follow_wall(node, boot_ns, wall_ns, step_ns);
	worker->wall.ns = wall_ns;
	worker->wall.turn_ns = worker_now_ns(worker);
	return boot_ns;
}

uint64_t worker_throttle_ns(struct worker *worker)
{
	/* A step is noticed before a calendar is asked. */
	uint64_t boot_ns = worker_knows_wall(worker) ? clock_boot_ns() : worker_read_wall(worker);

	return clock_anchor_time(&worker->node->anchor, boot_ns);
}

struct slice worker_date(struct worker *worker)
{
	uint64_t second = worker_wall_ns(worker) / CLOCK_NS_PER_S;

	if (second != worker->wall.date_second) {
		time_t time = (time_t)second;
		struct tm tm;
		gmtime_r(&time, &tm);
		strftime(worker->wall.date, sizeof(worker->wall.date), "%a, %d %b %Y %H:%M:%S GMT",
			&tm);
		worker->wall.date_second = second;
	}
	return (struct slice){worker->wall.date, 29};
}
