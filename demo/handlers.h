/*
 * What sluice-demo answers:
 *
 *   GET  /account                 {"balance": 12, "version": 3}
 *   POST /deposit   amount        the account after it
 *   POST /withdraw  amount        the same, or 409 when there is not enough
 *   any  /echo                    the request as it arrived: method, target, fields, body
 *   any  /slow?ms=N               an answer after N milliseconds
 *
 * An amount is `?amount=5`, or a body of `{"amount": 5}` or `amount=5`.
 */
#ifndef DEMO_HANDLERS_H
#define DEMO_HANDLERS_H

#include "demo/account.h"

#include <stdbool.h>

struct event_base;
struct evhttp;

struct demo {
	struct event_base *base;
	struct account account;
	bool quiet; /* no line on stdout for each request */
};

/* Answers what comes to `http`; `demo` stays the caller's and must outlive it. */
void demo_handlers_install(struct demo *demo, struct evhttp *http);

#endif
