/*
 * How nodes divide a limit (proxy/fleet/split.h, split.lua), for Spin: NODES nodes, a store, and time,
 * which is kept as what is left of each span, so that the search has no end of time.
 *
 *   node    units, until: what it may use, for how long; a call says what it uses at most until the
 *           answer
 *   store   counted, ends: what it counts of a node, for how long it holds its lease; tail[a]: for how
 *           long a units count that it gave up
 *
 * Any step may come at any time or never: a node stands still, a call or its answer is lost, and a call
 * of a connection that was lost comes later. Each node is taken to use at each moment all that it
 * may: last[a] is for how long its last use of a units is in the window. No window may hold more than
 * QUOTA over all nodes, where the store as judge (of more nodes than units) counts as QUOTA.
 *
 * With -DFORGETS the store loses its memory once, at any time, with all connections: what nodes say that they
 * were told before it began again (`known`) is then noticed, and until nodes that remember may have called, it
 * is young.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   NO_WINDOW  what a node gave up counts no more at once
 *   LATE_LEASE the node measures its lease from the answer, not from when it asked
 *   OLD_CALLS  calls have no numbers: one that comes late is heard
 *   ALL_PARTS  a node gets its part whatever others count with
 *   TOLD_ONLY  the store counts what it has answered, not what the node says that it uses
 *   NO_ENDING  a lease that ran out counts no more at once
 *   JUDGED     the store judges as soon as there are more nodes than units
 *   TRUSTED    a store that nobody is known to have used is not young (with FORGETS)
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef QUOTA
#define QUOTA 2
#endif
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef LEASE
#define LEASE 2
#endif
#if 2 * LEASE < LEASE + WINDOW
#define YOUNG (2 * LEASE)
#else
#define YOUNG (LEASE + WINDOW)
#endif

typedef node {
	/* the node: */
	byte units, until;
	bit judged;
	bit asked, answered; /* a call is on its way, or its answer */
	byte age, said, given;
	bit said_judged, given_judged;
	bit late, is_old; /* a call of a connection that was lost; the store has heard a newer one */
	byte late_said;
	bit late_judged;
	byte last[QUOTA + 1], last_judged;
	/* the store: */
	byte counted, ends, judge_until;
	bit is_judge;
	byte tail[QUOTA + 1];
#ifdef FORGETS
	bit known, said_known, late_known; /* it was told something by a store that remembers */
#endif
};

node nodes[NODES];
hidden byte a, i, most, sum, live, before, others, part, given;
hidden byte judges, judged_any;
bit has_forgotten, is_born, is_noticed;
byte closed; /* for how long nobody gets more than it has */

/* What it may use at this moment, it uses. */
inline use(n)
{
	if
	:: nodes[n].until > 0 ->
		a = 1;
		do
		:: a <= nodes[n].units -> nodes[n].last[a] = WINDOW; a++
		:: else -> break
		od;
		if
		:: nodes[n].judged -> nodes[n].last_judged = WINDOW
		:: else
		fi
	:: else -> nodes[n].units = 0; nodes[n].judged = 0
	fi
}

inline check()
{
	sum = 0; judges = 0; i = 0;
	do
	:: i < NODES ->
		most = 0; a = 1;
		do
		:: a <= QUOTA ->
			if
			:: nodes[i].last[a] > 0 -> most = a
			:: else
			fi;
			a++
		:: else -> break
		od;
		sum = sum + most;
		judges = judges || nodes[i].last_judged > 0;
		i++
	:: else -> break
	od;
	assert(sum + (judges -> QUOTA : 0) <= QUOTA)
}

/* ---- the store ------------------------------------------------------------------------------- */

/* What it holds counts for a window more. */
inline give_up(n)
{
#ifndef BROKEN_NO_WINDOW
	a = 1;
	do
	:: a <= nodes[n].counted -> nodes[n].tail[a] = WINDOW; a++
	:: else -> break
	od;
	if
	:: nodes[n].is_judge -> nodes[n].judge_until = WINDOW
	:: else
	fi;
#endif
	nodes[n].counted = 0; nodes[n].is_judge = 0
}

/* most = with what the node counts */
inline count(n)
{
	most = nodes[n].counted; a = 1;
	do
	:: a <= QUOTA ->
		if
		:: nodes[n].tail[a] > 0 && a > most -> most = a
		:: else
		fi;
		a++
	:: else -> break
	od
}

/* live, part, others, judged_any: as the node finds them */
inline survey(n)
{
	live = 0; before = 0; others = 0; judged_any = 0; i = 0;
	do
	:: i < NODES ->
		if
		:: nodes[i].ends > 0 -> live++; before = before + (i < n -> 1 : 0)
		:: else
		fi;
		if
		:: i != n -> count(i); others = others + most
		:: else
		fi;
		judged_any = judged_any || nodes[i].is_judge || nodes[i].judge_until > 0;
		i++
	:: else -> break
	od;
	part = QUOTA / live + (before < QUOTA % live -> 1 : 0)
}

#ifdef FORGETS
inline remember(says_known)
{
	if
	:: has_forgotten && !is_born ->
		is_born = 1;
#ifndef BROKEN_TRUSTED
		closed = YOUNG
#endif
	:: else
	fi;
	if
	:: has_forgotten && says_known && !is_noticed -> is_noticed = 1; closed = LEASE + WINDOW
	:: else
	fi
}

inline empty_store()
{
	has_forgotten = 1; given = 0;
	do
	:: given < NODES ->
		if
		:: nodes[given].asked -> lose(given)
		:: else
		fi;
		nodes[given].counted = 0; nodes[given].ends = 0; nodes[given].is_judge = 0;
		nodes[given].judge_until = 0; a = 1;
		do
		:: a <= QUOTA -> nodes[given].tail[a] = 0; a++
		:: else -> break
		od;
		given++
	:: else -> break
	od
}
#endif

/* One call: what the node says, and what it is given: given, judges. */
inline hear_call(n, says, says_judged)
{
	if
	:: says < nodes[n].counted || says_judged < nodes[n].is_judge -> give_up(n)
	:: else
	fi;
#ifdef BROKEN_TOLD_ONLY
	nodes[n].counted = 0;
#else
	nodes[n].counted = (says > nodes[n].counted -> says : nodes[n].counted);
#endif
	nodes[n].is_judge = (says_judged || nodes[n].is_judge);
	nodes[n].ends = LEASE;
	survey(n);
	given = 0; judges = 0;
	if
	:: closed > 0 -> given = (says < part -> says : part)
	:: closed == 0 && live > QUOTA ->
		count(n);
#ifdef BROKEN_JUDGED
		others = 0; most = 0;
#endif
		if
		:: nodes[n].is_judge || others + most == 0 -> nodes[n].is_judge = 1; judges = 1
		:: else
		fi
	:: closed == 0 && live <= QUOTA && !judged_any ->
#ifdef BROKEN_ALL_PARTS
		given = part
#else
		given = (others >= QUOTA -> 0 : (QUOTA - others < part -> QUOTA - others : part))
#endif
	:: else
	fi;
	nodes[n].counted = (given > nodes[n].counted -> given : nodes[n].counted)
}

/* ---- the nodes ------------------------------------------------------------------------------- */

inline forget_call(n)
{
	nodes[n].asked = 0; nodes[n].answered = 0; nodes[n].given = 0; nodes[n].given_judged = 0;
#ifdef FORGETS
	nodes[n].said_known = 0;
#endif
	nodes[n].said = 0; nodes[n].said_judged = 0; nodes[n].age = 0
}

inline forget_late(n)
{
#ifdef FORGETS
	nodes[n].late_known = 0;
#endif
	nodes[n].late = 0; nodes[n].is_old = 0; nodes[n].late_said = 0; nodes[n].late_judged = 0
}

inline hear_answer(n)
{
	nodes[n].units = nodes[n].given; nodes[n].judged = nodes[n].given_judged;
#ifdef BROKEN_LATE_LEASE
	nodes[n].until = LEASE;
#else
	nodes[n].until = LEASE - nodes[n].age;
#endif
	forget_call(n);
#ifdef FORGETS
	nodes[n].known = !has_forgotten;
#endif
	use(n);
	check()
}

/* The connection is lost: a call that has not come yet may come later. */
inline lose(n)
{
	if
	:: !nodes[n].answered && !nodes[n].late ->
		nodes[n].late = 1; nodes[n].late_said = nodes[n].said;
		nodes[n].late_judged = nodes[n].said_judged
#ifdef FORGETS
		; nodes[n].late_known = nodes[n].said_known
#endif
	:: else
	fi;
	forget_call(n)
}

inline pass(span)
{
	if
	:: span > 0 -> span--
	:: else
	fi
}

inline tick(n)
{
	part = 0;
	do
	:: part <= QUOTA -> pass(nodes[n].last[part]); pass(nodes[n].tail[part]); part++
	:: else -> break
	od;
	pass(nodes[n].last_judged); pass(nodes[n].judge_until); pass(nodes[n].until);
	if
	:: nodes[n].asked && nodes[n].age < LEASE -> nodes[n].age++
	:: else
	fi;
	if
	:: nodes[n].ends == 1 ->
		nodes[n].ends = 0;
#ifdef BROKEN_NO_ENDING
		nodes[n].counted = 0; nodes[n].is_judge = 0
#else
		give_up(n)
#endif
	:: nodes[n].ends > 1 -> nodes[n].ends--
	:: else
	fi;
	use(n)
}

inline step(n)
{
	if
	:: !nodes[n].asked ->
		nodes[n].asked = 1; nodes[n].said = nodes[n].units; nodes[n].said_judged = nodes[n].judged
#ifdef FORGETS
		; nodes[n].said_known = nodes[n].known
#endif
	:: nodes[n].asked && !nodes[n].answered ->
#ifdef FORGETS
		remember(nodes[n].said_known);
#endif
		hear_call(n, nodes[n].said, nodes[n].said_judged);
		nodes[n].answered = 1; nodes[n].given = given; nodes[n].given_judged = judges;
		nodes[n].is_old = nodes[n].late
	:: nodes[n].answered -> hear_answer(n)
	:: nodes[n].asked -> lose(n)
	:: nodes[n].late ->
		if
#ifdef BROKEN_OLD_CALLS
		:: true ->
#else
		:: !nodes[n].is_old ->
#endif
#ifdef FORGETS
			remember(nodes[n].late_known);
#endif
			hear_call(n, nodes[n].late_said, nodes[n].late_judged)
		:: else
		fi;
		forget_late(n)
	fi
}

active proctype fleet()
{
end:	do
	:: atomic {
		tick(0); tick(1);
#if NODES > 2
		tick(2);
#endif
		pass(closed);
		check() }
#ifdef FORGETS
	:: atomic { !has_forgotten -> empty_store() }
#endif
	:: atomic { step(0) }
	:: atomic { step(1) }
#if NODES > 2
	:: atomic { step(2) }
#endif
	od
}
