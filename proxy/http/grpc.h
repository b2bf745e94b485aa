/*
 * Answers of our own to calls of gRPC (gRPC over HTTP/2, "Responses"): a head alone, with what else
 * would be trailers. Its status is 200; the call's is a field.
 *
 *   content-type: application/grpc
 *   grpc-status: 8
 *   grpc-message: Rate limit exceeded          percent-encoded
 *   grpc-retry-pushback-ms: 6500               gRFC A6: a client with a retry policy waits so long
 */
#ifndef HTTP_GRPC_H
#define HTTP_GRPC_H

#include "http/problem.h"

/* Is the request a call of gRPC: with a body of type application/grpc, in any format? Those of
 * grpc-web are not. */
bool http_is_grpc(const struct http_head *request);

/* The status of gRPC that says what a status of HTTP, from 400 on, says. */
unsigned http_grpc_status(unsigned status);

/* Puts the fields in place of http_problem_put_fields. */
void http_grpc_put_fields(struct field_sink *sink, const struct http_problem *problem);

/* The value of grpc-timeout in milliseconds, rounded up; 0: there is none, or it is malformed. */
uint64_t http_grpc_timeout_ms(const struct http_head *request);

#endif
