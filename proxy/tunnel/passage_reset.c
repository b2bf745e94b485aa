#include "tunnel/passage_reset.h"

#include "tunnel/passage.h"
#include "worker/worker_clock.h"

/* Between two looks; and how many of them in a row may find no progress: 10 s. */
#define LOOK_MS    50
#define IDLE_LOOKS 200

void passage_reset(struct passage *p, struct stream *to, const char *why)
{
	if (!p->outcome)
		p->outcome = why;
	p->resets = to;
	passage_reset_look(p, false);
}

static bool is_over(const struct passage *p, uint64_t taken)
{
	return taken == p->resets->sent || p->idle_looks >= IDLE_LOOKS || stream_is_cut(p->resets);
}

void passage_reset_look(struct passage *p, bool is_due)
{
	uint64_t taken = stream_taken(p->resets), now_ms = worker_now_ms(p->worker);

	if (is_due)
		p->idle_looks = taken == p->wait.progress ? p->idle_looks + 1 : 0;
	if (is_over(p, taken)) {
		stream_reset_at_close(p->resets);
		stream_close(p->resets);
		passage_end(p, p->outcome);
		return;
	}
	if (!is_due && p->wait.deadline.at_ms <= now_ms + LOOK_MS)
		return;
	wait_none(&p->wait);
	wait_for(&p->wait, WAIT_TUNNEL, taken, now_ms + LOOK_MS, now_ms);
}
