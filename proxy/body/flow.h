/*
 * The bytes that wait to be sent to a socket: at most three runs of bytes, in this order.
 *
 *   [ prefix: heads, chunk sizes, local replies ][ body: borrowed ][ suffix: CRLF after a chunk ]
 *     own buffer                                   source's buffer    constant
 *
 * Invariant: the prefix grows only while there is nothing borrowed behind it. Memory is
 * bounded by one block plus the one borrowed from, and by the spool.
 *
 * Bytes that a slow socket does not accept can be moved out of the runs into a spool, which
 * precedes them: flow_spill. The spool is there only while it holds something, or once bytes in it
 * were lost: then nothing more is written, as the peer would take what follows for what is missing.
 */
#ifndef BODY_FLOW_H
#define BODY_FLOW_H

#include "base/buffer.h"
#include "base/slice.h"
#include "http/out.h"
#include "net/stream.h"
#include "spool/spool.h"

struct flow {
	struct spool *spool; /* NULL, or not empty, or lost: precedes all that follows */
	struct buffer prefix;
	struct slice body; /* stays with the source until flow_is_empty */
	struct slice suffix;
	struct buffer kept; /* a block that body lies in, when the source gave it away */
};

static inline bool flow_is_empty(const struct flow *flow)
{
	return (buffer_used(&flow->prefix) | flow->body.len | flow->suffix.len |
		       (uintptr_t)flow->spool) == 0;
}

/* How much of the runs is still to be written. */
static inline size_t flow_bytes(const struct flow *flow)
{
	return buffer_used(&flow->prefix) + flow->body.len + flow->suffix.len;
}

/* May the prefix grow? What of a body is the flow's own moves into it then. */
static inline bool flow_takes_prefix(const struct flow *flow)
{
	return flow->body.len == 0 || flow->kept.at;
}

/*
 * Room of at least `bytes` at the end of the prefix to compose into; flow_commit takes what was
 * written. False without memory. Only when flow_takes_prefix.
 */
bool flow_reserve(struct flow *flow, struct buffer_pool *pool, size_t bytes, struct http_out *out);
void flow_commit(struct flow *flow, const struct http_out *out);

/* Appends a copy. False without memory. */
bool flow_append(struct flow *flow, struct buffer_pool *pool, struct slice bytes);

/* Takes back what was composed when `bytes` were still to be written, and nothing since. Only as
 * long as nothing is borrowed. */
void flow_truncate(struct flow *flow, size_t bytes);

/*
 * Moves the runs into the spool, which is made with these limits when there is none. True when all
 * of them are in it, so that the runs can be filled again; else the rest stays, as there is no room
 * for it, or flow_is_lost.
 */
bool flow_spill(struct flow *flow, struct buffer_pool *pool, struct spool_store *store,
	struct spool_limits limits);

/* Can bytes of the spool not be read any more? Such a flow is never empty until it is cleared. */
static inline bool flow_is_lost(const struct flow *flow)
{
	return flow->spool && spool_is_lost(flow->spool);
}

/* Writes as much as the socket takes. OK: the flow is empty. `*written` is added to. FAILED also
 * when it is lost. */
enum stream_result flow_write(
	struct flow *flow, struct stream *stream, struct buffer_pool *pool, uint64_t *written);

/* Forgets what was not written. */
void flow_clear(struct flow *flow, struct buffer_pool *pool);

#endif
