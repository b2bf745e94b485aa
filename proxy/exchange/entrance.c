#include "exchange/entrance.h"

#include "exchange/hop.h"
#include "exchange/reply.h"
#include "http/forwarded.h"
#include "http/problem.h"
#include "net/tls_facts.h"

/* A trusted proxy may carry the requests of all hosts on one connection. */
static bool is_misdirected(const struct exchange *x)
{
	return x->client->tls && !x->client->peer->trusted &&
	       tls_facts_is_misdirected(x->client->tls, x->facts.host);
}

bool entrance_answered(struct exchange *x)
{
	const struct conf_listener *listener = client_listener(x->client);

	if (hop_is_from_node(x->client))
		return false;
	if (listener->redirect_port != 0 && !x->facts.is_https) {
		if (x->facts.host.len > 0)
			exchange_reply(x, 308, "redirect to https", HTTP_PROBLEM_NO_RETRY);
		else
			exchange_reply(x, 400, "no host to redirect to", HTTP_PROBLEM_NO_RETRY);
		return true;
	}
	if (!is_misdirected(x))
		return false;
	exchange_reply(x, 421, "misdirected", HTTP_PROBLEM_NO_RETRY);
	return true;
}
