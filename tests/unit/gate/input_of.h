/* What the gate is given of a request from 192.0.2.1, for tests. */
#ifndef TESTS_GATE_INPUT_OF_H
#define TESTS_GATE_INPUT_OF_H

#include "../http/head.h"
#include "conf_of.h"
#include "gate/identity.h"
#include "http/forwarded.h"

/* `GET /` on this route with these fields, whose head stays the caller's. */
static inline struct identity_input input_of(
	struct http_head *head, const char *route, const char *fields)
{
	struct identity_input input = {
		.head = head,
		.host = SLICE("h"),
		.path = SLICE("/"),
		.method = SLICE("GET"),
		.route = slice_of(route),
	};

	head_of(head, fields);
	assert_true(forwarded_address_parse(SLICE("192.0.2.1"), input.address));
	return input;
}

#endif
