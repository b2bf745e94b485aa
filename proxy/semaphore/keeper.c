/* See keeper.h. */
#include "semaphore/keeper.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS 1000000ULL

/* Between two looks at the slots at most; a removed one is used so long. */
enum { CHECK_MS = 2000 };

/* Between two looks at what is in flight; sooner where something is to be given back. */
enum { TICK_MS = 100, GIVE_TICK_MS = 10 };

/* Between two searches, while all slots are held. */
enum { SEARCH_MS = 20, SEARCH_FULL_MS = 100, SEARCH_MOST_MS = 1000, SEARCH_WAIT_MS = 250 };

/* Between two tries to connect. A connection that ended sooner is as a try that failed: the first
 * one is made again at once, those behind it less and less soon. */
enum { CONNECT_MS = 100, CONNECT_MOST_MS = 600, LIVES_MS = 5000 };
_Static_assert(2 * KEEPER_CONNECT_MS + CONNECT_MOST_MS * 3 / 2 < KEEPER_AWAY_MS,
	"a share goes on from try to try, also where each takes its time");

/* Who uses the semaphore is counted at each look for the first seconds, then less often. One that
 * was seen counts for a minute: connections may be lost one after the other. */
enum { COUNT_FIRST_MS = 20000, COUNT_MS = 10000, COUNT_KEEPS_MS = 60000 };

/* So long no more is taken after another has waited. */
enum { CAP_MS = 3000 };

/* Where there are fewer slots than nodes, one keeps its last slot for a turn at least while another
 * waits; then it takes none until the other has had the time to find it. */
enum { TURN_MS = 1000, PASS_MS = 1000 };

void keeper_begin(struct keeper *keeper, const struct keeper_calls *calls, void *ctx,
	const struct keeper_config *config)
{
	*keeper = (struct keeper){
		.calls = calls, .ctx = ctx, .config = *config, .state = SEMAPHORE_CONNECTING};
	keeper->bound.slots.until_ns = 1;
}

void keeper_configure(struct keeper *keeper, const struct keeper_config *config)
{
	keeper->config = *config;
	/* The name that the connection began with ends with its configuration. */
	keeper->holder.slots.name = config->name;
}

static uint64_t now_ns(const struct keeper *keeper)
{
	return keeper->calls->now_ns(keeper->ctx);
}

static uint64_t lease_ends_ns(const struct keeper *keeper)
{
	uint64_t ms = keeper->heartbeat_ms * 3 / 2;

	return keeper->heard_ns + (ms < KEEPER_LEASE_MS ? ms : KEEPER_LEASE_MS) * NS_PER_MS;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- the bound ------------------------------------------------------------------------------- */

static void set_bound(
	struct keeper *keeper, struct run_queue_slots slots, struct run_queue_use *use)
{
	keeper->bound.slots = slots;
	keeper->calls->set(keeper->ctx, &keeper->bound, use);
}

/* So many may be in flight by the slots that are held. */
static void set_held(struct keeper *keeper, uint32_t count, struct run_queue_use *use)
{
	set_bound(keeper,
		(struct run_queue_slots){.count = count,
			.until_ns = lease_ends_ns(keeper),
			.refuses = keeper->holder.max == 0},
		use);
}

/* How many slots are this node's, when all that were seen have as many. */
static uint32_t share_of(const struct keeper *keeper, uint32_t slots)
{
	uint32_t nodes = keeper->config.nodes > 0 ? keeper->config.nodes : keeper->nodes;

	if (nodes == 0)
		return lesser(slots, 1);
	return slots / nodes;
}

/* By the share, or not at all, as a try to connect that began then has failed. */
static void set_away(struct keeper *keeper, uint64_t began_ns)
{
	uint32_t slots = keeper->has_known ? keeper->known : keeper->config.size;
	uint32_t share = keeper->config.refuses ? 0 : share_of(keeper, slots);
	struct run_queue_use use;

	keeper->share = share;
	set_bound(keeper,
		(struct run_queue_slots){.count = share,
			.until_ns = began_ns + KEEPER_AWAY_MS * NS_PER_MS,
			.refuses = share == 0},
		&use);
}

/* The share continues, by slots. Where these are fewer, another has them that has no share: a node
 * that has begun since, or that has not lost the broker. */
static void set_returning(struct keeper *keeper, struct run_queue_use *use)
{
	struct run_queue_slots slots = keeper->bound.slots;

	slots.count = lesser(keeper->share, holder_usable(&keeper->holder));
	slots.until_ns = lease_ends_ns(keeper);
	if (slots.refuses)
		keeper->calls->read(keeper->ctx, use);
	else
		set_bound(keeper, slots, use);
}

/* Nothing begins any more. */
static void set_none(struct keeper *keeper)
{
	struct run_queue_use use;

	keeper->bound.since_ns = now_ns(keeper);
	set_bound(keeper, (struct run_queue_slots){.until_ns = 1}, &use);
}

/* ---- the connection -------------------------------------------------------------------------- */

/* When to try again. */
static uint64_t lengthen_pause(struct keeper *keeper, uint64_t now)
{
	uint32_t pause_ms = keeper->connect_pause_ms;

	keeper->connect_pause_ms =
		pause_ms == 0 ? CONNECT_MS : lesser(2 * pause_ms, CONNECT_MOST_MS);
	return now +
	       (pause_ms + keeper->calls->random_below(keeper->ctx, pause_ms / 2)) * NS_PER_MS;
}

static void go_away(struct keeper *keeper, uint64_t began_ns)
{
	uint64_t now = now_ns(keeper);

	if (keeper->state != SEMAPHORE_AWAY)
		keeper->bound.since_ns = now;
	keeper->state = SEMAPHORE_AWAY;
	set_away(keeper, began_ns);
	if (keeper->connect_pause_ms == 0)
		keeper->connect_pause_ms = CONNECT_MS;
	keeper->next_connect_ns = lengthen_pause(keeper, now);
}

static void disconnect(struct keeper *keeper)
{
	keeper->broker = NULL;
	keeper->calls->disconnect(keeper->ctx);
}

void keeper_lost(struct keeper *keeper, const char *why)
{
	if (!keeper->broker)
		return;
	snprintf(keeper->why, sizeof(keeper->why), "%s", why);
	/* The bound first: the slots are another's as soon as the broker knows. */
	set_none(keeper);
	disconnect(keeper);
	/* One that has held slots looks at once whether the broker is there, before it uses a
	 * share: it may be this node that stood still. So does, once, one that returns: others may
	 * have all slots by now. */
	bool looks = keeper->state == SEMAPHORE_RETURNS && !keeper->has_looked;
	keeper->state = keeper->state == SEMAPHORE_HOLDS ? SEMAPHORE_CONNECTING : SEMAPHORE_AWAY;
	uint64_t now = now_ns(keeper);
	keeper->has_looked |= looks;
	if (looks || now - keeper->joined_ns >= LIVES_MS * NS_PER_MS)
		keeper->connect_pause_ms = 0;
	if (keeper->connect_pause_ms >= CONNECT_MOST_MS)
		go_away(keeper, now);
	else
		keeper->next_connect_ns = lengthen_pause(keeper, now);
}

static uint64_t check_interval_ns(const struct keeper *keeper)
{
	uint64_t ms = keeper->heartbeat_ms / 4;

	return (ms < CHECK_MS ? ms : CHECK_MS) * NS_PER_MS;
}

static void note_nodes(struct keeper *keeper, uint64_t now)
{
	if (keeper->crowd.count == 0)
		return;
	if (keeper->crowd.count < keeper->nodes && !keeper->has_first_count &&
		now - keeper->nodes_seen_ns < COUNT_KEEPS_MS * NS_PER_MS)
		return;
	/* The first one may have seen this node's connection from before a reload. */
	keeper->has_first_count = keeper->nodes == 0;
	keeper->nodes = keeper->crowd.count;
	keeper->nodes_seen_ns = now;
}

static enum broker_result join(struct keeper *keeper)
{
	enum broker_result result =
		holder_begin(&keeper->holder, keeper->broker, keeper->config.name);

	return result == BROKER_DONE ? crowd_join(&keeper->crowd, &keeper->holder) : result;
}

static void begin_holding(struct keeper *keeper, uint64_t now)
{
	keeper->state = SEMAPHORE_HOLDS;
	keeper->has_looked = false;
	keeper->bound.since_ns = now;
}

/* False: it failed, and is tried again later. */
static bool connect_now(struct keeper *keeper)
{
	uint64_t began = now_ns(keeper);

	keeper->broker = keeper->calls->reach(
		keeper->ctx, &keeper->heartbeat_ms, keeper->why, sizeof(keeper->why));
	if (keeper->broker && join(keeper) != BROKER_DONE) {
		snprintf(keeper->why, sizeof(keeper->why), "%s", keeper->broker->why);
		disconnect(keeper);
	}
	if (!keeper->broker) {
		keeper->has_looked = false;
		go_away(keeper, began);
		return false;
	}
	keeper->calls->settle_in(keeper->ctx);
	uint64_t now = now_ns(keeper);
	keeper->heard_ns = began;
	keeper->joined_ns = keeper->next_check_ns = now;
	keeper->next_count_ns = now + check_interval_ns(keeper);
	keeper->next_search_ns = keeper->cap_ends_ns = 0;
	note_nodes(keeper, now);
	if (keeper->state == SEMAPHORE_AWAY) {
		keeper->state = SEMAPHORE_RETURNS;
		keeper->return_ends_ns = now + KEEPER_RETURN_MS * NS_PER_MS;
	} else {
		begin_holding(keeper, now);
	}
	return true;
}

/* ---- how many are wanted --------------------------------------------------------------------- */

/* Half more than was in flight at once, or would have been. */
static void note_use(struct keeper *keeper, const struct run_queue_use *use, uint64_t now)
{
	uint64_t part_ns = keeper->config.idle_ms * NS_PER_MS / (KEEPER_WINDOWS - 1);
	uint64_t busy = (uint64_t)use->in_flight + use->sessions;
	uint64_t need;

	if (use->peak > busy)
		busy = use->peak;
	need = busy + (busy + 1) / 2;
	if (need > use->limit)
		need = use->limit;
	if (need > SLOTS_MOST)
		need = SLOTS_MOST;
	/* A part may have begun when they were longer. */
	if (keeper->window_ends_ns > now + part_ns)
		keeper->window_ends_ns = now + part_ns;
	if (now >= keeper->window_ends_ns) {
		uint64_t parts = 1 + (part_ns > 0 ? (now - keeper->window_ends_ns) / part_ns : 0);
		for (; parts > 0 && keeper->window_ends_ns > 0; parts--) {
			memmove(&keeper->needs[1], &keeper->needs[0],
				(KEEPER_WINDOWS - 1) * sizeof(keeper->needs[0]));
			keeper->needs[0] = 0;
			if (parts > KEEPER_WINDOWS)
				parts = KEEPER_WINDOWS;
		}
		keeper->window_ends_ns = now + part_ns;
	}
	if (need > keeper->needs[0])
		keeper->needs[0] = (uint32_t)need;
	keeper->wanted = 0;
	for (size_t i = 0; i < KEEPER_WINDOWS; i++)
		if (keeper->needs[i] > keeper->wanted)
			keeper->wanted = keeper->needs[i];
	if (now < keeper->cap_ends_ns)
		keeper->wanted = lesser(keeper->wanted, keeper->cap);
	if (keeper->state == SEMAPHORE_RETURNS)
		keeper->wanted = use->in_flight > keeper->share ? use->in_flight : keeper->share;
}

/* Another waits, and we have more than our share: half of what is more is given back. A share may
 * be less than a slot: then the last one is passed on, too. */
static void note_waiting(struct keeper *keeper, uint64_t now)
{
	uint32_t share = share_of(keeper, keeper->holder.max);
	uint32_t usable = holder_usable(&keeper->holder);

	if (!keeper->crowd.hears || keeper->nodes == 0 || usable <= share)
		return;
	if (usable == 1 && now - keeper->turn_began_ns < TURN_MS * NS_PER_MS)
		return;
	keeper->cap = usable - (usable - share + 1) / 2;
	keeper->cap_ends_ns = now + (keeper->cap > 0 ? CAP_MS : PASS_MS) * NS_PER_MS;
}

/* ---- at the broker --------------------------------------------------------------------------- */

static enum broker_result check(struct keeper *keeper, uint64_t now)
{
	bool counts = now >= keeper->next_count_ns;
	enum broker_result result = holder_check(&keeper->holder);

	if (result == BROKER_DONE)
		result = crowd_look(&keeper->crowd, &keeper->holder, counts);
	if (result != BROKER_DONE)
		return result;
	keeper->heard_ns = now;
	keeper->next_check_ns = now + check_interval_ns(keeper);
	if (counts && now - keeper->joined_ns > COUNT_FIRST_MS * NS_PER_MS)
		keeper->next_count_ns = now + COUNT_MS * NS_PER_MS;
	if (counts)
		note_nodes(keeper, now);
	note_waiting(keeper, now);
	return BROKER_DONE;
}

/* All slots are held: comes again later, and says so where this node has less than its share. */
static enum broker_result await_slots(struct keeper *keeper, uint64_t now, bool is_full)
{
	uint32_t usable = holder_usable(&keeper->holder), pause_ms = SEARCH_MS;
	uint32_t share = share_of(keeper, keeper->holder.max);
	bool waits = is_full && keeper->nodes > 0 && usable < keeper->wanted &&
		     (usable < share || usable == 0) && keeper->holder.max > 0;

	if (is_full) {
		uint32_t most_ms = waits ? SEARCH_WAIT_MS : SEARCH_MOST_MS;
		pause_ms = lesser(2 * keeper->search_pause_ms, most_ms);
		if (pause_ms < SEARCH_FULL_MS)
			pause_ms = SEARCH_FULL_MS;
	}
	keeper->search_pause_ms = pause_ms;
	pause_ms += keeper->calls->random_below(keeper->ctx, pause_ms / 4 + 1);
	keeper->next_search_ns = now + pause_ms * NS_PER_MS;
	return crowd_wait(&keeper->crowd, &keeper->holder, waits);
}

/* Searches have found nothing for a while, and this node has its share: that one of the slots is
 * free is found by a few messages at a time, and not by two for each of them. */
static bool is_settled(const struct keeper *keeper)
{
	return keeper->search_pause_ms >= SEARCH_MOST_MS && !keeper->crowd.waits &&
	       !keeper->is_barred;
}

static enum broker_result search(struct keeper *keeper, uint64_t now)
{
	uint32_t before = holder_usable(&keeper->holder);
	uint64_t messages = keeper->holder.messages;
	bool is_free = true;
	enum broker_result result = BROKER_DONE;

	if (is_settled(keeper))
		result = holder_glance(&keeper->holder, &is_free);
	if (result == BROKER_DONE && is_free)
		result = holder_take(&keeper->holder, keeper->wanted - before);
	if (result == BROKER_LOST)
		return result;
	if (holder_usable(&keeper->holder) > before)
		keeper->search_pause_ms = 0; /* there may be more soon */
	if (before == 0)
		keeper->turn_began_ns = now_ns(keeper);
	/* Where all slots are this node's, there was nothing to ask. */
	if (keeper->holder.messages != messages)
		keeper->heard_ns = now;
	keeper->is_barred = result == BROKER_REFUSED;
	if (keeper->is_barred)
		snprintf(keeper->why, sizeof(keeper->why), "%s", keeper->broker->why);
	return await_slots(keeper, now_ns(keeper), holder_usable(&keeper->holder) < keeper->wanted);
}

/* Lowers the bound to what is wanted, or raises it to what is held; then gives back what neither
 * the bound nor what is in flight needs. */
static enum broker_result settle(struct keeper *keeper, uint64_t now)
{
	uint32_t keeps = lesser(holder_usable(&keeper->holder), keeper->wanted);
	uint32_t held = keeper->holder.held.count;
	struct run_queue_use use;

	if (keeper->state == SEMAPHORE_HOLDS)
		set_held(keeper, keeps, &use);
	else
		set_returning(keeper, &use);
	note_use(keeper, &use, now);
	if (use.in_flight > keeps)
		keeps = use.in_flight;
	return held > keeps ? holder_give(&keeper->holder, held - keeps) : BROKER_DONE;
}

/* When to come again. */
static uint64_t next_step_ns(const struct keeper *keeper, uint64_t now)
{
	uint32_t usable = holder_usable(&keeper->holder), held = keeper->holder.held.count;
	uint64_t next = keeper->next_check_ns, tick_ms = 0;

	if (held > lesser(usable, keeper->wanted))
		tick_ms = GIVE_TICK_MS;
	else if (held + keeper->wanted > 0)
		tick_ms = TICK_MS;
	if (tick_ms > 0 && now + tick_ms * NS_PER_MS < next)
		next = now + tick_ms * NS_PER_MS;
	if (usable < keeper->wanted && keeper->next_search_ns < next)
		next = keeper->next_search_ns;
	if (now < keeper->cap_ends_ns && keeper->cap_ends_ns < next)
		next = keeper->cap_ends_ns;
	if (keeper->state == SEMAPHORE_RETURNS && keeper->return_ends_ns < next)
		next = keeper->return_ends_ns;
	return next;
}

static enum broker_result work(struct keeper *keeper, uint64_t now)
{
	enum broker_result result = BROKER_DONE;
	struct run_queue_use use;

	keeper->calls->read(keeper->ctx, &use);
	if (keeper->state == SEMAPHORE_RETURNS && now >= keeper->return_ends_ns)
		begin_holding(keeper, now);
	note_use(keeper, &use, now);
	if (now >= keeper->next_check_ns)
		result = check(keeper, now);
	if (result != BROKER_DONE)
		return result;
	if (holder_usable(&keeper->holder) >= keeper->wanted)
		result = crowd_wait(&keeper->crowd, &keeper->holder, false);
	else if (now >= keeper->next_search_ns)
		result = search(keeper, now_ns(keeper));
	keeper->has_known = true;
	keeper->known = keeper->holder.max;
	return result == BROKER_DONE ? settle(keeper, now) : result;
}

void keeper_drain(struct keeper *keeper)
{
	keeper->drains = true;
}

bool keeper_is_drained(const struct keeper *keeper)
{
	return keeper->is_drained;
}

/* Gives back what nothing in flight needs. The node has another connection, or no share. */
static enum broker_result drain(struct keeper *keeper, uint32_t in_flight, uint64_t now)
{
	enum broker_result result = crowd_wait(&keeper->crowd, &keeper->holder, false);
	uint32_t held = keeper->holder.held.count;

	if (result != BROKER_LOST)
		result = crowd_leave(&keeper->crowd, &keeper->holder);
	if (result != BROKER_LOST && now >= keeper->next_check_ns) {
		result = holder_check(&keeper->holder);
		keeper->next_check_ns = now + check_interval_ns(keeper);
	}
	if (result != BROKER_LOST && held > in_flight)
		result = holder_give(&keeper->holder, held - in_flight);
	return result;
}

static uint64_t step_drain(struct keeper *keeper, uint64_t now)
{
	enum broker_result result = BROKER_LOST;
	struct run_queue_use use;

	keeper->calls->read(keeper->ctx, &use);
	if (keeper->broker && use.in_flight > 0)
		result = drain(keeper, use.in_flight, now);
	keeper->is_drained = result == BROKER_LOST || keeper->holder.held.count == 0;
	if (keeper->is_drained)
		return now;
	return now + (result == BROKER_DONE ? TICK_MS * NS_PER_MS : check_interval_ns(keeper));
}

uint64_t keeper_step(struct keeper *keeper)
{
	uint64_t now = now_ns(keeper);

	if (keeper->drains)
		return step_drain(keeper, now);
	if (!keeper->broker) {
		if (now < keeper->next_connect_ns || !connect_now(keeper))
			return keeper->next_connect_ns;
		now = now_ns(keeper);
	}
	if (work(keeper, now) != BROKER_DONE) {
		keeper_lost(keeper, keeper->broker->why);
		return now;
	}
	return next_step_ns(keeper, now);
}

void keeper_end(struct keeper *keeper)
{
	set_none(keeper);
	if (keeper->broker)
		disconnect(keeper);
}

void keeper_look(const struct keeper *keeper, struct keeper_view *view)
{
	bool connected = keeper->broker != NULL;

	*view = (struct keeper_view){
		.state = keeper->state,
		.bound = keeper->bound.slots.count,
		.held = connected ? keeper->holder.held.count : 0,
		.wanted = keeper->wanted,
		.max = keeper->has_known ? keeper->known : 0,
		.nodes = keeper->config.nodes > 0 ? keeper->config.nodes : keeper->nodes,
		.refuses = keeper->bound.slots.refuses,
		.is_barred = keeper->is_barred,
		.messages = keeper->holder.messages,
	};
}
