/*
 * An authority for tests. It answers a question at once, later, in any order, twice, never, or when
 * nobody waits any more: as the test says by calls. It keeps a ledger of all that it admitted, and
 * fails the test when something is given back or settled twice, or never.
 *
 *   admit --> admits()
 *   ask --> plan() --+-- at once
 *                    `-- FAKE_PENDING --> fake_find, fake_reply ... (also after expire and cancel)
 */
#ifndef UNIT_GATE_FAKE_AUTHORITY_H
#define UNIT_GATE_FAKE_AUTHORITY_H

#include <pthread.h>

#include "gate/authority.h"

enum fake_word {
	FAKE_ADMIT,
	FAKE_REFUSE,
	FAKE_DELAY,
	FAKE_UNAVAILABLE,
	FAKE_PENDING,
};

enum fake_fate {
	FAKE_OPEN,      /* not answered */
	FAKE_ANSWERED,  /* once at least */
	FAKE_EXPIRED,   /* its time was over */
	FAKE_CANCELLED, /* nobody waits */
};

/* A question that it left pending. It stays known until the end, to be answered once more. */
struct fake_question {
	struct questions *questions;
	uint64_t number;
	enum fake_fate fate;
	unsigned limits;
	struct throttle_charge charges[GATE_LIMITS_MAX];
};

/* Something that it admitted. */
struct fake_account {
	enum { FAKE_HELD, FAKE_SETTLED, FAKE_REFUNDED } state;
	uint64_t bytes, cost;
	bool has_cost;
};

#define FAKE_QUESTIONS 65536
#define FAKE_ACCOUNTS  131072

struct fake_authority {
	struct authority authority;
	/* What it says to a question: at once, and when its time is over (never PENDING). */
	enum fake_word (*plan)(void *ctx, const struct authority_question *question);
	enum fake_word (*at_expiry)(void *ctx, const struct authority_question *question);
	/* Of leased limits: does it admit at once, before there is a place? NULL: never. */
	bool (*admits)(void *ctx, const struct authority_question *question);
	void *ctx;
	uint64_t delay_ns; /* FAKE_DELAY: for so long */

	pthread_mutex_t lock; /* of all below: workers and the replying thread call */
	struct fake_question *questions;
	unsigned question_count;
	struct fake_account *accounts;
	unsigned account_count;
	unsigned at_once, asked, expired, cancelled, replied, replies_out;
};

void fake_init(struct fake_authority *fake, uint64_t timeout_ms);

/* How much of what it admitted is held by a receipt. */
unsigned fake_held(struct fake_authority *fake);

/* Fails the test unless all that it admitted was settled or given back, and each reply delivered.
 */
void fake_end(struct fake_authority *fake);

/* The question of this number; NULL: it left none of that number pending. Stays valid. */
struct fake_question *fake_find(
	struct fake_authority *fake, const struct questions *questions, uint64_t number);

/* Replies. Any thread, any number of times, whatever has become of the question. */
void fake_reply(struct fake_authority *fake, struct fake_question *question, enum fake_word word);

#endif
