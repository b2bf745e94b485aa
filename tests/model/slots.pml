/*
 * How two nodes use two slots of a semaphore (proxy/semaphore/slots.h, holder.h, keeper.h), for Spin. holder.pml
 * has one slot and time; here a lease is over at any moment, and the broker ends no connection before. What is new
 * with several: slots have an order, and a node counts them, as a request has a place and no slot of its own.
 *
 *   administrator  removes the slot of the highest number, and adds the lowest that is missing
 *   broker         there[s]: the slot's A; owner[s]: whose its B is
 *   node           takes slots in ascending order, looks at the highest that it holds whether it is removed, lowers
 *                  its bound and gives back what neither that nor what is in flight needs
 *   request        placed under the bound, then sent; or its connection is lost in between, and it begins again
 *
 * Any step may come at any time or never. It must hold that
 *   - what a node has sent has as many slots as it is requests, whenever it sends one more; what it sent by
 *     a connection that is lost counts against those of the next;
 *   - a look finds what was removed before it began, whichever slot that is;
 *   - a search that ends at the end of the slots has passed none that is free.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   GIVE_FIRST  slots are given back before the bound is lowered
 *   NO_USE      what is in flight does not keep slots
 *   FORGETS     what was in flight by a lost connection does not count against the next one's slots
 *   NO_LOOK     a request is sent without a look at the lease
 *   NO_SINCE    what was placed by a lost connection is sent by the next
 *   LOW_FIRST   an administrator removes the slot of the lowest number
 */
#define NODES  2
#define SLOTS  2
#define NOBODY NODES
#ifndef REQUESTS
#define REQUESTS SLOTS /* at once, of a node: they do not differ */
#endif

typedef node {
	bit connected; /* as the broker knows */
	bit knows;     /* that it is */
	bit lease;
	bit held[SLOTS], removed[SLOTS];
	byte bound, gives;
	byte placed, placed_before, sent, sent_before; /* before: by a connection that is lost */
};

node nodes[NODES];
bit there[SLOTS];
byte owner[SLOTS];
hidden byte i;

#define COUNT(n, what)  (nodes[n].what[0] + nodes[n].what[1])
#define OWNED(n)        ((owner[0] == n) + (owner[1] == n))
#define USABLE(n)       (COUNT(n, held) - COUNT(n, removed))
#define IN_FLIGHT(n)    (nodes[n].placed + nodes[n].placed_before + nodes[n].sent + nodes[n].sent_before)
#define LESSER(a, b)    (a < b -> a : b)
#define GREATER(a, b)   (a > b -> a : b)

#ifdef BROKEN_FORGETS
#define COUNTED(n) (nodes[n].placed + nodes[n].sent)
#else
#define COUNTED(n) IN_FLIGHT(n)
#endif
#ifdef BROKEN_NO_USE
#define KEEPS(n, wanted) LESSER(USABLE(n), wanted)
#else
#define KEEPS(n, wanted) GREATER(LESSER(USABLE(n), wanted), COUNTED(n))
#endif
#ifdef BROKEN_NO_LOOK
#define LETS(n) 1
#else
#define LETS(n) (nodes[n].lease)
#endif

/* What was exclusive to n ends. */
inline drop(n)
{
	nodes[n].connected = 0;
	for (i : 0 .. SLOTS - 1) {
		if
		:: owner[i] == n -> owner[i] = NOBODY
		:: else
		fi
	};
	i = 0
}

proctype broker()
{
	do
	:: atomic { nodes[0].lease -> nodes[0].lease = 0 }
	:: atomic { nodes[1].lease -> nodes[1].lease = 0 }
	:: atomic { nodes[0].connected && !nodes[0].lease -> drop(0) }
	:: atomic { nodes[1].connected && !nodes[1].lease -> drop(1) }
	od
}

proctype administrator()
{
	do
#ifdef BROKEN_LOW_FIRST
	:: atomic { there[0] -> there[0] = 0 }
	:: atomic { !there[0] && there[1] -> there[1] = 0 }
#else
	:: atomic { there[1] -> there[1] = 0 }
	:: atomic { there[0] && !there[1] -> there[0] = 0 }
#endif
	:: atomic { !there[0] -> there[0] = 1 }
	:: atomic { there[0] && !there[1] -> there[1] = 1 }
	od
}

inline forget(n)
{
	nodes[n].knows = 0;
	nodes[n].bound = 0;
	nodes[n].gives = 0;
	for (i : 0 .. SLOTS - 1) {
		nodes[n].held[i] = 0;
		nodes[n].removed[i] = 0
	};
	i = 0;
	nodes[n].sent_before = nodes[n].sent_before + nodes[n].sent;
	nodes[n].sent = 0;
#ifndef BROKEN_NO_SINCE
	nodes[n].placed_before = nodes[n].placed_before + nodes[n].placed;
	nodes[n].placed = 0
#endif
}

/* Takes the lowest that is free: the look, the declaration and what may come between are holder.pml's. */
inline search(n)
{
	if
	:: !there[0] -> assert(!there[1] || owner[1] != NOBODY) /* the end of the slots */
	:: there[0] && owner[0] == NOBODY -> owner[0] = n; nodes[n].held[0] = 1
	:: there[0] && owner[0] != NOBODY && there[1] && owner[1] == NOBODY ->
		owner[1] = n; nodes[n].held[1] = 1
	:: else
	fi
}

/* At the highest that it holds; if that is gone, at all. */
inline look(n)
{
	if
	:: (nodes[n].held[1] && !there[1]) || (!nodes[n].held[1] && nodes[n].held[0] && !there[0]) ->
		nodes[n].removed[0] = nodes[n].held[0] && !there[0];
		nodes[n].removed[1] = nodes[n].held[1] && !there[1]
	:: else
	fi;
	assert(!nodes[n].held[0] || there[0] || nodes[n].removed[0]);
	assert(!nodes[n].held[1] || there[1] || nodes[n].removed[1]);
	nodes[n].lease = 1
}

inline give(n, s)
{
	nodes[n].held[s] = 0;
	nodes[n].removed[s] = 0;
	owner[s] = NOBODY;
	nodes[n].gives--
}

/* Removed ones first, then those of the highest numbers. */
inline give_one(n)
{
	if
	:: nodes[n].removed[1] -> give(n, 1)
	:: !nodes[n].removed[1] && nodes[n].removed[0] -> give(n, 0)
	:: !nodes[n].removed[1] && !nodes[n].removed[0] && nodes[n].held[1] -> give(n, 1)
	:: !nodes[n].removed[1] && !nodes[n].removed[0] && !nodes[n].held[1] && nodes[n].held[0] -> give(n, 0)
	:: else -> nodes[n].gives = 0
	fi
}

/* One request more is at the server. */
inline send(n)
{
	assert(nodes[n].sent + nodes[n].sent_before < OWNED(n));
	nodes[n].sent++
}

proctype one(byte me)
{
	byte wanted;

	do
	:: atomic { !nodes[me].connected && !nodes[me].knows ->
		nodes[me].connected = 1; nodes[me].knows = 1; nodes[me].lease = 1 }
	:: atomic { !nodes[me].connected && nodes[me].knows -> forget(me) }
	:: atomic { nodes[me].connected && nodes[me].knows && nodes[me].gives == 0 ->
		search(me) }
	:: atomic { nodes[me].connected && nodes[me].knows && nodes[me].gives == 0 ->
		look(me) }
	/* The bound, and what is given back: that is another step. */
	:: atomic { nodes[me].knows && nodes[me].gives == 0 ->
		select(wanted : 0 .. SLOTS);
		if
		:: COUNT(me, held) > KEEPS(me, wanted) -> nodes[me].gives = COUNT(me, held) - KEEPS(me, wanted)
		:: else
		fi;
#ifdef BROKEN_GIVE_FIRST
		if
		:: nodes[me].gives == 0 -> nodes[me].bound = LESSER(USABLE(me), wanted)
		:: else
		fi;
#else
		nodes[me].bound = LESSER(USABLE(me), wanted);
#endif
		wanted = 0 }
	:: atomic { nodes[me].connected && nodes[me].gives > 0 -> give_one(me) }
	/* Requests. */
	:: atomic { nodes[me].lease && COUNTED(me) < nodes[me].bound && IN_FLIGHT(me) < REQUESTS ->
		nodes[me].placed++ }
	:: atomic { nodes[me].placed > 0 && LETS(me) -> nodes[me].placed--; send(me) }
	:: atomic { nodes[me].placed > 0 && !LETS(me) -> nodes[me].placed-- } /* begins again */
	:: atomic { nodes[me].placed_before > 0 -> nodes[me].placed_before-- }
	:: atomic { nodes[me].sent > 0 -> nodes[me].sent-- }
	:: atomic { nodes[me].sent_before > 0 -> nodes[me].sent_before-- }
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
