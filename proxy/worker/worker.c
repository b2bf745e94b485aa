#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/container.h"
#include "base/log.h"
#include "net/tls_stream.h"
/* ---- commands -------------------------------------------------------------------------------- */

void worker_site_taken(struct worker *worker)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->take_site)
			(*part)->take_site(worker);
	}
}

bool worker_give_up(struct worker *worker)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->give_up && (*part)->give_up(worker))
			return true;
	}
	return false;
}

static void run_parts(struct worker *worker, unsigned commands)
{
	for (const struct worker_part *const *part = worker->parts; commands && *part; part++) {
		if ((*part)->command)
			(*part)->command(worker, commands);
	}
}

/* The drain lasted too long, or was cut short by a second signal: says what it waited for. */
static void log_work_left(struct worker *worker)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->is_done && !(*part)->is_done(worker))
			log_info("worker %u: ending although it has %s", worker->index,
				(*part)->work);
	}
}

static void run_commands(struct message *message)
{
	struct worker *worker = CONTAINER_OF(message, struct worker, inbox.command);
	/* acq_rel: acquire pairs with the release in worker_command; the message is free to be
	 * posted again from here on */
	unsigned commands =
		atomic_exchange_explicit(&worker->inbox.commands, 0, memory_order_acq_rel);
	unsigned ends = commands & (WORKER_DRAIN | WORKER_STOP);

	run_parts(worker, commands & ~ends);
	if (ends == 0)
		return;
	if (ends & WORKER_DRAIN)
		worker->drain_began_ms = worker_now_ms(worker);
	worker->draining = true;
	if (ends & WORKER_STOP && !worker->stopping) {
		log_work_left(worker);
		worker->stopping = true;
	}
	run_parts(worker, ends);
}

void worker_command(struct worker *worker, unsigned commands)
{
	/* acq_rel: release pairs with the acquire in run_commands; acquire so that the message is
	 * posted only after its last run has taken what it was posted for */
	if (atomic_fetch_or_explicit(&worker->inbox.commands, commands, memory_order_acq_rel) == 0)
		message_post(&worker->loop, &worker->inbox.command);
}

void worker_next_request_id(struct worker *worker)
{
	for (int i = WORKER_REQUEST_ID_BYTES - 1; i >= WORKER_REQUEST_ID_BYTES - 12; i--) {
		char *digit = &worker->request_id[i];
		if (*digit != 'f') {
			*digit = *digit == '9' ? 'a' : (char)(*digit + 1);
			return;
		}
		*digit = '0';
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Parts with nothing to do at a turn's end are left out of each. */
static void add_part(struct worker *worker, const struct worker_part *part)
{
	if (!part->end_turn)
		return;
	assert(worker->turn_ends.count < WORKER_TURN_ENDS);
	worker->turn_ends.run[worker->turn_ends.count++] = part->end_turn;
}

static void free_memory(struct worker *worker)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->bytes > 0)
			free(worker->memory[(*part)->memory]);
	}
	free(worker);
}

/* Allocates the memory of all parts before any is made, so that an unmade one can be freed. */
static bool allocate_memory(struct worker *worker)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->bytes == 0)
			continue;
		worker->memory[(*part)->memory] = calloc(1, (*part)->bytes);
		if (!worker->memory[(*part)->memory])
			return false;
	}
	return true;
}

static bool make_parts(struct worker *worker, void *site)
{
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		add_part(worker, *part);
		if ((*part)->make && !(*part)->make(worker, site))
			return false;
	}
	return true;
}

struct worker *worker_new(
	struct node *node, unsigned index, void *site, const struct worker_part *const *parts)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	uint64_t seed;

	if (!worker)
		return NULL;
	worker->node = node;
	worker->index = index;
	worker->parts = parts;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
		seed = clock_wall_ns() + index;
	char id[WORKER_REQUEST_ID_BYTES + 1];
	snprintf(id, sizeof(id), "%016llx%012d", (unsigned long long)seed, 0);
	memcpy(worker->request_id, id, sizeof(worker->request_id));
	int error = allocate_memory(worker) ? loop_init(&worker->loop) : ENOMEM;
	if (error != 0) {
		log_error("worker %u: %s", index, strerror(error));
		free_memory(worker);
		return NULL;
	}
	stream_loop_init(&worker->streams, &worker->loop);
	worker->inbox.command.run = run_commands;
	if (make_parts(worker, site))
		return worker;
	log_error("worker %u: no memory", index);
	worker_free(worker);
	return NULL;
}

static bool is_over(const struct worker *worker)
{
	if (!worker->draining || loop_has_ready(&worker->loop))
		return false;
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->is_done && !(*part)->is_done(worker))
			return false;
	}
	return true;
}

void *worker_main(void *arg)
{
	struct worker *worker = arg;
	char name[16]; /* as `top -H` and debuggers show it */

	snprintf(name, sizeof(name), "worker-%u", worker->index);
	pthread_setname_np(pthread_self(), name);
	loop_enter(&worker->loop);
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->begin)
			(*part)->begin(worker);
	}
	while (!is_over(worker)) {
		int error = loop_run_turn(&worker->loop);
		if (error != 0) {
			log_error("worker %u: the event loop failed: %s", worker->index,
				strerror(error));
			break;
		}
		for (unsigned i = 0; i < worker->turn_ends.count; i++)
			worker->turn_ends.run[i](worker);
	}
	for (const struct worker_part *const *part = worker->parts; *part; part++) {
		if ((*part)->end)
			(*part)->end(worker);
	}
	return NULL;
}

void worker_free(struct worker *worker)
{
	loop_enter(&worker->loop); /* what is released here belonged to that thread */
	const struct worker_part *const *part = worker->parts;
	while (*part)
		part++;
	while (part-- > worker->parts) {
		if ((*part)->free)
			(*part)->free(worker);
	}
	tls_end_leaving(&worker->streams);
	stream_loop_end(&worker->streams);
	loop_end(&worker->loop);
	loop_enter(NULL);
	free_memory(worker);
}
