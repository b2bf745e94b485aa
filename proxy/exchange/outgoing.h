/*
 * Heads as they leave, whatever the wire: what of a message passes, and what a proxy omits,
 * rewrites and adds.
 *
 *   request   method, target, authority --> the protocol's beginning; fields --> its sink
 *   response  status                    --> the same; fields --> its sink
 *   reply     (an answer of our own)    the same, and its content
 *
 * A protocol (http1/compose.c) writes the beginning and how the message is framed, and has the
 * fields put into its sink. Field lines that pass unchanged, mostly runs of several, are copied
 * unchanged.
 */
#ifndef EXCHANGE_OUTGOING_H
#define EXCHANGE_OUTGOING_H

#include "gate/gate.h"
#include "http/changes.h"
#include "http/field_sink.h"
#include "http/problem.h"

struct exchange;

struct outgoing_request {
	struct exchange *exchange;
	bool as_came;      /* to another node: the client's version of HTTP, too */
	bool keeps_target; /* it is the one in the head */
	bool names_host;   /* the authority is not among the fields, but this: */
	struct slice authority;
	struct fields_omitted omitted; /* of those in the head */
	struct http_changes changes;
	bool has_changes;
	size_t bytes; /* all of it takes no more */
};

void outgoing_request_make(struct outgoing_request *request, struct exchange *exchange);

/* Appends the target; for any but `keeps_target`. */
void outgoing_put_target(struct http_out *out, const struct exchange *exchange);

/* Puts the fields that are added to those of the head. */
void outgoing_request_put(struct field_sink *sink, const struct outgoing_request *request);

struct outgoing_response {
	struct exchange *exchange;
	bool is_interim;
	bool has_limits;         /* the RateLimit fields are put, */
	bool replaces_ratelimit; /* in place of the upstream's of the same dialect */
	struct fields_omitted omitted;
	struct http_changes changes;
	bool has_changes;
	size_t bytes;
};

/* The changes that the listener and, if there is one, the route make in responses. With a client
 * only. */
struct http_changes exchange_response_changes(const struct exchange *exchange);

/* `is_interim`: a 1xx other than 101. */
void outgoing_response_make(
	struct outgoing_response *response, struct exchange *exchange, bool is_interim);

/* Puts the fields: those that pass, from the byte `from` of the head (field_pass), and those that
 * are added. */
void outgoing_response_put(
	struct field_sink *sink, const struct outgoing_response *response, size_t from);

struct outgoing_reply {
	struct exchange *exchange;
	unsigned status; /* of its head */
	bool is_grpc;    /* to a call of gRPC: a head alone (http/grpc.h) */
	struct http_problem problem;
	struct http_location location;
	struct http_changes changes;
	bool has_changes;
	size_t bytes; /* of the fields and the content */
	struct slice violated[GATE_LIMITS_MAX];
	char allow[HTTP_ALLOW_BYTES];
	char content[HTTP_PROBLEM_BYTES];
};

/* Of exchange.answer.status; `reply->status` is how its head says that. */
void outgoing_reply_make(struct outgoing_reply *reply, struct exchange *exchange);

/* The content, in reply->content. `at` is NULL: it does not fit. */
struct slice outgoing_reply_content(struct outgoing_reply *reply);

/* Puts the fields. */
void outgoing_reply_put(
	struct field_sink *sink, const struct outgoing_reply *reply, size_t content_bytes);

#endif
