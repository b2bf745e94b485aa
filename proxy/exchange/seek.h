/*
 * An exchange of a route with session_scope = fleet: which node owns its session (owners.h), and
 * what follows from that.
 *
 *   turn_begin --seek_begin--> here: its turn as any
 *                 |    `-----> elsewhere: its place in its session, then to that node, as to a
 * server
 *                 `- asked --> SEEKING --answered--^
 *
 *   its turn --seek_at_turn--> here, owned as before: forwarded
 *      |          |            here, and it was another's: judged here, in its place
 *      |          |            lost: 503, what was queued under an ownership goes with it
 *      |          `- lease over: SEEKING, until it is renewed, or lost
 *      `- the other node fails it --seek_after_failure--> SEEKING: asked again and again, until
 *             not a byte had left: the owner is reached, another one, or this node: goes on
 *             some had: the owner is another one, or can be reached: 502
 *
 * What was forwarded to a node and is not answered is so given up, when another node owns the
 * session or that one lives on without it; never before, as it could still reach a server.
 */
#ifndef EXCHANGE_SEEK_H
#define EXCHANGE_SEEK_H

#include <stdbool.h>
#include <stdint.h>

struct exchange;

/* The steps that the caller of seek provides, so that seek names none of its callers. */
struct seek_steps {
	void (*begin_here)(struct exchange *exchange); /* its turn, as any */
	void (*enter)(struct exchange *exchange); /* the queue of x->upstream, or waits for that */
	/* In its turn: gives its place at the upstream back, and keeps its place in the order. */
	void (*yield_place)(struct exchange *exchange);
	void (*judge_here)(struct exchange *exchange); /* in such a place */
	void (*forward)(struct exchange *exchange);
	void (*wait_until)(struct exchange *exchange, uint64_t at_ms);
};

/* It is known whom its limits charge. */
void seek_begin(struct exchange *exchange, const struct seek_steps *steps);

/* Has some of it left for a node that has failed it? */
bool seek_is_lost(const struct exchange *exchange);

/* Its turn has come. False: it waits, or was answered. */
bool seek_at_turn(struct exchange *exchange);

/* Some of it is about to leave for a server, its first byte or more of its body. False: it was
 * answered, or cut off, as the lease is over; or it is SEEKING, as it is another node's by now. */
bool seek_may_send(struct exchange *exchange);

/* The node that it was to be, or was, forwarded to can be reached again. False: it was given up,
 * and is answered now. */
bool seek_is_connected(struct exchange *exchange);

/* The rest of its queue_timeout as it enters its queue: milliseconds. Of any exchange. */
uint64_t seek_queue_timeout_ms(const struct exchange *exchange);

/* In SEEKING its deadline has passed. */
void seek_expire(struct exchange *exchange);

/* The node has answered that it has not forwarded it, as it is not the owner. */
void seek_refused(struct exchange *exchange);

#endif
