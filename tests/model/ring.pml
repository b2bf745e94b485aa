/*
 * The ring's protocol (throttle/ring.c, ring_short.h), for Spin: takes, and refunds that drop the newest
 * slot, or close the gap of another one step by step, from either side (ring.c says when from which).
 * A charge is judged by the thread's own time and recorded at the newest.
 *
 *   head    type, claimed or hole, fill, position, time: one word, changed by compare-and-swap only
 *   slot[]  written after the head, by the first thread there, by compare-and-swap from the value before
 *
 * THREADS threads take (and with REFUNDS one gives back) on a ring of SLOTS; time goes on by itself,
 * in no relation to them, up to LAST. `admitted` records, for each tick, what was admitted and not
 * given back: no window of WINDOW ticks may hold more than SLOTS.
 *
 * With -DQUICK each take tries the quick way first, which helps nobody, and then the slow one.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   LOST_UPDATE     the head is read and set, not swapped
 *   BLIND_WRITE     a slot is stored, not swapped from its old value
 *   NO_HELP         a take doesn't finish the last one's slots before it judges
 *   SLOT_FIRST_OLD  the late writer doesn't look whether the head is still its own
 *   QUICK_BLIND     the quick way stores its slot
 *   QUICK_LATE      the quick way looks what its slot was only after its swap of the head
 *   QUICK_UNWRITTEN the quick way doesn't look whether the last slot is written
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef TAKES
#define TAKES 2
#endif
#ifndef LAST
#define LAST 5
#endif
#define WINDOW 2
#define START  2 /* slots begin as expired: at time 0 */

#define OPEN  0
#define CLEAN 1
#define HOLE  2 /* moves to the newest slot */
#define SINK  3 /* to the oldest */

typedef word {
	byte type, mark, fill, position, time;
};

word head;
byte slot[SLOTS];
byte now = START;
byte admitted[LAST + 8]; /* by the tick recorded; CLEAN can push it beyond now */

#define same(w) (head.type == w.type && head.mark == w.mark && head.fill == w.fill && \
	head.position == w.position && head.time == w.time)
#define copy(to, from) to.type = from.type; to.mark = from.mark; to.fill = from.fill; \
	to.position = from.position; to.time = from.time
#define back(p, n)  ((p + SLOTS + SLOTS - (n)) % SLOTS)

/* head: h -> n, if it still is h */
inline swap_head(h, n, ok)
{
#ifdef BROKEN_LOST_UPDATE
	/* read and compared at one time, set at another */
	atomic { ok = same(h) };
	if
	:: ok -> atomic { copy(head, n) }
	:: else
	fi
#else
	atomic {
		ok = same(h);
		if
		:: ok -> copy(head, n)
		:: else
		fi
	}
#endif
}

/* slot[i]: from what it is while the head is h, to value */
inline write_slot(h, i, value, old, go)
{
	go = 1;
	do
	:: go ->
		atomic { old = slot[i] };
#ifndef BROKEN_SLOT_FIRST_OLD
		if
		:: atomic { !same(h) -> go = 0 }
		:: atomic { else }
		fi;
#endif
		if
		:: go && old == value -> go = 0
		:: go && old != value ->
#ifdef BROKEN_BLIND_WRITE
			atomic { slot[i] = value; go = 0 }
#else
			atomic {
				if
				:: slot[i] == old -> slot[i] = value; go = 0
				:: else
				fi
			}
#endif
		:: else
		fi
	:: else -> break
	od
}

inline finish_claim(h, n, old, go)
{
	n = h.mark;
	do
	:: n > 0 ->
		write_slot(h, back(h.position, n), h.time, old, go);
		n--
	:: else -> break
	od
}

inline move_hole(h, w, old, go, ok, value)
{
	copy(w, h);
	if
	:: h.type == SINK && h.mark == back(h.position, h.fill) ->
		w.type = ((h.mark + 1) % SLOTS == 0 -> CLEAN : OPEN); w.mark = 0; w.fill = h.fill - 1
	:: h.type == SINK && h.mark != back(h.position, h.fill) ->
		atomic { value = slot[back(h.mark, 1)] };
		write_slot(h, h.mark, value, old, go);
		w.mark = back(h.mark, 1)
	:: h.type == HOLE && (h.mark + 1) % SLOTS == h.position ->
		w.type = CLEAN; w.position = h.mark; w.mark = 0; w.fill = h.fill - 1
	:: else ->
		atomic { value = slot[(h.mark + 1) % SLOTS] };
		write_slot(h, h.mark, value, old, go);
		w.mark = (h.mark + 1) % SLOTS
	fi;
	swap_head(h, w, ok)
}

inline load_head(h)
{
	atomic { copy(h, head) }
}

/* live = what of the fill is in the window at t: from the oldest on, until one is. `t` is the
 * thread's own time, which may be behind the head's, and the head ahead of every clock. */
inline count_live(h, t, live)
{
	live = h.fill;
	do
	:: atomic { live > 0 && slot[back(h.position, live)] + WINDOW <= t -> live-- }
	:: atomic { else -> break }
	od
}

/* The head and the admission that a charge at time `mine` makes of h. */
inline claim(h, w, t, mine, live)
{
	mine = (t > h.time -> t : h.time);
	if
	:: mine == h.time && (h.type == CLEAN || back(h.position, live) < back(h.position, h.fill)) -> mine++
	:: else
	fi;
	w.type = OPEN; w.mark = 1; w.fill = live + 1;
	w.position = (h.position + 1) % SLOTS; w.time = mine
}

inline admit(h, w, mine, ok)
{
#ifdef BROKEN_LOST_UPDATE
	swap_head(h, w, ok);
	if
	:: ok -> admitted[mine]++
	:: else
	fi
#else
	atomic {
		ok = same(h);
		if
		:: ok -> copy(head, w); admitted[mine]++
		:: else
		fi
	}
#endif
}

/* ring.c: helps the thread before it, then charges. ok: it is decided, mine > 0: admitted. */
inline take_slowly(h, w, t, mine, live, n, old, go, ok, value)
{
	load_head(h);
	if
	:: h.type >= HOLE -> move_hole(h, w, old, go, ok, value); ok = 0
	:: else ->
#ifndef BROKEN_NO_HELP
		if
		:: h.type == OPEN && h.mark > 0 -> finish_claim(h, n, old, go)
		:: else
		fi;
#endif
		count_live(h, t, live);
		if
		:: live < SLOTS ->
			claim(h, w, t, mine, live);
			admit(h, w, mine, ok);
			if
			:: ok -> finish_claim(w, n, old, go)
			:: else -> mine = 0
			fi
		:: else -> mine = 0; ok = 1
		fi
	fi
}

/*
 * ring_short.h: charges if nobody has left anything to do; its slot is swapped once, from what it was
 * before the head was swapped. ok as above; nothing was done if it isn't.
 */
inline take_quickly(h, w, t, mine, live, old, ok)
{
	load_head(h);
	if
	:: h.type >= HOLE
	:: else ->
#ifndef BROKEN_QUICK_UNWRITTEN
		if
		:: atomic { h.type == OPEN && h.mark > 0 && slot[back(h.position, 1)] != h.time -> goto quick_end }
		:: atomic { else }
		fi;
#endif
		count_live(h, t, live);
		if
		:: t <= h.time && live < h.fill -> goto quick_end
		:: else
		fi;
		if
		:: live < SLOTS ->
#ifndef BROKEN_QUICK_LATE
			atomic { old = slot[h.position] };
#endif
			claim(h, w, t, mine, live);
			admit(h, w, mine, ok);
			if
			:: ok ->
#ifdef BROKEN_QUICK_LATE
				atomic { old = slot[h.position] };
#endif
				atomic {
					if
#ifdef BROKEN_QUICK_BLIND
					:: slot[h.position] = w.time
#else
					:: slot[h.position] == old -> slot[h.position] = w.time
					:: else
#endif
					fi
				}
			:: else -> mine = 0
			fi
		:: else ->
			/* A refusal stands if the head is still the one that was looked at. */
			mine = 0;
			atomic { ok = same(h) }
		fi
	fi;
quick_end:
	skip
}

proctype taker()
{
	word h, w;
	byte n, old, live, t, taken, value, mine;
	bool go, ok;

	do
	:: taken < TAKES ->
		/* A thread's clock: read once, used late. */
		t = now;
		ok = 0;
#ifdef QUICK
		take_quickly(h, w, t, mine, live, old, ok);
#endif
		do
		:: !ok -> take_slowly(h, w, t, mine, live, n, old, go, ok, value)
		:: else -> break
		od;
#ifdef REFUNDS
		if
		:: mine > 0 && taken == 0 && _pid == 1 ->
			/* gives one of its tick back, if it is still there */
			ok = 0;
			do
			:: !ok ->
				load_head(h);
				if
				:: h.type >= HOLE -> move_hole(h, w, old, go, ok, value); ok = 0
				:: else ->
					if
					:: h.type == OPEN && h.mark > 0 -> finish_claim(h, n, old, go)
					:: else
					fi;
					n = 1;
					do
					:: n <= h.fill && slot[back(h.position, n)] != mine -> n++
					:: else -> break
					od;
					if
					:: n > h.fill ->
						/* gone, if this was one view */
						if
						:: atomic { same(h) -> ok = 1 }
						:: atomic { else }
						fi
					:: else ->
						copy(w, h);
						if
						:: n == 1 ->
							w.mark = 0; w.fill = h.fill - 1;
							w.position = back(h.position, 1)
						:: n > 1 -> w.type = HOLE; w.mark = back(h.position, n)
						:: n > 1 && h.type == OPEN ->
							w.type = SINK; w.mark = back(h.position, n)
						fi;
						atomic {
							ok = same(h);
							if
							:: ok -> copy(head, w); admitted[mine]--
							:: else
							fi
						}
					fi
				fi
			:: else -> break
			od
		:: else
		fi;
#endif
		mine = 0; taken++
	:: else -> break
	od
}

proctype clock()
{
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

byte i;
init {
	atomic {
		head.type = CLEAN; head.time = 1;
		i = 0;
		do
		:: i < THREADS -> run taker(); i++
		:: else -> break
		od;
		run clock()
	};
	(_nr_pr == 1);
	/* Every window, wherever it ends. */
	atomic {
		i = 1;
		do
		:: i < LAST + 8 -> assert(admitted[i] + admitted[i - 1] <= SLOTS); i++
		:: else -> break
		od
	}
}
