/*
 * A named lock in the store (proxy/store/lock.h, lock.lua), for Spin: sessions, each with CALLS calls that
 * may be under way, and the store. There is no time: a lease may end at any step, and a lock whose lease
 * has ended may be kept no more. The fence of a lock that is not kept comes from the store's clock, which
 * is taken to have grown.
 *
 *   session    born: the fence at its birth (a look or an answer); fence: by which it has the lock.
 *              The last one is a node: it names no birth, and begins again by the same id
 *   call       take, use or release with its number; it, or its answer, may come late or never
 *   store      holder, fence, is_running: the lease; is_kept
 *
 * over[f]: the taking with fence f is over; over_id[s]: the session had the lock, and has lost it. No use
 * of a taking that is over may be done, no id that is over may be granted anything, and each taking's
 * fence must be larger than all before.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   ANY_BIRTH   a take looks at no birth
 *   OLD_BIRTH   nor does one of a lock that is not kept
 *   NO_FENCE    a use looks at the id alone
 *   RESET       a lock that is not kept begins with fence 1 again
 *   TWO_STEPS   a use looks in one operation, and takes effect in another
 *   RELEASE     a release looks neither at id nor fence
 */
#ifndef SESSIONS
#define SESSIONS 2
#endif
#define NODE (SESSIONS - 1)
#ifndef CALLS
#define CALLS 2
#endif
#ifndef TAKINGS
#define TAKINGS 3
#endif
#define NOBODY 7
#define STALE 14 /* a birth before the lock was last kept */
#define FRESH 15 /* a birth while it was not kept */

mtype = { none, take, use, release, effect, held, refused };

typedef call {
	mtype verb, answer;
	byte number, got;
	bit is_lost; /* nobody waits for its answer */
};
typedef session {
	byte born, fence;
	call calls[CALLS];
};

session sessions[SESSIONS];
byte holder = NOBODY, fence, top;
bit is_running, is_kept;
bit over[TAKINGS + 2], over_id[SESSIONS];
hidden byte i, j;

/* ---- the store ------------------------------------------------------------------------------- */

inline lose_holder()
{
	if
	:: holder != NOBODY -> over[fence] = 1; over_id[holder] = (holder != NODE)
	:: else
	fi;
	holder = NOBODY
}

inline grant(s, c)
{
	assert(!over_id[s]);
	is_running = 1;
	sessions[s].calls[c].answer = held; sessions[s].calls[c].got = fence
}

inline do_take(s, c)
{
	if
	:: holder == s -> grant(s, c)
	:: else ->
		if
#ifdef BROKEN_ANY_BIRTH
		:: true ->
#else
		:: s == NODE || (is_kept && sessions[s].calls[c].number == fence) ->
#endif
			if
			:: holder != NOBODY && is_running -> sessions[s].calls[c].answer = refused
			:: else -> be_taken(s, c)
			fi
#ifdef BROKEN_OLD_BIRTH
		:: s != NODE && !is_kept -> be_taken(s, c)
#else
		:: s != NODE && !is_kept && sessions[s].calls[c].number == FRESH -> be_taken(s, c)
#endif
		:: else -> sessions[s].calls[c].answer = refused
		fi
	fi
}

inline be_taken(s, c)
{
	if
	:: top >= TAKINGS -> sessions[s].calls[c].answer = refused
	:: else ->
		lose_holder();
#ifdef BROKEN_RESET
		fence = (is_kept -> fence + 1 : 1);
#else
		fence = top + 1;
#endif
		assert(fence > top);
		top = fence; holder = s; is_kept = 1;
		grant(s, c)
	fi
}

#ifdef BROKEN_NO_FENCE
#define HOLDS(s, c) (holder == s)
#else
#define HOLDS(s, c) (holder == s && fence == sessions[s].calls[c].number)
#endif

inline do_use(s, c)
{
	if
	:: HOLDS(s, c) ->
#ifdef BROKEN_TWO_STEPS
		sessions[s].calls[c].verb = effect
#else
		do_effect(s, c)
#endif
	:: else -> sessions[s].calls[c].answer = refused
	fi
}

/* The effect of a use by its fence. */
inline do_effect(s, c)
{
	assert(!over[sessions[s].calls[c].number]);
	grant(s, c)
}

inline do_release(s, c)
{
#ifdef BROKEN_RELEASE
	if
	:: true ->
		assert(holder == NOBODY || HOLDS(s, c));
#else
	if
	:: HOLDS(s, c) ->
#endif
		lose_holder(); is_running = 0
	:: else
	fi;
	sessions[s].calls[c].answer = refused
}

inline reach(s, c)
{
	if
	:: sessions[s].calls[c].verb == take -> do_take(s, c)
	:: sessions[s].calls[c].verb == use -> do_use(s, c)
	:: sessions[s].calls[c].verb == effect -> do_effect(s, c)
	:: sessions[s].calls[c].verb == release -> do_release(s, c)
	fi
}

/* All births until now are old. */
inline forget()
{
	lose_holder();
	is_kept = 0; fence = 0; i = 0;
	do
	:: i < SESSIONS ->
		sessions[i].born = STALE; j = 0;
		do
		:: j < CALLS ->
			if
			:: sessions[i].calls[j].verb == take -> sessions[i].calls[j].number = STALE
			:: else
			fi;
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od
}

/* ---- the sessions ---------------------------------------------------------------------------- */

inline clear(s, c)
{
	sessions[s].calls[c].verb = none; sessions[s].calls[c].answer = none;
	sessions[s].calls[c].number = 0; sessions[s].calls[c].got = 0;
	sessions[s].calls[c].is_lost = 0
}

inline ask(s, c)
{
	if
	:: sessions[s].fence == 0 ->
		sessions[s].calls[c].verb = take; sessions[s].calls[c].number = sessions[s].born
	:: sessions[s].fence > 0 ->
		sessions[s].calls[c].verb = use; sessions[s].calls[c].number = sessions[s].fence
	:: sessions[s].fence > 0 ->
		sessions[s].calls[c].verb = release; sessions[s].calls[c].number = sessions[s].fence
	fi
}

/* A node that has lost it begins again; so may another that has only been late, by a new birth. */
inline hear(s, c)
{
	if
	:: sessions[s].calls[c].is_lost
	:: else ->
		if
		:: sessions[s].calls[c].answer == held -> sessions[s].fence = sessions[s].calls[c].got
		:: sessions[s].calls[c].answer == refused && s == NODE -> sessions[s].fence = 0
		:: else
		fi
	fi;
	clear(s, c)
}

/* By another id, when the lock was not kept: it has the place of the one before. */
inline be_born(s)
{
	sessions[s].born = (is_kept -> fence : FRESH)
}

inline step(s, c)
{
	if
	:: sessions[s].calls[c].verb == none -> ask(s, c)
	:: sessions[s].calls[c].verb != none && sessions[s].calls[c].answer == none -> reach(s, c)
	:: sessions[s].calls[c].answer != none -> hear(s, c)
	:: sessions[s].calls[c].verb != none && !sessions[s].calls[c].is_lost ->
		sessions[s].calls[c].is_lost = 1
	fi
}

active proctype locks()
{
	sessions[0].born = FRESH;
end:	do
	:: atomic { is_running -> is_running = 0 }
	:: atomic { is_kept && !is_running -> forget() }
	:: atomic { holder != NOBODY -> lose_holder(); is_running = 0 } /* an administrator ends it */
	:: atomic { sessions[0].born == STALE && sessions[0].fence == 0 && !over_id[0] -> be_born(0) }
	:: atomic { step(0, 0) }
	:: atomic { step(1, 0) }
#if CALLS > 1
	:: atomic { step(0, 1) }
	:: atomic { step(1, 1) }
#endif
#if SESSIONS > 2
	:: atomic { step(2, 0) }
#if CALLS > 1
	:: atomic { step(2, 1) }
#endif
#endif
	od
}
