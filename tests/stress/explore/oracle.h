/*
 * What a table may and must answer, by plain lists of what it was asked and
 * what it said.
 *
 * An event is a charge, from the call of a take to the end of what became of
 * it. It is sure when its take has returned and no refund has been called; it
 * is possible from the call of its take to the return of its refund (of a
 * killed process: for ever). Then, whatever the schedule was:
 *
 *   may    what is sure in a window is at most the limit
 *   must   where a charge is refused, what is possible leaves no room for it
 *
 * A change of limits makes a new version of the rules. Each event has the
 * versions that may have judged it; a later version knows of it as far back as
 * the versions between remembered.
 */
#ifndef TESTS_STRESS_EXPLORE_ORACLE_H
#define TESTS_STRESS_EXPLORE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "throttle/throttle.h"

#define ORACLE_LIMITS   2
#define ORACLE_CALLERS  2
#define ORACLE_VERSIONS 24
#define ORACLE_EVENTS   512
#define ORACLE_NEVER    UINT64_MAX

struct event {
	uint64_t at, at_most; /* it is recorded between these times */
	uint64_t cost;
	uint64_t called, returned, refund_called, refund_returned; /* stamps; NEVER */
	unsigned from, to;                                         /* versions */
	unsigned process;
	bool is_sure, is_forced;
	bool is_one_of_several;
	unsigned began, ended; /* the versions of its call and of its return */
	bool in_refund;        /* between call and return */
};

struct account {
	struct event events[ORACLE_EVENTS];
	unsigned count;
	uint64_t reset_called, reset_returned; /* the last ones */
	unsigned resets;                       /* that have not returned yet */
};

struct oracle {
	struct throttle_limit rules[ORACLE_VERSIONS][ORACLE_LIMITS];
	uint64_t moved_at[ORACLE_VERSIONS]; /* when the version after this one was in
					       force */
	unsigned begun, done;               /* versions: not before `done`, not after `begun` */
	uint64_t stamp, now;
	bool is_shared; /* callers share an overflow: who is refused may have others
			   to blame */
	bool is_weak;   /* what one thread has seen return another may see later */
	struct account accounts[ORACLE_LIMITS][ORACLE_CALLERS];
	char wrong[256]; /* the first thing that was */
};

void oracle_reset(struct oracle *o);

/* A version of the rules comes into force between these two. */
void oracle_begin_version(struct oracle *o, const struct throttle_limit *rules);
void oracle_end_version(struct oracle *o);

/* A charge is called; NULL when there is no room for more. `is_alone`: of no other limit is
 * anything asked with it. */
struct event *oracle_call(struct oracle *o, unsigned limit, unsigned caller, uint64_t cost,
	bool is_alone, uint64_t now_ns, unsigned process);
/* It was made. */
void oracle_admitted(struct oracle *o, unsigned limit, unsigned caller, struct event *event,
	uint64_t now_ns, const struct throttle_outcome *outcome);
/* It was not made; `outcome` says that it was refused by this limit, or is NULL. `is_alone`: of
 * no other limit was anything asked with it. */
void oracle_refused(struct oracle *o, unsigned limit, unsigned caller, struct event *event,
	bool is_alone, uint64_t now_ns, const struct throttle_outcome *outcome);
/* It was made whether it fitted or not. */
void oracle_forced(
	struct oracle *o, unsigned limit, unsigned caller, struct event *event, uint64_t now_ns);
/* `cost` of it is given back: the event for that. */
struct event *oracle_refund(
	struct oracle *o, unsigned limit, unsigned caller, struct event *event, uint64_t cost);
void oracle_refunded(struct oracle *o, unsigned limit, struct event *event, uint64_t now_ns);
void oracle_reset_called(struct oracle *o, unsigned limit, unsigned caller);
void oracle_reset_returned(struct oracle *o, unsigned limit, unsigned caller);
/* A process was killed: what it had in flight may be given back from now on. */
void oracle_process_killed(struct oracle *o, unsigned process);
/* A process has ended: what it had in flight ends with it. */
void oracle_process_ended(struct oracle *o, unsigned process);

/* With no thread in a call: what the table says is in use. */
void oracle_explained(
	struct oracle *o, unsigned limit, unsigned caller, const struct throttle_outcome *outcome);

/* The longest that anything of this limit stays in the way after its window. */
uint64_t oracle_slack(const struct oracle *o, unsigned limit);

#endif
