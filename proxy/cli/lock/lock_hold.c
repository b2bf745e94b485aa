#include "cli/lock/lock_hold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"

enum {
	RETRY_MS = 200,  /* after no answer */
	POLL_MS = 200,   /* between looks at a lock that another has, at most */
	LEAVE_MS = 1000, /* until an answer is not waited for any more */
	AFTER_MS =
		1000, /* or a third of the lease: for an answer behind a lease that ended unasked */
	CONNECT_MS = 5000,      /* for the first answer, beside the time of --wait, at most, */
	CONNECT_LEAST_MS = 1000 /* and at least; between them twice store_timeout */
};

static uint64_t now_ms(const struct lock_hold *hold)
{
	return loop_now_ms(&hold->store->loop);
}

/* A store that has not answered within this time is as good as away. */
static uint64_t connect_ms_of(const struct lock_hold *hold)
{
	uint64_t twice_ms = 2 * hold->store->conf->fleet.store_timeout_ms;

	if (twice_ms < CONNECT_LEAST_MS)
		return CONNECT_LEAST_MS;
	return twice_ms < CONNECT_MS ? twice_ms : CONNECT_MS;
}

static void set(struct lock_hold *hold, struct deadline *deadline, uint64_t in_ms)
{
	uint64_t now = now_ms(hold);

	deadline_clear(deadline);
	deadline_set(deadline, in_ms > UINT64_MAX - now ? DEADLINE_NEVER : now + in_ms, now);
}

/* Host, process and a random part: another for each taking. */
static void be_born(struct lock_hold *hold, uint64_t fence)
{
	char host[65] = "";
	uint64_t drawn = 0;

	if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
		strcpy(host, "host");
	for (char *c = host; *c; c++) {
		if (*c <= ' ' || *c > '~')
			*c = '?';
	}
	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		drawn = clock_monotonic_ns();
	snprintf(hold->session, sizeof(hold->session), "%s/%d/%016" PRIx64, host, (int)getpid(),
		drawn);
	hold->born = fence;
}

static void be_done(struct lock_hold *hold, enum lock_hold_end end)
{
	if (hold->state == HOLD_DONE)
		return;
	hold->state = HOLD_DONE;
	hold->end = end;
	deadline_clear(&hold->next);
	deadline_clear(&hold->last);
	hold->changed(hold);
}

static void on_answer(struct lock_ask *ask, const struct lock_answer *answer);

static void ask(struct lock_hold *hold, enum lock_verb verb, uint64_t number)
{
	if (hold->is_asked)
		return;
	hold->ask = (struct lock_ask){.kind = LOCK_OF_COMMANDS,
		.verb = verb,
		.name = hold->name,
		.session = hold->session,
		.number = number,
		.lease_ms = hold->lease_ms,
		.keep_ms = LOCK_STORE_KEEP_MS,
		.done = on_answer};
	hold->asked_boot_ns = clock_boot_ns();
	if (hold->unheard_since_ms == 0)
		hold->unheard_since_ms = now_ms(hold);
	hold->is_asked = true;
	hold->may_be_taken |= verb == LOCK_TAKE && hold->store->link.state == STORE_READY;
	locks_ask(&hold->store->locks, &hold->ask);
}

static void ask_next(struct lock_hold *hold)
{
	switch (hold->state) {
	case HOLD_WAITING:
	case HOLD_TAKING:
		hold->state = HOLD_TAKING;
		if (hold->is_joined)
			ask(hold, hold->fence > 0 ? LOCK_USE : LOCK_LOOK, hold->fence);
		else
			ask(hold, LOCK_TAKE, hold->born);
		break;
	case HOLD_HOLDING:
		ask(hold, LOCK_USE, hold->fence);
		break;
	case HOLD_RELEASING:
		ask(hold, LOCK_RELEASE, hold->fence);
		break;
	case HOLD_DONE:
		break;
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

static void note_lease(struct lock_hold *hold)
{
	uint64_t left_ns, now_ns = clock_boot_ns();

	hold->until_ns = hold->asked_boot_ns + hold->lease_ms * CLOCK_NS_PER_MS;
	left_ns = hold->until_ns > now_ns ? hold->until_ns - now_ns : 0;
	set(hold, &hold->last, left_ns / CLOCK_NS_PER_MS);
	hold->last.is_patient = true;
	set(hold, &hold->next, hold->lease_ms / 3);
	hold->changed(hold);
}

static bool is_wait_over(const struct lock_hold *hold)
{
	return hold->is_given_up ||
	       (hold->wait_ms != UINT64_MAX && now_ms(hold) - hold->began_ms >= hold->wait_ms);
}

static void wait_for(struct lock_hold *hold, const struct lock_answer *answer)
{
	uint64_t rest_ms = POLL_MS;

	snprintf(hold->holder, sizeof(hold->holder), "%s", answer->session);
	if (is_wait_over(hold)) {
		be_done(hold, HOLD_NOT_HAD);
		return;
	}
	if (hold->wait_ms != UINT64_MAX)
		rest_ms = hold->wait_ms - (now_ms(hold) - hold->began_ms);
	if (rest_ms > answer->left_ms + 1)
		rest_ms = answer->left_ms + 1;
	hold->state = HOLD_WAITING;
	set(hold, &hold->next, rest_ms > POLL_MS ? POLL_MS : rest_ms);
}

static void on_granted(struct lock_hold *hold, uint64_t fence)
{
	hold->fence = fence;
	if (hold->is_given_up) {
		lock_hold_release(hold);
	} else if (clock_boot_ns() >= hold->asked_boot_ns + hold->lease_ms * CLOCK_NS_PER_MS) {
		/* By now it may be another's: nothing has begun. This ask may be granted too, and
		 * has its own time: given up under way, it would leave a lock that nobody uses. */
		if (hold->last.at_ms < now_ms(hold) + CONNECT_MS)
			set(hold, &hold->last, CONNECT_MS);
		ask_next(hold);
	} else {
		hold->state = HOLD_HOLDING;
		note_lease(hold);
	}
}

static void on_taken(struct lock_hold *hold, const struct lock_answer *answer)
{
	if (answer->status == LOCK_HELD) {
		on_granted(hold, answer->fence);
		return;
	}
	if (answer->status == LOCK_OVER)
		be_born(hold, answer->fence);
	if (answer->status == LOCK_OVER && answer->left_ms == 0 && !hold->is_given_up)
		set(hold, &hold->next, 0);
	else
		wait_for(hold, answer);
}

static void fail_to_join(struct lock_hold *hold, const struct lock_answer *answer)
{
	if (answer->session[0] && strcmp(answer->session, hold->session) != 0)
		snprintf(hold->why, sizeof(hold->why), "session %s does not have it; %s has it",
			hold->session, answer->session);
	else
		snprintf(
			hold->why, sizeof(hold->why), "session %s does not have it", hold->session);
	be_done(hold, HOLD_NOT_HAD);
}

/* First it is looked up, for its fence, and then used by that. */
static void on_joined(struct lock_hold *hold, const struct lock_answer *answer)
{
	bool is_found = (answer->status == LOCK_BUSY || answer->status == LOCK_LAPSED) &&
			strcmp(answer->session, hold->session) == 0;

	if (hold->is_given_up) {
		be_done(hold, HOLD_NOT_HAD);
	} else if (answer->status == LOCK_HELD) {
		on_granted(hold, answer->fence);
	} else if (is_found) {
		hold->fence = answer->fence;
		ask_next(hold);
	} else {
		fail_to_join(hold, answer);
	}
}

static void lose(struct lock_hold *hold, const struct lock_answer *answer)
{
	if (answer->session[0] && strcmp(answer->session, hold->session) != 0)
		snprintf(hold->why, sizeof(hold->why), "%s has taken it", answer->session);
	else
		snprintf(hold->why, sizeof(hold->why), "%s",
			"another had it meanwhile, it was ended, or the store has lost it");
	be_done(hold, HOLD_LOST);
}

static void on_unknown(struct lock_hold *hold)
{
	if (lock_store_look_refused(hold->store) && hold->state == HOLD_TAKING)
		be_done(hold, HOLD_REFUSED);
	else
		set(hold, &hold->next, RETRY_MS);
}

static void on_answer(struct lock_ask *lock_ask, const struct lock_answer *answer)
{
	struct lock_hold *hold = CONTAINER_OF(lock_ask, struct lock_hold, ask);

	hold->is_asked = false;
	if (answer->status != LOCK_UNKNOWN) {
		hold->unheard_since_ms = 0;
		hold->may_be_taken = false;
	}
	if (hold->state == HOLD_DONE)
		return;
	if (answer->status == LOCK_UNKNOWN)
		on_unknown(hold);
	else if (lock_ask->verb == LOCK_TAKE)
		on_taken(hold, answer);
	else if (hold->state == HOLD_TAKING)
		on_joined(hold, answer);
	else if (answer->status == LOCK_OVER)
		lose(hold, answer);
	else if (lock_ask->verb == LOCK_RELEASE)
		be_done(hold, HOLD_RELEASED);
	else if (hold->state == HOLD_RELEASING)
		ask_next(hold);
	else
		note_lease(hold);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void on_next(struct deadline *deadline)
{
	ask_next(CONTAINER_OF(deadline, struct lock_hold, next));
}

/* Its lease is over, but as it stood still it has only just asked: the session continues as long as
 * nobody has taken the lock, which the answer says. The lease's end was patient before: it came as
 * late again as it was late (deadline.h). So one that stood still for 6 s, and whose store is away,
 * gives the lock up some 6 s later. It is no sooner, as what held this process up may hold the
 * store up, too; and it costs little: the command is frozen until then. */
static bool is_answer_near(struct lock_hold *hold)
{
	uint64_t room_ms = hold->lease_ms / 3 < AFTER_MS ? hold->lease_ms / 3 : AFTER_MS;

	ask_next(hold);
	if (hold->state != HOLD_HOLDING)
		return true;
	uint64_t waited_ms = now_ms(hold) - hold->unheard_since_ms;
	if (waited_ms >= room_ms)
		return false;
	set(hold, &hold->last, room_ms - waited_ms);
	hold->last.is_patient = true;
	return true;
}

static void on_last(struct deadline *deadline)
{
	struct lock_hold *hold = CONTAINER_OF(deadline, struct lock_hold, last);

	if (hold->state == HOLD_HOLDING && is_answer_near(hold))
		return;
	switch (hold->state) {
	case HOLD_TAKING:
	case HOLD_WAITING:
		be_done(hold, hold->store->is_refused ? HOLD_REFUSED : HOLD_NOT_HAD);
		break;
	case HOLD_HOLDING:
		snprintf(hold->why, sizeof(hold->why), "the store has not renewed the lease");
		be_done(hold, HOLD_LOST);
		break;
	case HOLD_RELEASING:
		be_done(hold, HOLD_UNHEARD);
		break;
	case HOLD_DONE:
		break;
	}
}

/* ---- its life -------------------------------------------------------------------------------- */

void lock_hold_begin(struct lock_hold *hold, struct lock_store *store, const char *name,
	uint64_t lease_ms, uint64_t wait_ms, void (*changed)(struct lock_hold *hold))
{
	*hold = (struct lock_hold){.store = store,
		.name = name,
		.lease_ms = lease_ms,
		.wait_ms = wait_ms,
		.changed = changed};
	deadline_init(&hold->next, store->loop.base, on_next);
	deadline_init(&hold->last, store->loop.base, on_last);
	hold->began_ms = now_ms(hold);
	if (wait_ms < UINT64_MAX - CONNECT_MS)
		set(hold, &hold->last, wait_ms + connect_ms_of(hold));
	be_born(hold, 0);
	set(hold, &hold->next, RETRY_MS); /* or when the store is ready */
}

void lock_hold_join(struct lock_hold *hold, const char *session)
{
	hold->is_joined = true;
	snprintf(hold->session, sizeof(hold->session), "%s", session);
}

void lock_hold_look(struct lock_hold *hold)
{
	if (hold->store->is_refused && hold->state == HOLD_TAKING)
		be_done(hold, HOLD_REFUSED);
	else if (hold->store->link.state == STORE_READY)
		ask_next(hold);
}

void lock_hold_give_up(struct lock_hold *hold)
{
	hold->is_given_up = true;
	set(hold, &hold->last, LEAVE_MS);
	if (hold->state == HOLD_WAITING || !hold->is_asked)
		be_done(hold, HOLD_NOT_HAD);
}

void lock_hold_release(struct lock_hold *hold)
{
	hold->state = HOLD_RELEASING;
	hold->last.is_patient = false;
	deadline_clear(&hold->next);
	if (hold->is_joined) {
		be_done(hold, HOLD_RELEASED);
		return;
	}
	set(hold, &hold->last, LEAVE_MS);
	ask_next(hold);
}

void lock_hold_end(struct lock_hold *hold)
{
	if (hold->is_asked)
		locks_cancel(&hold->store->locks, &hold->ask);
	hold->is_asked = false;
	deadline_end(&hold->next);
	deadline_end(&hold->last);
}
