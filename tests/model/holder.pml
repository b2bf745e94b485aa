/*
 * How nodes hold the slots of a semaphore (proxy/semaphore/holder.h, keeper.h), for Spin: NODES nodes,
 * SLOTS slots, a broker, an administrator, and time, which is kept as what is left of each span.
 *
 *   broker   there[s]: the slot's A; owner[s]: whose its B is; silent[n]: since it heard of a node
 *   node     held[s]: it counts; lease: for how long it may begin by what it holds
 *
 * Any step may come at any time or never: a node stands still, an answer is late, a connection is lost.
 * The broker frees what a node has that was silent for FREE; it may do so later. Whatever begins by a
 * slot has its B, nothing else runs by it but what was begun by a connection that is lost, and nothing
 * begins by a slot of which an administrator has seen that it is removed and free.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   NO_LEASE   a node begins by what it holds without looking at the time
 *   LATE_LEASE the lease is measured from the answer, not from when the call began
 *   NO_CONFIRM a slot counts without a look at its A behind the declaration
 *   GIVE_EARLY a slot is given back while something runs by it
 *   KEEPS      what was held by a lost connection counts with the next one
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#define LEASE 1
#define FREE  2 /* the broker waits for longer than a lease lasts */

#define NOBODY NODES

typedef node {
	bit connected; /* as the broker knows */
	bit knows;     /* that it is */
	byte silent;
	byte lease, age;
	bit asks, heard;            /* a call is on its way, and has reached the broker */
	bit sees[SLOTS];            /* that the A of what it holds is there: of that call */
	bit held[SLOTS], declared[SLOTS], looked[SLOTS];
	bit runs[SLOTS], excused[SLOTS];
};

node nodes[NODES];
bit there[SLOTS], waited[SLOTS];
byte owner[SLOTS];
hidden byte i, j, k;

/* The broker ends what was exclusive to n. */
inline drop(n)
{
	nodes[n].connected = 0;
	nodes[n].asks = 0;
	nodes[n].heard = 0;
	nodes[n].age = 0;
	nodes[n].silent = 0;
	for (j : 0 .. SLOTS - 1) {
		if
		:: owner[j] == n -> owner[j] = NOBODY
		:: else
		fi;
		nodes[n].excused[j] = nodes[n].runs[j];
		nodes[n].sees[j] = 0
	}
}

proctype broker()
{
	do
	:: atomic { /* time */
		for (i : 0 .. NODES - 1) {
			if
			:: nodes[i].lease > 0 -> nodes[i].lease--
			:: else
			fi;
			if
			:: nodes[i].connected && nodes[i].silent < FREE -> nodes[i].silent++
			:: else
			fi;
			if
			:: nodes[i].asks && nodes[i].age < LEASE -> nodes[i].age++
			:: else
			fi
		}
	   }
	:: atomic { (nodes[0].connected && nodes[0].silent >= FREE) -> drop(0) }
	:: atomic { (nodes[1].connected && nodes[1].silent >= FREE) -> drop(1) }
	od
}

/* Removes a slot, sees that nobody holds it, makes it again. */
proctype administrator()
{
	do
	:: atomic { there[0] -> there[0] = 0 }
	:: atomic { (!there[0] && owner[0] == NOBODY) -> waited[0] = 1 }
	:: atomic { !there[0] -> there[0] = 1; waited[0] = 0 }
	od
}

inline forget(n)
{
	nodes[n].knows = 0;
	for (k : 0 .. SLOTS - 1) {
#ifndef BROKEN_KEEPS
		nodes[n].held[k] = 0;
#endif
		nodes[n].declared[k] = 0;
		nodes[n].looked[k] = 0
	}
}

inline begin(n, s)
{
	assert(owner[s] == n);
	assert(!waited[s]);
	for (k : 0 .. NODES - 1) {
		assert(k == n || !nodes[k].runs[s] || nodes[k].excused[s])
	}
	nodes[n].runs[s] = 1
}

inline end_run(n, s)
{
	nodes[n].runs[s] = 0;
	nodes[n].excused[s] = 0
}

#ifdef BROKEN_NO_LEASE
#define MAY_BEGIN(n) 1
#else
#define MAY_BEGIN(n) (nodes[n].lease > 0)
#endif
#ifdef BROKEN_GIVE_EARLY
#define IS_FREE(n, s) 1
#else
#define IS_FREE(n, s) (!nodes[n].runs[s])
#endif

proctype one(byte me)
{
	byte s;

	do
	:: atomic { !nodes[me].connected && !nodes[me].knows ->
		nodes[me].connected = 1; nodes[me].knows = 1; nodes[me].silent = 0;
		nodes[me].asks = 0; nodes[me].lease = LEASE }
	/* It learns that its connection is lost. */
	:: atomic { !nodes[me].connected && nodes[me].knows -> forget(me) }
	/* A call: begins, is heard, is answered. */
	:: atomic { nodes[me].knows && nodes[me].connected && !nodes[me].asks ->
		nodes[me].asks = 1; nodes[me].heard = 0; nodes[me].age = 0 }
	:: atomic { nodes[me].asks && !nodes[me].heard && nodes[me].connected ->
		nodes[me].heard = 1; nodes[me].silent = 0;
		for (s : 0 .. SLOTS - 1) { nodes[me].sees[s] = there[s] }; s = 0 }
	:: atomic { nodes[me].asks && nodes[me].heard && nodes[me].knows ->
		nodes[me].asks = 0;
#ifdef BROKEN_LATE_LEASE
		nodes[me].lease = LEASE;
#else
		if
		:: LEASE - nodes[me].age > nodes[me].lease -> nodes[me].lease = LEASE - nodes[me].age
		:: else
		fi;
#endif
		for (s : 0 .. SLOTS - 1) {
			if
			:: nodes[me].held[s] && !nodes[me].sees[s] && IS_FREE(me, s) ->
				nodes[me].held[s] = 0; /* removed: given back */
				if
				:: owner[s] == me -> owner[s] = NOBODY
				:: else
				fi
			:: else
			fi;
			nodes[me].sees[s] = 0
		}; s = 0; nodes[me].heard = 0; nodes[me].age = 0 }
	/* A slot: a look, the declaration, a look once more; each a round trip of its own. */
	:: atomic { nodes[me].connected && nodes[me].knows -> select(s : 0 .. SLOTS - 1);
		if
		:: !nodes[me].looked[s] && !nodes[me].held[s] && there[s] && owner[s] == NOBODY ->
			nodes[me].looked[s] = 1
		:: nodes[me].looked[s] ->
			nodes[me].looked[s] = 0;
			if
			:: owner[s] == NOBODY -> owner[s] = me;
#ifdef BROKEN_NO_CONFIRM
				nodes[me].held[s] = 1
#else
				nodes[me].declared[s] = 1
#endif
			:: else
			fi
		:: nodes[me].declared[s] ->
			nodes[me].declared[s] = 0;
			if
			:: there[s] -> nodes[me].held[s] = 1
			:: else -> owner[s] = NOBODY
			fi
		:: nodes[me].held[s] && IS_FREE(me, s) && owner[s] == me -> /* given back */
			nodes[me].held[s] = 0; owner[s] = NOBODY
		:: else
		fi; s = 0 }
	/* Requests. */
	:: atomic { MAY_BEGIN(me) -> select(s : 0 .. SLOTS - 1);
		if
		:: nodes[me].held[s] && !nodes[me].runs[s] -> begin(me, s)
		:: else
		fi; s = 0 }
	:: atomic { select(s : 0 .. SLOTS - 1);
		if
		:: nodes[me].runs[s] -> end_run(me, s)
		:: else
		fi; s = 0 }
	od
}

init {
	atomic {
		for (i : 0 .. SLOTS - 1) { there[i] = 1; owner[i] = NOBODY }
		i = 0;
		run broker(); run administrator();
		run one(0); run one(1)
	}
}
