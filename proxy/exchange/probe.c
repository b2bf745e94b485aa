#include "exchange/probe.h"

#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "exchange/reply.h"
#include "http/problem.h"
#include "listen/listener.h"

#define METHODS (UINT64_C(1) << HTTP_METHOD_GET | UINT64_C(1) << HTTP_METHOD_HEAD)

/* Have all workers the store, if it must be there? */
static bool has_store(const struct exchange *x)
{
	struct node *node = x->worker->node;

	return !x->use->site->conf->fleet.store_required ||
	       atomic_load(&node->store_links) == node->worker_count;
}

bool probe_answered(struct exchange *x)
{
	bool is_ready;

	if (!client_listener(x->client)->health || !(METHODS >> x->request.method & 1))
		return false;
	is_ready = slice_equal(x->facts.path, SLICE("/readyz"));
	if (!is_ready && !slice_equal(x->facts.path, SLICE("/healthz")))
		return false;
	x->facts.allow = METHODS;
	if (is_ready && x->worker->node->stopping)
		exchange_reply(x, 503, "draining", HTTP_PROBLEM_NO_RETRY);
	else if (is_ready && atomic_load(&node_listening(x->worker->node)->deaf) > 0)
		exchange_reply(x, 503, "not listening", HTTP_PROBLEM_NO_RETRY);
	else if (is_ready && !has_store(x))
		exchange_reply(x, 503, "no store", HTTP_PROBLEM_NO_RETRY);
	else
		exchange_reply(x, 200, "probe", HTTP_PROBLEM_NO_RETRY);
	return true;
}
