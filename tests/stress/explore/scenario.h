/* What simulated processes and their threads do: made by chance, from a seed, of what a profile
 * allows. */
#ifndef TESTS_STRESS_EXPLORE_SCENARIO_H
#define TESTS_STRESS_EXPLORE_SCENARIO_H

#include "tests/stress/explore/oracle.h"

#define SCENARIO_OPERATIONS 6
#define SCENARIO_PROGRAMS   4
#define SCENARIO_LIVES      3
#define SCENARIO_VERSIONS   5

enum feature {
	FEATURE_PAIR = 1 << 0, /* takes of two limits */
	FEATURE_REFUND = 1 << 1,
	FEATURE_DEBT = 1 << 2,   /* settles and charges upwards */
	FEATURE_FULL = 1 << 3,   /* the bucket is full of other callers */
	FEATURE_KILL = 1 << 4,   /* a process is killed, another opens its file */
	FEATURE_TWO = 1 << 5,    /* two processes have the file open */
	FEATURE_RELOAD = 1 << 6, /* limits change while threads take */
	FEATURE_KINDS = 1 << 7,  /* pacing and concurrency, too */
	FEATURE_CHANGE = 1 << 8, /* a change of limits may change the kind */
	FEATURE_RESET = 1 << 9,
	FEATURE_LONG = 1 << 10, /* rings of more than 31 slots */
	FEATURE_WEAK = 1 << 11, /* half of the schedules have weak memory */
	FEATURE_GROW = 1 << 12, /* the table begins with one bucket, callers come, it grows */
	FEATURE_ROOM = 1 << 13, /* with FULL: not quite yet, and there is a level above */
	FEATURE_OLD = 1 << 14,  /* the table is older than four windows and 8 s when callers come */
	FEATURE_MORE = 1 << 15, /* a change of limits may raise the number of callers */
};

enum what {
	WHAT_TAKE,
	WHAT_PEEK,
	WHAT_REFUND,
	WHAT_SETTLE,
	WHAT_CHARGE,
	WHAT_RELEASE,
	WHAT_RESET,
	WHAT_APPLY,
	WHAT_GROW,
	WHAT_CROWD, /* takes of callers that are not looked at, cost[0] of them */
};

struct operation {
	enum what what;
	unsigned limits; /* a bit for each */
	unsigned caller, which;
	uint32_t cost[ORACLE_LIMITS];
	uint64_t advance, behind; /* of the clock before it; of the thread's clock */
	uint64_t capacity;        /* APPLY: callers, 0: as before */
};

/* What a thread does. */
struct program {
	unsigned process;
	unsigned count;
	struct operation operations[SCENARIO_OPERATIONS];
};

/* From an opening to the end of all processes. */
struct life {
	unsigned processes, programs;
	bool is_killed;
	bool changes_limits; /* opens with the next version of the limits */
	struct program program[SCENARIO_PROGRAMS];
};

struct scenario {
	uint64_t seed;
	bool in_file, is_full, grows;
	unsigned callers, versions, lives, fillers;
	uint64_t age; /* of the table when the first callers come */
	struct throttle_limit version[SCENARIO_VERSIONS][ORACLE_LIMITS];
	struct life life[SCENARIO_LIVES];
};

void scenario_make(struct scenario *scenario, unsigned features, uint64_t seed);
void scenario_print(const struct scenario *scenario);

/* Runs it by a schedule. False: something was wrong, and what is in oracle->wrong. `length`: the
 * points that each life had. */
struct schedule;
bool scenario_run(const struct scenario *scenario, const struct schedule *schedules,
	struct oracle *oracle, uint64_t length[SCENARIO_LIVES]);

/* splitmix64 */
uint64_t scenario_random(uint64_t *state, uint64_t below);

#endif
