/*
 * An authority judges requests by limits and keeps the account of what it admitted. The node's own
 * table is the first one: gate_judge calls it directly. Another authority may have to ask
 * elsewhere, and answers later, by a message to the worker that asks.
 *
 *   gate_begin --> admit: what it has here is enough, and the place can wait for that
 *       `--> place in the session --> ask --+-- JUDGED, UNAVAILABLE: at once
 *                                           `-- PENDING --+-- authority_reply -> answered()
 *                                                         +-- its time is over: expire
 *                                                         `-- nobody waits for it: cancel
 *   what was taken --> receipt --> charge ... --> settle or refund, once
 *
 * A pending question is known by its worker and a number that is never used again, and by nothing
 * else. A reply that comes twice, late or after a cancel finds no question: what it took goes back
 * to its authority by refund. So no memory of an exchange waits for an authority.
 *
 * The promises of an authority:
 *  - No call blocks. All are made on the thread of the worker that asks; several workers call at
 *    once.
 *  - A question covers all limits of a request: all of them are charged, or none.
 *  - PENDING: it replies, from any thread, or never. On the worker's thread it may use the
 *    question's route and identity until the reply has been delivered, or the question expired or
 *    was cancelled; what another thread needs, and what it needs longer, it copies in `ask`.
 *  - It outlives each snapshot whose gate names it, and all receipts: an exchange holds the
 *    snapshot that it began under.
 *  - It sends no reply to a worker that has ended. It has a part of its own in each worker, which
 *    sees to that.
 */
#ifndef GATE_AUTHORITY_H
#define GATE_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/gate.h"
#include "loop/message.h"

struct questions;
struct authority_calls;
struct loop;

/* How long a question may be pending, unless its authority has another bound. */
#define AUTHORITY_TIMEOUT_MS 20

struct authority {
	const struct authority_calls *calls;
	_Atomic uint64_t timeout_ms; /* a reload may change it */
};

enum authority_answer {
	AUTHORITY_JUDGED,      /* the judgement has the result */
	AUTHORITY_PENDING,     /* a reply comes, or none */
	AUTHORITY_UNAVAILABLE, /* it cannot judge now: 503 after judgement.retry_after_ms */
};

struct authority_question {
	const struct conf_route *route;
	const struct gate_identity *identity; /* gate_charges: its limits and callers */
	uint64_t now_ns, waited_ns;           /* as gate_judge has them */
	struct questions *questions;          /* of the worker that asks: it gets the reply, */
	uint64_t number;                      /* to this one */
};

struct authority_judgement {
	/* JUDGED: an outcome for each charge of gate_charges, in its order. Of a refusal, those of
	 * limits that are not violated have the remainder before any charge. */
	struct throttle_verdict limits;
	/* The charges, if limits.admitted: `account` and `throttle` are the authority's to fill and
	 * to read, as far as it needs them. */
	struct gate_receipt receipt;
	uint64_t retry_after_ms; /* UNAVAILABLE: at least 1 */
};

struct authority_calls {
	/* Admits what needs nothing from elsewhere, of limits that nodes lease
	 * (gate_identity.leased). It knows no question's number. True: as ask with JUDGED, and the
	 * request is admitted; false: nothing was taken, it is to be asked. NULL: it never does. */
	bool (*admit)(struct authority *authority, const struct authority_question *question,
		struct authority_judgement *judgement);
	/* Judges, or begins to. Fills `judgement` unless it returns PENDING. */
	enum authority_answer (*ask)(struct authority *authority,
		const struct authority_question *question, struct authority_judgement *judgement);
	/* The question's time is over: what now? Never PENDING. */
	enum authority_answer (*expire)(struct authority *authority,
		const struct authority_question *question, struct authority_judgement *judgement);
	/* Nobody waits for the reply any more. */
	void (*cancel)(
		struct authority *authority, const struct questions *questions, uint64_t number);

	/* So many bytes more have passed: charged whether they fit or not, and never given back.
	 * receipt.in_bytes has the limits. */
	void (*charge)(
		struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes);
	/* The exchange is over: its true cost, if end.has_cost (to the limits of receipt.by_cost),
	 * and what is in flight is given back. */
	void (*settle)(struct authority *authority, const struct gate_receipt *receipt,
		const struct gate_end *end);
	/* Gives all of it back, as if never taken. */
	void (*refund)(struct authority *authority, const struct gate_receipt *receipt);
};

/* ---- who asks -------------------------------------------------------------------------------- */

struct question_slot;

/*
 * A worker's pending questions. Everything but authority_reply belongs to its thread.
 */
struct questions {
	struct loop *loop;
	void (*answered)(void *whose, enum authority_answer answer,
		const struct authority_judgement *judgement);
	struct question_slot *slots;
	uint32_t count, free; /* slots, and the first free one + 1; 0: none */
	uint32_t open;        /* questions */
};

/* `answered` is called for a reply whose question is open, which it closes. */
void questions_init(struct questions *questions, struct loop *loop,
	void (*answered)(void *whose, enum authority_answer answer,
		const struct authority_judgement *judgement));
/* No question may be open. One of all zeroes is ignored. */
void questions_end(struct questions *questions);

/* A number for a question of `whose`; 0 without memory. */
uint64_t questions_open(struct questions *questions, void *whose);
/* Closes it. Returns whose it was, or NULL: no such question is open. */
void *questions_close(struct questions *questions, uint64_t number);

/* A reply, in memory of the authority's. */
struct authority_reply {
	struct message message; /* from authority_reply to `delivered`: the worker's */
	struct authority *authority;
	struct questions *questions;
	uint64_t number;
	enum authority_answer answer; /* JUDGED or UNAVAILABLE */
	struct authority_judgement judgement;
	/* On the worker's thread, when it has been taken, or found no question: its memory is the
	 * authority's again. */
	void (*delivered)(struct authority_reply *reply);
};

/* Sends it. Any thread. Can't fail. */
void authority_reply(struct authority_reply *reply);

#endif
