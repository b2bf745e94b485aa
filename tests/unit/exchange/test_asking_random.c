/* Random clients, sessions, reloads and ends, with authorities that answer as they like. A plain
 * oracle beside the queue says who may be with the server; nothing may hang or be left. */
#include "asking_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "../random.h"
#include "queue/session.h"
#include "tests/unit/suite.h"

static struct world world;
static struct random random_source;
static __thread struct random *draws; /* of this thread */

static size_t below(size_t bound)
{
	return random_below(draws, bound);
}

/* ---- what authorities say -------------------------------------------------------------------- */

static enum fake_word any_word(void)
{
	static const enum fake_word words[] = {FAKE_ADMIT, FAKE_ADMIT, FAKE_ADMIT, FAKE_ADMIT,
		FAKE_REFUSE, FAKE_DELAY, FAKE_UNAVAILABLE};

	return words[below(sizeof(words) / sizeof(words[0]))];
}

static enum fake_word plan(void *ctx, const struct authority_question *question)
{
	struct job *job = job_asked(question);

	(void)ctx;
	return job->said = below(4) == 0 ? any_word() : FAKE_PENDING;
}

static bool admits(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	return below(3) == 0 && job_admitted(question);
}

static enum fake_word at_expiry(void *ctx, const struct authority_question *question)
{
	struct job *job = job_of_question(question);

	(void)ctx;
	job->said = below(3) > 0 ? FAKE_UNAVAILABLE : any_word();
	return job->said;
}

/* ---- the oracle: who may be with the server -------------------------------------------------- */

/* `other` entered the session before `job`, or is with the server: must it be over first? */
static bool holds_back(const struct job *other, const struct job *job)
{
	bool waits = !other->in_service && other->place > 0 && other->place < job->place &&
		     exchange_is_queued(other->exchange);
	bool is_under_way = other->in_service && !other->complete;

	switch (job->route) {
	case ROUTE_STRICT:
	case ROUTE_TABLE:
	case ROUTE_NARROW:
		return waits || is_under_way;
	case ROUTE_WRITES:
		if (other->is_write)
			return waits || is_under_way;
		return job->is_write && (waits || (is_under_way && !other->answered));
	case ROUTE_FREE:
	case ROUTE_SHALLOW:
		break;
	}
	return false;
}

static void may_be_served(struct job *job)
{
	unsigned in_service = 0;

	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			const struct job *other = &host->jobs[i];
			if (!other->exchange || other->route != job->route ||
				other->session != job->session || other->loose || job->loose)
				continue;
			in_service += other->in_service && !other->complete;
			hold_to(other == job || !holds_back(other, job), "passed another");
		}
	}
	hold_to(job->route != ROUTE_FREE || in_service <= 2, "too many of one session");
}

/* ---- what happens ---------------------------------------------------------------------------- */

static struct host *any_host(void)
{
	return &world.hosts[below(world.host_count)];
}

/* One that is under way, with the server or not as asked for; NULL: none was found. */
static struct job *any_job(bool in_service)
{
	struct host *host = any_host();

	for (unsigned tries = 0; host->job_count > 0 && tries < 40; tries++) {
		unsigned latest = host->job_count < 100 ? host->job_count : 100;
		struct job *job = &host->jobs[host->job_count - 1 - below(latest)];
		if (job->exchange && job->in_service == in_service && !job->complete)
			return job;
	}
	return NULL;
}

static void any_request(void)
{
	struct host *host = any_host();
	unsigned open = 0;

	for (unsigned i = 0; i < host->peer_count; i++)
		open += !host->peers[i].closed;
	if (open == 0 || (open < CLIENTS_MOST && below(12) == 0))
		peer_new(host);
	struct peer *peer = &host->peers[below(host->peer_count)];
	enum job_route route = (enum job_route)below(JOB_ROUTES);
	unsigned session = (unsigned)below(SESSIONS_MOST);
	loop_enter(&host->worker->loop);
	if (below(12) == 0)
		peer_request_options(peer, route, session);
	else
		peer_request(peer, route, session, below(3) == 0);
	loop_enter(NULL);
}

static struct job *waiting_for(const struct fake_question *question)
{
	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			const struct exchange *x = host->jobs[i].exchange;
			if (x && question->questions == &x->worker->questions &&
				question->number == x->turn.question)
				return &host->jobs[i];
		}
	}
	return NULL;
}

static void any_reply(bool to_open)
{
	struct fake_authority *fake = &world.fakes[below(2)];

	for (unsigned tries = 0; fake->question_count > 0 && tries < 20; tries++) {
		unsigned latest = fake->question_count < 60 ? fake->question_count : 60;
		struct fake_question *question =
			&fake->questions[fake->question_count - 1 - below(latest)];
		if (to_open && question->fate != FAKE_OPEN)
			continue;
		enum fake_word word = any_word();
		struct job *job = question->fate == FAKE_OPEN ? waiting_for(question) : NULL;
		if (job)
			job->said = word;
		fake_reply(fake, question, word);
		return;
	}
}

static void serve_some(void)
{
	struct job *job = any_job(true);

	if (!job)
		return;
	loop_enter(&job->peer->host->worker->loop);
	if (below(3) == 0)
		job_answer(job);
	else
		job_end(job);
	loop_enter(NULL);
}

static void leave_one(void)
{
	struct host *host = any_host();

	if (host->peer_count == 0)
		return;
	loop_enter(&host->worker->loop);
	peer_leave(&host->peers[below(host->peer_count)]);
	loop_enter(NULL);
}

/* It leaves untaken what was sent to it, or takes it. */
static void fall_behind(struct host *host, bool is_behind)
{
	if (host->peer_count == 0)
		return;
	struct peer *peer = &host->peers[below(host->peer_count)];
	peer->behind = is_behind;
	loop_enter(&host->worker->loop);
	if (!peer->closed && !is_behind)
		client_advance(&peer->d.client);
	loop_enter(NULL);
}

static void close_a_session(void)
{
	struct job *like = any_job(below(2) == 0);

	if (!like || !like->exchange->times.judged_ns)
		return;
	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			struct job *job = &host->jobs[i];
			job->loose |= job->exchange && job->route == like->route &&
				      job->session == like->session;
		}
	}
	queue_close_session(world.node.queue, job_session(like),
		(enum session_state)(SESSION_DRAINING + below(3)), world.now_ns);
}

/* All messages are there, as between two turns. */
static void look_at_all(void)
{
	world_turn(&world);
	world_check_waits(&world);
}

static void step(void)
{
	size_t what = below(1000);

	if (what < 350)
		any_request();
	else if (what < 550)
		any_reply(true);
	else if (what < 590)
		any_reply(false);
	else if (what < 780)
		serve_some();
	else if (what < 790)
		leave_one();
	else if (what < 820)
		fall_behind(any_host(), below(3) == 0);
	else if (what < 824)
		close_a_session();
	else if (what < 827)
		world_reload(&world, (int)below(3) - 1);
	else if (what < 900)
		world_pass(&world, below(12));
	else
		look_at_all();
}

/* ---- the end --------------------------------------------------------------------------------- */

static unsigned live(void)
{
	unsigned count = 0;

	for (unsigned h = 0; h < world.host_count; h++)
		count += world.hosts[h].live;
	return count;
}

static void end_of_service(void)
{
	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		loop_enter(&host->worker->loop);
		for (unsigned i = 0; i < host->job_count; i++) {
			struct job *job = &host->jobs[i];
			if (job->exchange && job->in_service && !job->complete)
				job_end(job);
		}
		for (unsigned i = 0; i < host->peer_count; i++) {
			host->peers[i].behind = false;
			client_advance(&host->peers[i].d.client);
		}
		loop_enter(NULL);
	}
}

/* Time passes and servers answer; authorities say no more than they do when time is over. */
static void wait_for_all(void)
{
	for (unsigned i = 0; i < 400 && live() > 0; i++) {
		end_of_service();
		world_pass(&world, 60);
		world_check_waits(&world);
	}
	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		for (unsigned i = 0; i < host->job_count; i++) {
			if (host->jobs[i].exchange)
				fail_msg("it hangs: %s",
					exchange_state_name(host->jobs[i].exchange->state));
		}
	}
}

static void cut_all(bool stops)
{
	for (unsigned h = 0; h < world.host_count; h++) {
		struct host *host = &world.hosts[h];
		loop_enter(&host->worker->loop);
		host->worker->stopping = host->worker->draining = stops;
		for (unsigned i = 0; i < host->peer_count; i++)
			peer_leave(&host->peers[i]);
		loop_enter(NULL);
	}
}

static void drain(void)
{
	for (unsigned h = 0; h < world.host_count; h++)
		world.hosts[h].worker->draining = true;
}

/* ---- histories ------------------------------------------------------------------------------- */

static struct {
	unsigned served, refused, unavailable, cut, other;
	unsigned asked, expired, cancelled, replied;
} seen;

static void note_seen(void)
{
	for (unsigned h = 0; h < world.host_count; h++) {
		const struct host *host = &world.hosts[h];
		seen.served += host->served;
		seen.refused += host->refused;
		seen.unavailable += host->unavailable;
		seen.cut += host->cut;
		seen.other += host->other;
	}
	for (int i = 0; i < 2; i++) {
		seen.asked += world.fakes[i].asked;
		seen.expired += world.fakes[i].expired;
		seen.cancelled += world.fakes[i].cancelled;
		seen.replied += world.fakes[i].replied;
	}
}

static void begin(unsigned hosts, bool is_alone)
{
	world_open(&world, hosts, (int)below(2), is_alone);
	for (int i = 0; i < 2; i++) {
		world.fakes[i].plan = plan;
		world.fakes[i].admits = admits;
		world.fakes[i].at_expiry = at_expiry;
		world.fakes[i].delay_ns = (1 + below(40)) * CLOCK_NS_PER_MS;
	}
}

static void one_history(void)
{
	size_t steps = 200 + below(2500), how = below(3);

	begin(1 + (unsigned)below(HOSTS_MOST), true);
	world.serve = may_be_served;
	for (size_t i = 0; i < steps; i++)
		step();
	if (how == 0)
		cut_all(true);
	else if (how == 1)
		drain();
	if (how > 0)
		wait_for_all();
	cut_all(false);
	for (size_t i = 0; i < 20; i++)
		any_reply(false); /* whatever it was about, nobody waits for it any more */
	world_turn(&world);
	note_seen();
	world_close(&world);
}

static void histories(void **state)
{
	const char *count = getenv("HISTORIES");
	unsigned long most = count ? strtoul(count, NULL, 10) : 60;

	(void)state;
	draws = &random_source;
	for (unsigned long i = 0; i < most; i++) {
		uint64_t seed = random_source.state;
		printf("# history %lu: SEED=%llu\n", i, (unsigned long long)seed);
		fflush(stdout);
		one_history();
	}
	printf("# %u served, %u refused, %u unavailable, %u cut, %u others; "
	       "%u asked, %u expired, %u cancelled, %u replies\n",
		seen.served, seen.refused, seen.unavailable, seen.cut, seen.other, seen.asked,
		seen.expired, seen.cancelled, seen.replied);
	if (most >= 20)
		assert_true(seen.served && seen.refused && seen.unavailable && seen.cut &&
			    seen.other && seen.expired && seen.cancelled);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREAD_JOBS 1500

static struct {
	atomic_uint idle; /* hosts whose work is done */
	atomic_bool replies_end, ends;
} run;

static void count_in_service(struct job *job)
{
	int count = atomic_load(&world.in_service[job->route][job->session]);
	bool one_by_one = job->route == ROUTE_STRICT || job->route == ROUTE_TABLE;

	hold_to(!one_by_one || count == 1, "two of one session with the server");
	hold_to(job->route != ROUTE_FREE || count <= 2, "too many of one session");
}

static bool has_replies_out(void)
{
	bool any = false;

	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&world.fakes[i].lock);
		any |= world.fakes[i].replies_out > 0;
		pthread_mutex_unlock(&world.fakes[i].lock);
	}
	return any;
}

static struct job *any_of(struct host *host)
{
	unsigned latest = host->job_count < 60 ? host->job_count : 60;
	struct job *job = latest > 0 ? &host->jobs[host->job_count - 1 - below(latest)] : NULL;

	return job && job->exchange && job->in_service && !job->complete ? job : NULL;
}

static void one_turn(struct host *host)
{
	struct peer *peer = &host->peers[below(CLIENTS_MOST)];
	struct job *job;

	if (host->job_count < THREAD_JOBS && below(3) > 0) {
		if (peer >= host->peers + host->peer_count || peer->closed)
			peer = peer_new(host);
		peer_request(peer, (enum job_route)below(JOB_ROUTES),
			(unsigned)below(SESSIONS_MOST), below(3) == 0);
		if (below(80) == 0)
			peer_leave(peer);
	}
	while (below(3) > 0) {
		if ((job = any_of(host)) != NULL)
			job_end(job);
	}
	if (host == world.hosts)
		queue_expire(world.node.queue, worker_now_ns(host->worker));
}

static void end_what_is_served(struct host *host)
{
	for (unsigned i = 0; i < host->job_count; i++) {
		struct job *job = &host->jobs[i];
		if (job->exchange && job->in_service && !job->complete)
			job_end(job);
	}
}

static void *run_host(void *arg)
{
	struct host *host = arg;
	struct random random = {host->worker->index * UINT64_C(77777) + world.seed};
	bool is_idle = false;

	draws = &random;
	loop_enter(&host->worker->loop);
	while (!atomic_load(&run.ends) || has_replies_out()) {
		loop_hurry(&host->worker->loop);
		hold_to(loop_run_turn(&host->worker->loop) == 0, "no turn");
		one_turn(host);
		if (host->job_count >= THREAD_JOBS)
			end_what_is_served(host);
		if (!is_idle && host->job_count >= THREAD_JOBS && host->live == 0) {
			is_idle = true;
			atomic_fetch_add(&run.idle, 1);
		}
	}
	loop_enter(NULL);
	return NULL;
}

/* Replies to what is open, and now and then to what is closed by then. */
static void *reply_to_all(void *arg)
{
	struct random random = {world.seed};
	unsigned next[2] = {0, 0};

	(void)arg;
	draws = &random;
	while (!atomic_load(&run.replies_end)) {
		for (int i = 0; i < 2; i++) {
			struct fake_authority *fake = &world.fakes[i];
			pthread_mutex_lock(&fake->lock);
			unsigned count = fake->question_count;
			pthread_mutex_unlock(&fake->lock);
			if (next[i] < count && below(10) > 0)
				fake_reply(fake, &fake->questions[next[i]], any_word());
			next[i] += next[i] < count;
			if (count > 0 && below(20) == 0)
				fake_reply(fake, &fake->questions[below(count)], any_word());
		}
		if (below(4) == 0)
			usleep((useconds_t)below(200));
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t hosts[HOSTS_MOST], replies;

	(void)state;
	draws = &random_source;
	begin(HOSTS_MOST, false);
	world.serve = count_in_service;
	world.seed = random_next(&random_source);
	run.idle = 0;
	assert_int_equal(pthread_create(&replies, NULL, reply_to_all, NULL), 0);
	for (unsigned i = 0; i < HOSTS_MOST; i++)
		assert_int_equal(pthread_create(&hosts[i], NULL, run_host, &world.hosts[i]), 0);
	for (unsigned turn = 0; atomic_load(&run.idle) < HOSTS_MOST; turn++) {
		world_reload(&world, (int)(turn % 3) - 1);
		usleep(2000);
	}
	atomic_store(&run.replies_end, true);
	pthread_join(replies, NULL);
	atomic_store(&run.ends, true);
	for (unsigned i = 0; i < HOSTS_MOST; i++)
		pthread_join(hosts[i], NULL);
	world_turn(&world);
	cut_all(false);
	note_seen();
	world.now_ns = clock_monotonic_ns();
	world_close(&world);
}

UNIT_SUITE(test_asking_random)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories),
		cmocka_unit_test(threads),
	};
	alarm(120);
	random_source = random_begin("asking");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
