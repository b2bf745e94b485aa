/* Exchanges of clients that enter an upstream's queue, go and are done, one after the other. */
#ifndef TESTS_QUEUE_JOBS_H
#define TESTS_QUEUE_JOBS_H

#include "tests/unit/queue/harness.h"

#define MAX_JOBS 4000

struct fixture {
	struct world world;
	struct job job[MAX_JOBS];
	unsigned jobs;
};

static inline struct fixture *open_fixture(
	enum queue_ordering ordering, const struct run_queue_config *config)
{
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));

	world_open_with(&fixture->world, ordering, NULL, config);
	return fixture;
}

static inline void close_fixture(struct fixture *fixture)
{
	world_close(&fixture->world);
	test_free(fixture);
}

/* `count` exchanges of a client, all of which must get this verdict. */
static inline struct job *enter(struct fixture *fixture, unsigned client, unsigned count, char kind,
	unsigned weight, enum queue_verdict verdict)
{
	struct job *first = &fixture->job[fixture->jobs];

	for (unsigned i = 0; i < count; i++) {
		struct job *job = &fixture->job[fixture->jobs++];
		job_init(job, client, i, kind);
		job->ticket.weight = (uint16_t)weight;
		assert_int_equal(world_enter(&fixture->world, job), verdict);
	}
	return first;
}

/* Completes one after the other, starting with job, and tells how often each client went in the
 * next `turns` dispatches. */
static inline struct job *run(
	struct fixture *fixture, struct job *job, unsigned turns, unsigned *went, unsigned clients)
{
	memset(went, 0, clients * sizeof(*went));
	for (unsigned i = 0; i < turns; i++) {
		world_done(&fixture->world, job);
		job = world_next(&fixture->world);
		assert_non_null(job);
		assert_int_equal(job->verdict, QUEUE_GO);
		assert_true(job->client < clients);
		went[job->client]++;
	}
	return job;
}

static inline void finish(struct fixture *fixture, struct job *job)
{
	while (job != NULL) {
		world_done(&fixture->world, job);
		job = world_next(&fixture->world);
	}
}

#endif
