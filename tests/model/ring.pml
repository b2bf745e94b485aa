/*
 * The ring's protocol (throttle/ring.c), for Spin: takes, and refunds that close the gap step by step.
 *
 *   head    type, claimed or hole, fill, position, time: one word, changed by compare-and-swap only
 *   slot[]  written after the head, by whoever comes first, by compare-and-swap from what was there
 *
 * THREADS threads take (and with REFUNDS one gives back) on a ring of SLOTS; time goes on by itself,
 * in no relation to them, up to LAST. `admitted` records, for each tick, what was admitted and not
 * given back: no window of WINDOW ticks may hold more than SLOTS.
 *
 * Broken variants that must be found (-DBROKEN_...):
 *   LOST_UPDATE    the head is read and set, not swapped
 *   BLIND_WRITE    a slot is stored, not swapped from its old value
 *   NO_HELP        a take doesn't finish the last one's slots before it judges
 *   SLOT_FIRST_OLD the late writer doesn't look whether the head is still its own
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
#define HOLE  2

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
	:: (h.mark + 1) % SLOTS == h.position ->
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

/* live = how many of the fill are in the window at t: slots are in order */
inline count_live(h, t, live, n)
{
	n = h.fill; live = 0;
	do
	:: n > 0 ->
		atomic {
			if
			:: slot[back(h.position, n)] + WINDOW > t -> live++
			:: else
			fi;
			n--
		}
	:: else -> break
	od;
	n = 0
}

proctype taker()
{
	word h, w;
	byte n, old, live, t, taken, value, mine, tries;
	bool go, ok;

	do
	:: taken < TAKES ->
		/* A thread's clock: read once, used late. */
		t = now;
		ok = 0;
		do
		:: !ok ->
			load_head(h);
			if
			:: h.type == HOLE -> move_hole(h, w, old, go, ok, value); ok = 0
			:: else ->
#ifndef BROKEN_NO_HELP
				if
				:: h.type == OPEN && h.mark > 0 -> finish_claim(h, n, old, go)
				:: else
				fi;
#endif
				mine = (t > h.time -> t : h.time);
				count_live(h, mine, live, n);
				if
				:: live < SLOTS ->
					if
					:: h.type == CLEAN && mine == h.time -> mine++
					:: else
					fi;
					w.type = OPEN; w.mark = 1; w.fill = live + 1;
					w.position = (h.position + 1) % SLOTS; w.time = mine;
#ifdef BROKEN_LOST_UPDATE
					swap_head(h, w, ok);
					if
					:: ok -> admitted[mine]++
					:: else
					fi;
#else
					atomic {
						ok = same(h);
						if
						:: ok -> copy(head, w); admitted[mine]++
						:: else
						fi
					};
#endif
					if
					:: ok ->
						finish_claim(w, n, old, go)
					:: else
					fi
				:: else ->
					mine = 0; ok = 1 /* refused */
				fi
			fi
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
				:: h.type == HOLE -> move_hole(h, w, old, go, ok, value); ok = 0
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
						copy(w, h); w.type = HOLE; w.mark = back(h.position, n);
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
