/*
 * RateLimit fields of a response, in the dialect of the route or its listener:
 *
 *   draft-11     RateLimit-Policy: "burst";q=100;w=10, "daily";q=10000;w=86400
 *                RateLimit: "burst";r=0;t=7, "daily";r=512;t=3600
 *   draft-7      RateLimit-Policy: 100;w=10, 10000;w=86400
 *                RateLimit: limit=100, remaining=0, reset=7          the limit with least left
 *   x-ratelimit  X-RateLimit-Limit: 100
 *                X-RateLimit-Remaining: 0
 *                X-RateLimit-Reset: 7                                seconds from now
 *   x-ratelimit-unix   the same, with
 *                X-RateLimit-Reset: 1795312639                       seconds since 1970, as GitHub
 *
 * Shadow limits are left out. Only draft-11 has units; the other dialects report limits on
 * requests. A request that another limit refused, in bytes or in flight, is reported as nothing
 * left for now.
 *
 * t and the reset of what was admitted are never above the window: a window counted in slots may
 * empty a slot later, but the reported remainder never exceeds the window. The exact wait of a
 * refused request is in Retry-After, and as t or reset of the limit that refused it.
 *
 * When the upstream sent such fields itself, the client gets what is more restrictive: a list of
 * its own (draft-11) is joined with ours, as further field lines; of single values the set with
 * less remaining is passed on, ours or theirs, as a whole.
 */
#ifndef GATE_RATELIMIT_FIELDS_H
#define GATE_RATELIMIT_FIELDS_H

#include <stdbool.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "gate/gate.h"
#include "http/message.h"
#include "http/field_sink.h"

/* Texts that are the same for every response, one set for each limit, made at load. */
struct ratelimit_texts;

/* conf must outlive the texts. NULL when there is no memory. */
struct ratelimit_texts *ratelimit_texts_new(const struct conf *conf);
void ratelimit_texts_free(struct ratelimit_texts *texts);

/* Limits in bytes are charged while bodies pass. So that the fields show what is left behind the
 * request that they answer, the bodies that are known are taken off: `bytes`, of request and
 * response together. Once for a verdict that admitted. */
void ratelimit_foresee_bytes(struct gate_verdict *verdict, uint64_t bytes);

/* Puts the fields; none when no limit is to be reported. `dialect` is not INHERIT. `wall_ms` is the
 * time since 1970; x-ratelimit-unix alone uses it. */
void ratelimit_put(struct field_sink *sink, const struct ratelimit_texts *texts,
	enum conf_ratelimit_headers dialect, const struct gate_verdict *verdict, uint64_t wall_ms);

/* The names of the violated limits, for the problem's body. Returns how many. */
unsigned ratelimit_violated(
	const struct gate_verdict *verdict, struct slice names[static GATE_LIMITS_MAX]);

/* The limit that is used up first: violated, then least left, then latest reset; of those that all
 * dialects can express. NULL: none. */
const struct gate_limit *ratelimit_tightest(const struct gate_verdict *verdict);

/* The remainder that a limit reports: nothing, for a request that it refused. */
uint64_t ratelimit_remaining(const struct gate_limit *limit);

/* ---- ratelimit_fields.c ---------------------------------------------------------------------- */

enum ratelimit_merge {
	RATELIMIT_OURS,   /* write ours; the upstream's fields of this dialect are not passed on */
	RATELIMIT_THEIRS, /* pass theirs on and write none */
	RATELIMIT_BOTH,   /* pass theirs on and write ours too */
};

/* The treatment of a response's own fields. `response` may be NULL (a reply of our own). */
enum ratelimit_merge ratelimit_merge(enum conf_ratelimit_headers dialect,
	const struct gate_verdict *verdict, const struct http_head *response);

/* Is this one of the fields that RATELIMIT_OURS leaves out? */
bool ratelimit_is_replaced(
	enum conf_ratelimit_headers dialect, enum http_field_id id, struct slice name);

#endif
