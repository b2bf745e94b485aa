#include "stats/busiest.h"

#include <stdlib.h>
#include <string.h>

/* How often a reader looks again at what changed under it. */
#define READS_AT_MOST 1000

struct busiest *busiest_new(void)
{
	struct busiest *busiest = calloc(1, sizeof(*busiest));

	if (busiest)
		busiest->window = busiest->windows;
	return busiest;
}

void busiest_free(struct busiest *busiest)
{
	free(busiest);
}

/* ---- one thread adds ------------------------------------------------------------------------- */

/*
 * A reader takes what it read as one state when the version was even and the same before and after.
 * The adder makes it odd, then stores with release, so a thread that sees one of these stores
 * (acquire) sees the odd version after it; then even again with release.
 */
static void begin_change(struct busiest *busiest)
{
	/* relaxed: only this thread writes it */
	uint64_t version = atomic_load_explicit(&busiest->version, memory_order_relaxed);

	/* relaxed: the release stores of the change carry it */
	atomic_store_explicit(&busiest->version, version + 1, memory_order_relaxed);
}

static void end_change(struct busiest *busiest)
{
	/* relaxed: only this thread writes it */
	uint64_t version = atomic_load_explicit(&busiest->version, memory_order_relaxed);

	/* release: pairs with the first acquire in read_window */
	atomic_store_explicit(&busiest->version, version + 1, memory_order_release);
}

/* The adder's own reads. relaxed: only this thread writes */
static inline uint64_t own(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* The caller's slot, or the free one that it would have. There is always a free one. */
static inline size_t find_slot(const struct busiest_window *window, uint64_t caller)
{
	size_t slot = busiest_slot(caller);

	for (;;) {
		uint64_t there = own(&window->callers[slot]);
		if (there == caller || there == 0)
			return slot;
		slot = (slot + 1) & (BUSIEST_SLOTS - 1);
	}
}

/* release: pairs with the acquires in read_window, see above */
static inline void put(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

static void put_slot(struct busiest_window *window, size_t slot, uint64_t caller, uint64_t count,
	const uint64_t address[static 2])
{
	put(&window->callers[slot], caller);
	put(&window->counts[slot], count);
	put(&window->addresses[slot][0], address[0]);
	put(&window->addresses[slot][1], address[1]);
	window->count++;
}

/* The k-th highest of `count` numbers, 0 the highest (Hoare's selection). */
static uint64_t select_highest(uint64_t *numbers, size_t count, size_t k)
{
	size_t low = 0, high = count - 1;

	while (low < high) {
		uint64_t pivot = numbers[low + (high - low) / 2];
		size_t i = low, j = high;
		for (;;) {
			while (numbers[i] > pivot)
				i++;
			while (numbers[j] < pivot)
				j--;
			if (i >= j)
				break;
			uint64_t swap = numbers[i];
			numbers[i++] = numbers[j];
			numbers[j--] = swap;
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return numbers[k];
}

/* Most counters are low when there are many callers: those below SMALL are only tallied. */
#define SMALL 32

/* At least half of the counters are this or more. */
static uint64_t median_of(const struct busiest_window *window)
{
	uint64_t large[BUSIEST_SLOTS];
	uint32_t tally[SMALL] = {0};
	size_t large_count = 0, wanted = window->count / 2, seen;

	for (size_t i = 0; i < BUSIEST_SLOTS; i++) {
		uint64_t count = own(&window->counts[i]);
		if (own(&window->callers[i]) == 0)
			continue;
		if (count < SMALL)
			tally[count]++;
		else
			large[large_count++] = count;
	}
	if (large_count >= wanted)
		return select_highest(large, large_count, wanted - 1);
	seen = large_count;
	for (unsigned count = SMALL - 1; count > 0; count--) {
		seen += tally[count];
		if (seen >= wanted)
			return count;
	}
	return 1; /* every counter is at least that */
}

/* What is left of a counter in a purge. */
struct survivor {
	uint64_t caller, count, address[2];
};

/* Subtracts the median of the counters from each: at least half of them lose that much, so all
 * purges together subtract at most N / (BUSIEST_CALLERS / 2). */
static __attribute__((noinline)) void purge(struct busiest_window *window)
{
	struct survivor left[BUSIEST_CALLERS];
	uint64_t median = median_of(window);
	size_t count = 0;

	for (size_t i = 0; i < BUSIEST_SLOTS; i++) {
		uint64_t caller = own(&window->callers[i]);
		if (caller == 0)
			continue;
		put(&window->callers[i], 0);
		uint64_t counted = own(&window->counts[i]);
		if (counted > median)
			left[count++] = (struct survivor){caller, counted - median,
				{own(&window->addresses[i][0]), own(&window->addresses[i][1])}};
	}
	window->count = 0;
	for (size_t i = 0; i < count; i++)
		put_slot(window, find_slot(window, left[i].caller), left[i].caller, left[i].count,
			left[i].address);
	put(&window->error, own(&window->error) + median);
}

static void clear(struct busiest_window *window)
{
	for (size_t i = 0; i < BUSIEST_SLOTS; i++)
		put(&window->callers[i], 0);
	window->count = 0;
}

static void begin_window(struct busiest *busiest, uint64_t now_ns)
{
	struct busiest_window *window = &busiest->windows[busiest->window == busiest->windows];

	begin_change(busiest);
	clear(window);
	put(&window->error, 0);
	put(&window->until_ns, now_ns + BUSIEST_WINDOW_NS);
	busiest->window = window;
	end_change(busiest);
}

/* `slot`: its place as long as no other loses its own. */
static inline void add_caller(
	struct busiest *busiest, size_t slot, uint64_t caller, const uint8_t address[static 16])
{
	struct busiest_window *window = busiest->window;
	uint64_t words[2];

	begin_change(busiest);
	if (window->count == BUSIEST_CALLERS) {
		purge(window);
		slot = find_slot(window, caller);
	}
	memcpy(words, address, sizeof(words));
	put_slot(window, slot, caller, 1, words);
	end_change(busiest);
}

void busiest_add_slowly(
	struct busiest *busiest, uint64_t caller, const uint8_t address[static 16], uint64_t now_ns)
{
	caller |= caller == 0; /* 0 is a free slot */
	if (now_ns >= own(&busiest->window->until_ns))
		begin_window(busiest, now_ns);
	size_t slot = find_slot(busiest->window, caller);
	if (own(&busiest->window->callers[slot]) != caller)
		add_caller(busiest, slot, caller, address);
	else
		/* relaxed: readers take any recent count of a caller */
		atomic_store_explicit(&busiest->window->counts[slot],
			own(&busiest->window->counts[slot]) + 1, memory_order_relaxed);
}

struct busiest *busiest_row_new(struct busiest_rows *rows, unsigned row, enum busiest_kind kind)
{
	struct busiest *busiest = busiest_new();

	/* release: pairs with the acquire in busiest_row_of */
	atomic_store_explicit(&rows->of[row][kind], busiest, memory_order_release);
	return busiest;
}

const struct busiest *busiest_row_of(
	const struct busiest_rows *rows, unsigned row, enum busiest_kind kind)
{
	/* acquire: pairs with the release in busiest_row_new */
	return atomic_load_explicit(&rows->of[row][kind], memory_order_acquire);
}

void busiest_rows_clear(struct busiest_rows *rows)
{
	for (unsigned row = 0; row < STATS_ROWS; row++) {
		for (unsigned kind = 0; kind < BUSIEST_KINDS; kind++) {
			busiest_free(rows->of[row][kind]);
			rows->of[row][kind] = NULL;
		}
	}
}

/* ---- others read ----------------------------------------------------------------------------- */

static int compare_counts(const void *a, const void *b)
{
	uint64_t x = ((const struct busiest_caller *)a)->count;
	uint64_t y = ((const struct busiest_caller *)b)->count;

	return (x < y) - (x > y);
}

static bool make_room(struct busiest_sum *sum, size_t more)
{
	size_t room = sum->count + more;

	if (room <= sum->room)
		return true;
	struct busiest_caller *callers = realloc(sum->callers, room * sizeof(*callers));
	if (!callers)
		return false;
	sum->callers = callers;
	sum->room = room;
	return true;
}

/* Adds what the window holds. acquire, all: pair with the releases of a change. */
static void read_window(
	const struct busiest_window *window, uint64_t now_ns, struct busiest_sum *sum)
{
	uint64_t until_ns = atomic_load_explicit(&window->until_ns, memory_order_acquire);

	/* One that ended longer ago than a window is not about now; one that a caller's time has
	 * begun after the reader's is. */
	if (until_ns == 0 || until_ns + BUSIEST_WINDOW_NS <= now_ns)
		return;
	if (sum->since_ns == 0 || until_ns - BUSIEST_WINDOW_NS < sum->since_ns)
		sum->since_ns = until_ns - BUSIEST_WINDOW_NS;
	sum->error += atomic_load_explicit(&window->error, memory_order_acquire);
	for (size_t i = 0; i < BUSIEST_SLOTS; i++) {
		struct busiest_caller *caller = &sum->callers[sum->count];
		uint64_t words[2];
		caller->caller = atomic_load_explicit(&window->callers[i], memory_order_acquire);
		if (caller->caller == 0)
			continue;
		words[0] = atomic_load_explicit(&window->addresses[i][0], memory_order_acquire);
		words[1] = atomic_load_explicit(&window->addresses[i][1], memory_order_acquire);
		memcpy(caller->address, words, sizeof(words));
		caller->count = atomic_load_explicit(&window->counts[i], memory_order_acquire);
		sum->count++;
	}
}

bool busiest_read(const struct busiest *busiest, uint64_t now_ns, struct busiest_sum *sum)
{
	const struct busiest_sum before = *sum;

	if (!make_room(sum, (size_t)2 * BUSIEST_SLOTS))
		return false;
	struct busiest_caller *callers = sum->callers;
	size_t room = sum->room;
	for (unsigned i = 0; i < READS_AT_MOST; i++) {
		/* acquire: pairs with the release in end_change */
		uint64_t version = atomic_load_explicit(&busiest->version, memory_order_acquire);
		*sum = before;
		sum->callers = callers;
		sum->room = room;
		read_window(&busiest->windows[0], now_ns, sum);
		read_window(&busiest->windows[1], now_ns, sum);
		/* relaxed: after the acquire loads above */
		if (!(version & 1) &&
			atomic_load_explicit(&busiest->version, memory_order_relaxed) == version)
			return true;
	}
	*sum = before;
	sum->callers = callers;
	sum->room = room;
	return false;
}

static int compare_callers(const void *a, const void *b)
{
	uint64_t x = ((const struct busiest_caller *)a)->caller;
	uint64_t y = ((const struct busiest_caller *)b)->caller;

	return (x > y) - (x < y);
}

void busiest_sum_sort(struct busiest_sum *sum)
{
	size_t last = 0;

	if (sum->count == 0)
		return;
	qsort(sum->callers, sum->count, sizeof(*sum->callers), compare_callers);
	for (size_t i = 1; i < sum->count; i++) {
		if (sum->callers[i].caller == sum->callers[last].caller)
			sum->callers[last].count += sum->callers[i].count;
		else
			sum->callers[++last] = sum->callers[i];
	}
	sum->count = last + 1;
	qsort(sum->callers, sum->count, sizeof(*sum->callers), compare_counts);
}

void busiest_sum_clear(struct busiest_sum *sum)
{
	free(sum->callers);
	*sum = (struct busiest_sum){0};
}
