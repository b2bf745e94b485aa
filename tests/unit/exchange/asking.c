#include "asking.h"

struct world world;

static enum fake_word plan_pending(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	job_asked(question);
	return FAKE_PENDING;
}

static enum fake_word unavailable(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	job_of_question(question)->said = FAKE_UNAVAILABLE;
	return FAKE_UNAVAILABLE;
}

struct host *asking_begin(void)
{
	world_open(&world, 1, 0, true);
	for (int i = 0; i < 2; i++) {
		world.fakes[i].plan = plan_pending;
		world.fakes[i].at_expiry = unavailable;
		world.fakes[i].delay_ns = 50 * CLOCK_NS_PER_MS;
	}
	loop_enter(&world.hosts[0].worker->loop);
	return &world.hosts[0];
}

void asking_end(void)
{
	for (unsigned i = 0; i < world.hosts[0].peer_count; i++)
		peer_leave(&world.hosts[0].peers[i]);
	world_close(&world);
}

struct fake_question *asking_question(const struct job *job)
{
	const struct exchange *x = job->exchange;
	struct fake_authority *fake =
		(struct fake_authority *)(void *)x->gate->identity.authority; /* its first */

	return fake_find(fake, &x->worker->questions, x->turn.question);
}

void asking_reply(struct job *job, enum fake_word word)
{
	struct fake_question *question = asking_question(job);
	struct fake_authority *fake =
		(struct fake_authority *)(void *)job->exchange->gate->identity.authority;

	assert_non_null(question);
	job->said = word;
	fake_reply(fake, question, word);
	world_turn(&world);
	world_check_waits(&world);
}

enum exchange_state asking_state(const struct job *job)
{
	return job->exchange ? job->exchange->state : EXCHANGE_ENDED;
}
