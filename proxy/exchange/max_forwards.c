#include "exchange/max_forwards.h"

#include <string.h>

#include "exchange/exchange.h"
#include "exchange/reply.h"
#include "gate/route.h"
#include "http/problem.h"

/* Methods that this host and path are served with. */
static uint64_t methods_here(struct exchange *x)
{
	uint64_t methods = 0;

	for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++) {
		enum http_method method = (enum http_method)i;
		uint64_t bit = UINT64_C(1) << i;
		struct route_match match = route_match_again(x->use->site->routes,
			x->worker->route_scratch, x->facts.host, x->facts.path, method);
		if (match.outcome == ROUTE_FOUND &&
			((match.route->methods ? match.route->methods : HTTP_METHODS_USUAL) & bit))
			methods |= bit;
	}
	return methods;
}

bool max_forwards_reached(struct exchange *x)
{
	struct http_field *field = &x->request.fields[x->request.first[HTTP_FIELD_MAX_FORWARDS]];
	char *digits = x->memory.head + field->value_at;
	uint32_t len = field->value_len, last = len;

	if (x->request.method != HTTP_METHOD_OPTIONS && x->request.method != HTTP_METHOD_TRACE)
		return false;
	for (uint32_t i = 0; i < len; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
		if (digits[i] != '0')
			last = i;
	}
	if (len == 0)
		return false;
	if (last == len) {
		x->facts.allow = methods_here(x);
		exchange_reply(x, x->request.method == HTTP_METHOD_OPTIONS ? 200 : 405,
			"no forwards left", HTTP_PROBLEM_NO_RETRY);
		return true;
	}
	digits[last]--;
	memset(digits + last + 1, '9', len - last - 1);
	if (digits[0] == '0' && len > 1) { /* 10 -> "9 ", whose blank is no part of the value */
		memmove(digits, digits + 1, len - 1);
		digits[--field->value_len] = ' ';
	}
	return false;
}
