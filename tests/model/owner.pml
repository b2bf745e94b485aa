/*
 * How nodes own a client's session and forward to its owner (proxy/ownership/owners.h, seek.h, hop.h), for Spin:
 * one session, NODES nodes, REQUESTS requests of its client at any of them, the store's lock, and the server.
 *
 *   store    holder, sfence, left: of its lease
 *   node     side and fence: what it knows; sure: for how long it may send; one question may be under way,
 *            whose age counts against the lease that it brings; line: its requests in order, of which the first
 *            acts, and the others wait
 *   request  at: the node it came to, in the client's order; how: under which ownership it has its place there;
 *            wire: what was forwarded of it, which may come late, also when it was given up
 *
 * Any step may come at any time or never: a node stands still, an answer or a request is late, a connection is
 * cut, a node dies. Time is what is left of each lease.
 *  - Nothing of an old owner reaches the server behind the first request of the new one.
 *  - No request reaches the server twice.
 *  - Requests that came to one node reach the server in their order; while one is there, no other is sent, unless
 *    its owner has lost the session.
 *  - Each request is answered: nothing can go on, or all are.
 *
 * With OWNED, the first node owns the session when it begins: what comes to the others is forwarded.
 * With GAP, a node may stand still between its look at the lease and the network, and the server looks at the fence.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   NO_LOOK     a node sends without a look at its lease
 *   LATE_LEASE  the lease is measured from the answer, not from when the question was asked
 *   RESEND      what was forwarded, and cut, is forwarded once more
 *   MOVES       an owner gives the session up while something is queued
 *   FLUSH       what was queued under an ownership that is over is sent under the next one
 *   NO_MARK     an owner does not look at the marks of what it is forwarded
 *   NO_FENCE    nor at the ownership that it was for
 *   NO_CHECK    with GAP: the server does not look at the fence
 *   WAITS       what had left for an owner that died waits for that one
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef TAKINGS
#define TAKINGS 3
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef RENEWALS
#define RENEWALS 1
#endif
#ifndef GIFTS
#define GIFTS 1
#endif
#define LEASE  1
#define NOBODY NODES

mtype = { nobody, here, elsewhere,    /* side */
	none, take, renew, give,      /* verb; none: also of how, wire and answer */
	held, busy, over,             /* answer */
	away,                         /* how, beside none and here */
	queued, out, lost, looked, sent, done, /* of a request, and queued and sent of a wire */
	moving, replied, refused };   /* wire */

typedef node {
	mtype side, verb, answer;
	byte fence, owner, sure, mark, age;
	byte got, whose;         /* of the answer */
	bit heard, dead;
	byte marks[NODES];       /* of what it was forwarded */
	byte line[REQUESTS], count;
};
typedef request {
	mtype state, how, wire;
	byte at, fence;
	byte to, wfence, wmark;  /* of the wire */
	bit cut;                 /* nobody waits for what comes back by it */
	bit was_sent, there, excused;
	byte sfence;             /* under which it is at the server */
};

node nodes[NODES];
request r[REQUESTS];
bit is_over; /* the lock was taken as often as is looked at */
byte holder = NOBODY, sfence, left, top, arrived;
byte cuts, deaths, renewals, gifts;
hidden byte i, j;

/* ---- the store ------------------------------------------------------------------------------- */

/* What its holder has at the server is not its fault any more. */
inline excuse()
{
	for (i : 0 .. REQUESTS - 1) {
		if
		:: r[i].there && r[i].sfence == sfence -> r[i].excused = 1
		:: else
		fi
	}
}

inline reach_store(n)
{
	nodes[n].heard = 1;
	if
	:: nodes[n].verb == take && holder != NOBODY && holder != n && left > 0 ->
		nodes[n].answer = busy; nodes[n].got = sfence; nodes[n].whose = holder
	:: nodes[n].verb == take && (holder == NOBODY || (holder != n && left == 0)) && sfence == TAKINGS ->
		is_over = 1
	:: nodes[n].verb == take && (holder == NOBODY || (holder != n && left == 0)) && sfence < TAKINGS ->
		if
		:: holder != NOBODY -> excuse()
		:: else
		fi;
		holder = n; sfence++; left = LEASE;
		nodes[n].answer = held; nodes[n].got = sfence
	:: (nodes[n].verb == take && holder == n) ||
		(nodes[n].verb == renew && holder == n && sfence == nodes[n].got) ->
		left = LEASE; nodes[n].answer = held; nodes[n].got = sfence
	:: nodes[n].verb == give ->
		if
		:: holder == n && sfence == nodes[n].got -> holder = NOBODY; left = 0
		:: else
		fi;
		nodes[n].answer = over
	:: nodes[n].verb == renew && (holder != n || sfence != nodes[n].got) -> nodes[n].answer = over
	fi
}

inline ask(n, what)
{
	nodes[n].verb = what; nodes[n].heard = 0; nodes[n].age = 0;
	nodes[n].got = (what == take -> 0 : nodes[n].fence);
	if
	:: what == give -> nodes[n].sure = 0 /* another may have it from now on */
	:: else
	fi
}

/* ---- what a node knows ----------------------------------------------------------------------- */

inline reply(x) /* to its client */
{
	r[x].state = done; r[x].how = none; r[x].fence = 0;
	if
	:: r[x].wire != none -> r[x].cut = 1
	:: else
	fi
}

inline enqueue(n, x)
{
	nodes[n].line[nodes[n].count] = x; nodes[n].count++
}

inline dequeue(n)
{
	nodes[n].count--;
	for (j : 0 .. REQUESTS - 2) {
		nodes[n].line[j] = nodes[n].line[j + 1]
	}
	nodes[n].line[REQUESTS - 1] = 0
}

/* Those that waited for the answer. The first of those that were forwarded hears of another owner. */
inline tell(n)
{
	for (i : 0 .. REQUESTS - 1) {
		if
		:: r[i].at == n && r[i].state == queued && r[i].how == none ->
			if
			:: nodes[n].side == here -> r[i].how = here; r[i].fence = nodes[n].fence
			:: nodes[n].side == elsewhere -> r[i].how = away
			:: else
			fi
		:: r[i].at == n && (r[i].state == out || r[i].state == lost) &&
			(nodes[n].side != elsewhere || nodes[n].owner != r[i].to) ->
			nodes[n].mark = nodes[n].mark + (r[i].state == out);
			reply(i); dequeue(n)
		:: r[i].at == n && r[i].state == lost && nodes[n].side == elsewhere && nodes[n].owner == r[i].to &&
			!nodes[r[i].to].dead ->
			reply(i); dequeue(n)
		:: else
		fi
	}
}

inline hear(n)
{
	if
	:: nodes[n].answer == held ->
		nodes[n].side = here; nodes[n].fence = nodes[n].got; nodes[n].owner = NOBODY;
#ifdef BROKEN_LATE_LEASE
		nodes[n].sure = LEASE
#else
		nodes[n].sure = LEASE - nodes[n].age
#endif
	:: nodes[n].answer == busy ->
		nodes[n].side = elsewhere; nodes[n].fence = nodes[n].got; nodes[n].owner = nodes[n].whose;
		nodes[n].sure = 0
	:: nodes[n].answer == over ->
		nodes[n].side = nobody; nodes[n].fence = 0; nodes[n].owner = NOBODY; nodes[n].sure = 0
	fi;
	nodes[n].verb = none; nodes[n].answer = none; nodes[n].heard = 0; nodes[n].age = 0; nodes[n].got = 0;
	nodes[n].whose = 0;
	tell(n)
}

inline tick()
{
	left = (left > 0 -> left - 1 : 0);
	for (i : 0 .. NODES - 1) {
		nodes[i].sure = (nodes[i].sure > 0 -> nodes[i].sure - 1 : 0);
		nodes[i].age = (nodes[i].verb != none && nodes[i].age < LEASE -> nodes[i].age + 1 : nodes[i].age)
	}
}

/* ---- the server ------------------------------------------------------------------------------ */

inline reach_server(whom, under)
{
	assert(!r[whom].was_sent);
	assert(under >= top);
	for (i : 0 .. REQUESTS - 1) {
		assert(!(i > whom && r[i].at == r[whom].at && r[i].was_sent));
		assert(!r[i].there || r[i].excused)
	}
	top = under; r[whom].was_sent = 1; r[whom].there = 1; r[whom].sfence = under;
	r[whom].excused = (under < sfence)
}

/* ---- requests -------------------------------------------------------------------------------- */

inline arrive(n, x)
{
	arrived++;
	r[x].at = n; r[x].state = queued; r[x].how = none;
	enqueue(n, x);
	if
	:: nodes[n].verb == none && nodes[n].side == here && nodes[n].sure > 0 ->
		r[x].how = here; r[x].fence = nodes[n].fence
	:: nodes[n].verb == none && nodes[n].side == elsewhere -> r[x].how = away
	:: else
	fi
}

inline reply_back(n, x)
{
	r[x].wire = (r[x].cut -> none : replied); r[x].cut = 0;
	dequeue(n)
}

inline forward(n, x)
{
	r[x].state = out; r[x].wire = moving; r[x].to = nodes[n].owner;
	r[x].wfence = nodes[n].fence; r[x].wmark = nodes[n].mark
}

inline be_cut(n, x)
{
	nodes[n].mark++;
	r[x].cut = (r[x].wire != none && r[x].wire != replied);
	r[x].wire = (r[x].cut -> r[x].wire : none);
#ifdef BROKEN_RESEND
	r[x].state = queued; r[x].how = none
#else
	r[x].state = lost
#endif
}

#ifdef BROKEN_NO_FENCE
#define IS_FOR(n, x) 1
#else
#define IS_FOR(n, x) (r[x].wfence == nodes[n].fence)
#endif
#ifdef BROKEN_NO_MARK
#define IS_IN_TIME(n, x) 1
#else
#define IS_IN_TIME(n, x) (r[x].wmark >= nodes[n].marks[r[x].at])
#endif

/* What was forwarded comes to the node, at some time. */
inline arrive_hop(n, x)
{
	if
	:: nodes[n].side == here && IS_FOR(n, x) && IS_IN_TIME(n, x) ->
		nodes[n].marks[r[x].at] = r[x].wmark;
		r[x].wire = queued; r[x].wfence = nodes[n].fence;
		enqueue(n, x)
	:: else -> r[x].wire = (r[x].cut -> none : refused); r[x].cut = 0
	fi
}

/* ---- the rest of a node's life --------------------------------------------------------------- */

/* Its clients are cut off, and those that have forwarded to it notice. What had left it may still come. */
inline die(n)
{
	deaths++;
	nodes[n].dead = 1; nodes[n].sure = 0;
	for (i : 0 .. REQUESTS - 1) {
		if
		:: r[i].at == n && r[i].state != done ->
			r[i].excused = (r[i].there -> 1 : r[i].excused);
			reply(i)
		:: else
		fi;
		if
		:: r[i].to == n && r[i].wire != none && r[i].wire != replied ->
			r[i].excused = (r[i].there -> 1 : r[i].excused);
			r[i].wire = none; r[i].cut = 0
		:: else
		fi
	}
}

#ifdef BROKEN_MOVES
#define IS_IDLE(n) 1
#else
#define IS_IDLE(n) (nodes[n].count == 0)
#endif
#ifdef BROKEN_NO_LOOK
#define IS_SURE(n) 1
#else
#define IS_SURE(n) (nodes[n].sure > 0)
#endif
#ifdef BROKEN_NO_CHECK
#define IS_STALE(f) 0
#else
#define IS_STALE(f) (f < top)
#endif
#ifdef BROKEN_WAITS
#define LOOKS 0
#else
#define LOOKS 1
#endif

#if NODES > 2
#define IS_ANY_SURE (nodes[0].sure > 0 || nodes[1].sure > 0 || nodes[2].sure > 0)
#else
#define IS_ANY_SURE (nodes[0].sure > 0 || nodes[1].sure > 0)
#endif

#define me nodes[n]
/* The first of a node's line, and whether it came to this node. */
#define HEAD r[me.line[0]]
#define IS_OWN (me.count > 0 && HEAD.at == n)
#define IS_HOP (me.count > 0 && HEAD.at != n)
/* It is to be served here, under this ownership. */
#define IS_TURN ((IS_OWN && HEAD.state == queued && HEAD.how == here) || (IS_HOP && HEAD.wire == queued))
#define UNDER   (HEAD.at == n -> HEAD.fence : HEAD.wfence)
#ifdef BROKEN_FLUSH
#define IS_UNDER 1
#else
#define IS_UNDER (UNDER == me.fence)
#endif
#define IS_OUT (IS_OWN && HEAD.state == out)

inline refuse(n, x)
{
	if
	:: r[x].at == n -> reply(x); dequeue(n)
	:: else -> reply_back(n, x)
	fi
}

inline pass(n, x, what)
{
	if
	:: r[x].at == n -> r[x].state = what; r[x].fence = me.fence
	:: else -> r[x].wire = what; r[x].wfence = me.fence
	fi
}

#if REQUESTS > 2
#define IS_ALL (r[0].state == done && r[1].state == done && r[2].state == done)
#define MOVES_TO(n) ((r[0].wire == moving && r[0].to == n) || (r[1].wire == moving && r[1].to == n) || \
	(r[2].wire == moving && r[2].to == n))
#else
#define IS_ALL (r[0].state == done && r[1].state == done)
#define MOVES_TO(n) ((r[0].wire == moving && r[0].to == n) || (r[1].wire == moving && r[1].to == n))
#endif

proctype one(byte n)
{
	byte x, y;

	do
	/* its first request: asks, is sent, is refused */
	:: atomic { !me.dead && me.verb == none && IS_OWN && HEAD.state == queued && HEAD.how == none -> ask(n, take) }
	:: atomic { !me.dead && me.verb == none && IS_TURN && me.side == here && !IS_SURE(n) && IS_UNDER -> ask(n, take) }
#ifdef BROKEN_FLUSH
	:: atomic { !me.dead && me.verb == none && IS_TURN && me.side != here -> ask(n, take) }
#else
	:: atomic { !me.dead && me.verb == none && IS_TURN && (me.side != here || !IS_UNDER) ->
		x = me.line[0]; refuse(n, x); x = 0 }
#endif
#ifdef GAP
	:: atomic { !me.dead && IS_TURN && me.side == here && IS_SURE(n) && IS_UNDER ->
		x = me.line[0]; pass(n, x, looked); x = 0 }
	:: atomic { !me.dead && ((IS_OWN && HEAD.state == looked) || (IS_HOP && HEAD.wire == looked)) ->
		x = me.line[0];
		if
		:: IS_STALE(UNDER) -> refuse(n, x)
		:: else ->
			y = UNDER; reach_server(x, y); y = 0;
			if
			:: r[x].at == n -> r[x].state = sent
			:: else -> r[x].wire = sent
			fi
		fi;
		x = 0 }
#else
	:: atomic { !me.dead && IS_TURN && me.side == here && IS_SURE(n) && IS_UNDER ->
		x = me.line[0]; reach_server(x, me.fence); pass(n, x, sent); x = 0 }
#endif
	:: atomic { !me.dead && ((IS_OWN && HEAD.state == sent) || (IS_HOP && HEAD.wire == sent)) ->
		x = me.line[0]; r[x].there = 0; refuse(n, x); x = 0 }
	/* is forwarded */
	:: atomic { !me.dead && me.verb == none && IS_OWN && HEAD.state == queued && HEAD.how == away ->
		x = me.line[0];
		if
		:: me.side == here -> r[x].how = here; r[x].fence = me.fence
		:: me.side == nobody || (me.side == elsewhere && nodes[me.owner].dead) -> r[x].how = none
		:: me.side == elsewhere && !nodes[me.owner].dead && r[x].wire == none -> forward(n, x)
		:: me.side == elsewhere && !nodes[me.owner].dead && cuts < CUTS -> cuts++; r[x].how = none
		:: me.side == elsewhere && !nodes[me.owner].dead && r[x].wire != none && cuts == CUTS -> r[x].how = none
		fi;
		x = 0 }
	:: atomic { !me.dead && IS_OUT && HEAD.wire == replied ->
		x = me.line[0]; r[x].wire = none; reply(x); dequeue(n); x = 0 }
	:: atomic { !me.dead && IS_OUT && HEAD.wire == refused && !HEAD.cut ->
		x = me.line[0]; r[x].wire = none; r[x].state = queued; r[x].how = none; x = 0 }
	:: atomic { !me.dead && IS_OUT && HEAD.wire != replied && LOOKS && nodes[HEAD.to].dead ->
		x = me.line[0]; be_cut(n, x); x = 0 }
	:: atomic { !me.dead && IS_OUT && cuts < CUTS && !nodes[HEAD.to].dead ->
		cuts++; x = me.line[0]; be_cut(n, x); x = 0 }
	:: atomic { !me.dead && me.verb == none && (IS_OUT || (IS_OWN && HEAD.state == lost)) && LOOKS -> ask(n, take) }
	/* the store */
	:: atomic { me.verb != none && !me.heard -> reach_store(n) }
	:: atomic { !me.dead && me.answer != none -> hear(n) }
	:: atomic { !me.dead && me.verb == none && me.side == here && renewals < RENEWALS -> renewals++; ask(n, renew) }
	:: atomic { !me.dead && me.verb == none && me.side == here && IS_IDLE(n) && gifts < GIFTS -> gifts++; ask(n, give) }
	/* its clients, and what other nodes forward */
	:: atomic { !me.dead && arrived < REQUESTS -> x = arrived; arrive(n, x); x = 0 }
	:: atomic { !me.dead && me.verb == none && MOVES_TO(n) -> select(x : 0 .. REQUESTS - 1);
		if
		:: r[x].wire == moving && r[x].to == n && me.side == here && me.sure == 0 -> ask(n, take)
		:: r[x].wire == moving && r[x].to == n && (me.side != here || me.sure > 0) -> arrive_hop(n, x)
		:: else
		fi;
		x = 0 }
	:: atomic { !me.dead && deaths < DEATHS -> die(n) }
	:: is_over || IS_ALL -> break
	od
}

proctype time()
{
	do
	:: atomic { left > 0 || IS_ANY_SURE -> tick() }
	:: is_over || IS_ALL -> break
	od
}

init {
	atomic {
		for (i : 0 .. NODES - 1) {
			nodes[i].side = nobody; nodes[i].verb = none; nodes[i].answer = none; nodes[i].owner = NOBODY
		}
		for (i : 0 .. REQUESTS - 1) {
			r[i].state = none; r[i].how = none; r[i].wire = none; r[i].at = NOBODY; r[i].to = NOBODY
		}
		i = 0;
#ifdef OWNED
		holder = 0; sfence = 1; left = LEASE;
		nodes[0].side = here; nodes[0].fence = 1; nodes[0].sure = LEASE;
#endif
		run time(); run one(0); run one(1);
#if NODES > 2
		run one(2)
#endif
	}
}
