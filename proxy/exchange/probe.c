#include "exchange/probe.h"

#include "exchange/exchange.h"
#include "exchange/reply.h"
#include "http/problem.h"
#include "listen/listener.h"

#define METHODS (UINT64_C(1) << HTTP_METHOD_GET | UINT64_C(1) << HTTP_METHOD_HEAD)

bool probe_answered(struct exchange *x)
{
	bool is_ready;

	if (!x->client->listener->conf->health || !(METHODS >> x->request.method & 1))
		return false;
	is_ready = slice_equal(x->facts.path, SLICE("/readyz"));
	if (!is_ready && !slice_equal(x->facts.path, SLICE("/healthz")))
		return false;
	x->facts.allow = METHODS;
	if (is_ready && x->worker->node->stopping)
		exchange_reply(x, 503, "draining", HTTP_PROBLEM_NO_RETRY);
	else
		exchange_reply(x, 200, "probe", HTTP_PROBLEM_NO_RETRY);
	return true;
}
