#include "site/spare.h"

#include "base/log.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "upstream/server_connection.h"
#include "upstream/server_pool.h"
#include "upstream/upstream.h"
#include "worker/node.h"

/* Closed for one question by each worker: who lacks one descriptor is about to lack more. */
#define CLOSED_AT_ONCE 8
/* Connections become idle while others are asked, so that one answer does not tell. */
#define VAIN_MOST 3
/* Between two lines that say that connections are closed. */
#define LINE_MS 60000

/* Takes from the server that has most of them, so that the others keep theirs. */
static struct server_connection *pop_oldest(struct worker *worker)
{
	const struct site *site = site_part(worker)->use->site;
	struct server_state *chosen = NULL;
	uint32_t most = 0;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			uint32_t count = pool_count(upstream->servers[j].state, worker);
			if (count > most) {
				most = count;
				chosen = upstream->servers[j].state;
			}
		}
	}
	return chosen ? pool_pop_oldest(chosen, worker) : NULL;
}

static bool close_idle(struct worker *worker)
{
	struct server_connection *connection = pop_oldest(worker);

	if (!connection)
		return false;
	server_connection_close_unlisted(connection);
	return true;
}

bool spare_own(struct worker *worker)
{
	struct node_spare *spare = &worker->node->spare;
	uint64_t now_ms = worker_now_ms(worker);

	if (!close_idle(worker) && !worker_give_up(worker))
		return false;
	worker_count(worker, STATS_SPARED);
	/* Both relaxed: who reads the first by an answer has the order from that. */
	uint64_t count = atomic_fetch_add_explicit(&spare->closed, 1, memory_order_relaxed) + 1;
	uint64_t next_ms = atomic_load_explicit(&spare->next_line_ms, memory_order_relaxed);
	if (now_ms >= next_ms &&
		atomic_compare_exchange_strong_explicit(&spare->next_line_ms, &next_ms,
			now_ms + LINE_MS, memory_order_relaxed, memory_order_relaxed))
		log_warn("all file descriptors are in use: closing idle connections to servers, "
			 "%llu so far",
			(unsigned long long)count);
	return true;
}

/* Have all the others answered the question? */
static bool is_answered(const struct worker *worker, uint64_t number)
{
	const struct node *node = worker->node;

	for (unsigned i = 0; i < node->worker_count; i++) {
		struct worker *other = node->workers[i];
		/* acquire: pairs with the release in spare_answer; what was closed is counted */
		if (other != worker && atomic_load_explicit(&other->inbox.spare_answered,
					       memory_order_acquire) < number)
			return false;
	}
	return true;
}

bool spare_ask(struct worker *worker, struct spare_question *question)
{
	struct node *node = worker->node;

	if (question->number != 0 && !is_answered(worker, question->number))
		return true;
	uint64_t closed = atomic_load_explicit(&node->spare.closed, memory_order_relaxed);
	if (question->number != 0)
		question->vain = closed == question->closed ? question->vain + 1 : 0;
	if (node->worker_count == 1 || question->vain == VAIN_MOST) {
		*question = (struct spare_question){0};
		return false;
	}
	question->closed = closed;
	/* seq_cst: before the commands, so that who gets these sees it */
	question->number = atomic_fetch_add(&node->spare.questions, 1) + 1;
	for (unsigned i = 0; i < node->worker_count; i++) {
		if (node->workers[i] != worker)
			worker_command(node->workers[i], WORKER_SPARE);
	}
	return true;
}

void spare_answer(struct worker *worker)
{
	/* Before the look: a question behind it gets an answer of its own. */
	uint64_t number = atomic_load(&worker->node->spare.questions);

	for (unsigned i = 0; i < CLOSED_AT_ONCE && spare_own(worker); i++)
		;
	/* release: pairs with the acquire in is_answered */
	atomic_store_explicit(&worker->inbox.spare_answered, number, memory_order_release);
}

void spare_end(struct worker *worker)
{
	atomic_store_explicit(&worker->inbox.spare_answered, UINT64_MAX, memory_order_release);
}
