/* harness: see harness.h. */
#include "tests/unit/queue/harness.h"

static void on_dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct world *world = ctx;

	assert_int_equal(worker, ticket->worker);
	ticket->message.next = NULL;
	*world->mail_tail = &ticket->message;
	world->mail_tail = &ticket->message.next;
	world->mails++;
}

static void on_unpin(void *ctx, void *pin)
{
	struct world *world = ctx;

	world->unpins++;
	world->unpinned = pin;
}

static void on_timer(void *ctx, uint64_t deadline_ns)
{
	struct world *world = ctx;

	world->timer_changes++;
	world->timer_ns = deadline_ns;
}

void world_open_with(struct world *world, enum queue_ordering ordering,
	const struct queue_config *queue_config, const struct run_queue_config *config)
{
	struct queue_config own = {.shards = 4};

	memset(world, 0, sizeof(*world));
	if (queue_config != NULL)
		own = *queue_config;
	own.callbacks = (struct queue_callbacks){.ctx = world,
		.dispatch = on_dispatch,
		.unpin = on_unpin,
		.timer_changed = on_timer};
	world->mail_tail = &world->mail;
	world->now_ns = SEC;
	world->timer_ns = QUEUE_NEVER;
	world->policy = (struct queue_policy){.ordering = ordering,
		.depth = 100000,
		.high_burst = 4,
		.session_idle_ms = 60000,
		.read_hold_ms = 3600 * 1000};
	world->queue = queue_create(&own);
	assert_non_null(world->queue);
	world->upstream = run_queue_create(
		world->queue, config != NULL ? config : &(struct run_queue_config){0});
	assert_non_null(world->upstream);
}

void world_open(struct world *world, enum queue_ordering ordering)
{
	world_open_with(world, ordering, NULL, NULL);
}

void world_close(struct world *world)
{
	struct queue_counts counts;

	queue_count(world->queue, &counts);
	assert_int_equal(counts.queued, 0);
	assert_int_equal(counts.in_flight, 0);
	assert_int_equal(counts.queued_bytes, 0);
	assert_int_equal(counts.detached, 0);
	assert_int_equal(counts.sessions, counts.idle_sessions);
	run_queue_destroy(world->upstream);
	queue_destroy(world->queue);
}

struct session_key key_of(unsigned client)
{
	uint64_t x = (client + 1) * 0x9e3779b97f4a7c15ull;

	/* splitmix64's finaliser in place of the keyed hash */
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return (struct session_key){{x, x * 0xd6e8feb86659fd93ull ^ (x >> 32)}};
}

void job_init(struct job *job, unsigned client, unsigned id, char kind)
{
	memset(job, 0, sizeof(*job));
	ticket_init(&job->ticket, 0);
	job->client = client;
	job->id = id;
	job->ticket.unsafe = kind == 'w' || kind == 'W';
	job->ticket.lane = kind == 'R' || kind == 'W' ? QUEUE_LANE_HIGH : QUEUE_LANE_NORMAL;
}

enum queue_verdict world_enter(struct world *world, struct job *job)
{
	job->verdict = queue_enter(world->queue, &world->policy, world->upstream,
		key_of(job->client), &job->ticket, world->now_ns);
	return job->verdict;
}

struct job *world_next(struct world *world)
{
	struct message *message = world->mail;
	struct ticket *ticket = message ? ticket_of(message) : NULL;
	struct job *job;

	if (ticket == NULL)
		return NULL;
	world->mail = ticket->message.next;
	if (world->mail == NULL)
		world->mail_tail = &world->mail;
	world->mails--;
	job = (struct job *)ticket;
	job->verdict = queue_arrive(world->queue, ticket, world->now_ns);
	return job;
}

void world_expect(struct world *world, struct job *job, enum queue_verdict verdict)
{
	struct job *next = world_next(world);

	assert_ptr_equal(next, job);
	if (next != NULL)
		assert_int_equal(next->verdict, verdict);
}

void world_expect_none(struct world *world)
{
	assert_null(world->mail);
}

void world_done(struct world *world, struct job *job)
{
	assert_int_equal(queue_done(world->queue, &job->ticket, world->now_ns), QUEUE_LEFT);
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}
