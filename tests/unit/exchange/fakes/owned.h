/* A session that one node of a fleet owns, with a store that says what the test has it say.
 * Programs need $(fake_clock_wraps). */
#ifndef TESTS_EXCHANGE_FAKES_OWNED_H
#define TESTS_EXCHANGE_FAKES_OWNED_H

#include "base/clock.h"
#include "ownership/owner_sweep.h"
#include "ownership/owner_table.h"
#include "ownership/owners.h"
#include "flight.h"
#include "tests/unit/base/fake_clock.h"

#define OTHER    "0000000000000001/other/127.0.0.1:7946"
#define LEASE_MS 10000
#define DONE     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define WELCOME  "HTTP/1.1 200 OK\r\nSluice-Hop: welcome\r\nContent-Length: 0\r\n\r\n"
#define FLEET                                                                                      \
	"[fleet]\nstore = redis://127.0.0.1:5\nbind = 127.0.0.1:7900\n"                            \
	"secret = file:/of/the/fleet\n"
#define ROUTE "session = ip\nsession_scope = fleet\nqueue_timeout = 30s\nowner_idle = 5s\n"

static const struct stage_conf forwards = {.route = ROUTE, .more = FLEET};

/* The one that runs, whose time it is. The process is older than a start takes. */
static struct stage *current;

static inline uint64_t owned_boot_ns(void)
{
	return current ? worker_now_ns(current->worker)
		       : (STAGE_START_MS - OWNER_START_MS) * CLOCK_NS_PER_MS;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct {
	struct owner_session *session;
	enum owner_verb verb;
	unsigned count;
	bool is_away;
} asked;

static inline bool ask(struct worker *worker, const struct owner_question *question)
{
	(void)worker;
	if (asked.is_away)
		return false;
	asked.session = question->session;
	asked.verb = question->verb;
	asked.count++;
	return true;
}

static const struct owner_store store = {ask};

static inline void answer(struct stage *stage, struct owner_answer with)
{
	owners_answer(
		node_owners(&stage->daemon.node), stage->worker, asked.session, asked.verb, &with);
	stage_turn(stage);
}

static inline void held(struct stage *stage, uint64_t fence)
{
	answer(stage, (struct owner_answer){.is_known = true, .is_held = true, .fence = fence});
}

static inline void elsewhere(struct stage *stage)
{
	answer(stage, (struct owner_answer){
			      .is_known = true, .fence = 7, .left_ms = 9000, .node = OTHER});
}

static inline struct stage *begin(const struct stage_conf *conf)
{
	fake_clock_boot_ns = owned_boot_ns;
	struct stage *stage = stage_begin(conf);

	memset(&asked, 0, sizeof(asked));
	current = NULL;
	stage->daemon.node.shared[NODE_OWNERS] = owners_new(&store, stage->daemon.states);
	assert_non_null(node_owners(&stage->daemon.node));
	current = stage;
	owners_set_self(node_owners(&stage->daemon.node), "self", "127.0.0.1:7900", LEASE_MS, 100);
	return stage;
}

static inline void end(struct stage *stage)
{
	stage_forget(stage);
	owners_free(node_owners(&stage->daemon.node));
	stage->daemon.node.shared[NODE_OWNERS] = NULL;
	current = NULL;
	stage_end(stage);
}

/* The lease ends, and the store does not answer. */
static inline void lapse(struct stage *stage)
{
	struct owners *owners = node_owners(&stage->daemon.node);

	asked.is_away = true;
	stage_at(stage, LEASE_MS);
	owners_sweep(owners, stage->worker);
	assert_false(owners->has_lapsed); /* the workers were told */
	owners_look_at_uses(owners, stage->worker);
	stage_turn(stage);
}

/* The store says, when the lease is to be renewed, that another has it. */
static inline void hear_of_another(struct stage *stage)
{
	struct owners *owners = node_owners(&stage->daemon.node);

	stage_at(stage, LEASE_MS / 2);
	owners_sweep(owners, stage->worker);
	assert_int_equal(asked.verb, OWNER_RENEW);
	elsewhere(stage);
	owners_look_at_uses(owners, stage->worker);
	stage_turn(stage);
}

/* What its server has not taken was thrown away. */
static inline void assert_discarded(struct stage *stage)
{
	char text[STAGE_ROOM];

	assert_int_equal(memory_peer_receive(stage->servers[0].wire, text, sizeof(text)), -2);
	assert_null(ownership_part(stage->worker)->partings);
}

#endif
