/*
 * What a load may return: C11's orderings, by views.
 *
 * Each location has its last few values, numbered in the order they were written. Each thread has a
 * view: the least number that it may still read of each location. A load may return any value from
 * there on; what it returns, it never reads an older one than again. A store with release hands on
 * the writer's view with the value, a load with acquire takes it over; what reads and writes in one
 * step reads the newest. A seq_cst load doesn't read what is older than the location's last seq_cst
 * store. (Every value that this model gives is one that C11 permits; that a load reads what is
 * written only later is left out.)
 *
 * More locations than there is room for are read at their newest, and an acquire of one hands over
 * the newest of all others: who wrote it is not known.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/stress/explore/engine.h"

#include <stdatomic.h>

#define LOCATIONS 1024
#define BINS      4096
#define DEPTH     4 /* values that are kept of a location */

struct message {
	uint64_t value;
	uint16_t known; /* locations in `view` */
	uint16_t view[LOCATIONS];
};

struct location {
	uintptr_t at;
	uint16_t bytes, newest, floor, last_seq_cst;
	struct message messages[DEPTH]; /* number n is in [n % DEPTH] */
};

static struct {
	bool is_weak;
	unsigned count;
	uint16_t bins[BINS]; /* 1 + the location's index */
	uint16_t views[ENGINE_THREADS + 1][LOCATIONS];
	struct location locations[LOCATIONS];
} memory;

void memory_reset(bool is_weak)
{
	if (memory.count > 0)
		memset(memory.bins, 0, sizeof(memory.bins));
	memory.count = 0;
	memory.is_weak = is_weak;
}

void memory_begin_thread(unsigned thread)
{
	for (unsigned i = 0; i < memory.count; i++)
		memory.views[thread][i] = memory.locations[i].newest;
}

void memory_settle(void)
{
	for (unsigned i = 0; i < memory.count; i++)
		memory.locations[i].floor = memory.locations[i].newest;
}

static uint64_t read_raw(const volatile void *at, size_t bytes)
{
	switch (bytes) {
	case 1:
		return *(const volatile uint8_t *)at;
	case 4:
		return *(const volatile uint32_t *)at;
	case 8:
		return *(const volatile uint64_t *)at;
	default:
		abort();
	}
}

static void write_raw(volatile void *at, size_t bytes, uint64_t value)
{
	switch (bytes) {
	case 1:
		*(volatile uint8_t *)at = (uint8_t)value;
		break;
	case 4:
		*(volatile uint32_t *)at = (uint32_t)value;
		break;
	case 8:
		*(volatile uint64_t *)at = value;
		break;
	default:
		abort();
	}
}

static unsigned bin_of(uintptr_t at)
{
	return (unsigned)((at >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 52) & (BINS - 1);
}

void memory_forget(const void *block, size_t bytes)
{
	uintptr_t first = (uintptr_t)block;

	/* Its place in the table stays: at an address that nothing has. */
	for (unsigned i = 0; i < memory.count; i++)
		if (memory.locations[i].at - first < bytes)
			memory.locations[i].at = 1;
}

static struct location *find(const volatile void *at, size_t bytes)
{
	uintptr_t address = (uintptr_t)at;
	unsigned bin = bin_of(address);
	struct location *l;

	if (!memory.is_weak)
		return NULL;
	for (; memory.bins[bin] != 0; bin = (bin + 1) & (BINS - 1)) {
		l = &memory.locations[memory.bins[bin] - 1];
		if (l->at == address) {
			/* What is read in parts, too, is always the newest. */
			if (l->bytes != bytes)
				l->floor = l->newest;
			return l->bytes == bytes ? l : NULL;
		}
	}
	if (memory.count == LOCATIONS)
		return NULL;
	l = &memory.locations[memory.count];
	l->at = address;
	l->bytes = (uint16_t)bytes;
	l->newest = l->floor = l->last_seq_cst = 1;
	l->messages[1].value = read_raw(at, bytes);
	l->messages[1].known = 0;
	for (unsigned t = 0; t <= ENGINE_THREADS; t++)
		memory.views[t][memory.count] = 1;
	memory.bins[bin] = (uint16_t)++memory.count;
	return l;
}

static uint16_t later(uint16_t a, uint16_t b)
{
	return a > b ? a : b;
}

static void take_over(unsigned thread, const struct message *m)
{
	for (unsigned i = 0; i < m->known; i++)
		memory.views[thread][i] = later(memory.views[thread][i], m->view[i]);
}

static bool is_acquire(int order)
{
	return order == memory_order_acquire || order == memory_order_acq_rel ||
	       order == memory_order_seq_cst;
}

static bool is_release(int order)
{
	return order == memory_order_release || order == memory_order_acq_rel ||
	       order == memory_order_seq_cst;
}

/* Was it written by something else than through here? Then that is all there is of it. */
static void refresh(struct location *l)
{
	uint64_t value = read_raw((const void *)l->at, l->bytes);

	if (l->messages[l->newest % DEPTH].value == value)
		return;
	l->floor = ++l->newest;
	l->messages[l->newest % DEPTH].value = value;
	l->messages[l->newest % DEPTH].known = 0;
}

static uint64_t read_as(unsigned thread, struct location *l, int order, bool newest)
{
	unsigned index = (unsigned)(l - memory.locations);
	uint16_t least = later(memory.views[thread][index], l->floor), number = l->newest;

	if (order == memory_order_seq_cst)
		least = later(least, l->last_seq_cst);
	if (l->newest >= DEPTH)
		least = later(least, (uint16_t)(l->newest - DEPTH + 1));
	if (thread != 0 && !newest && least < number && engine_random(4) == 0)
		number = (uint16_t)(least + engine_random((uint64_t)(number - least) + 1));
	memory.views[thread][index] = number;
	if (is_acquire(order))
		take_over(thread, &l->messages[number % DEPTH]);
	return l->messages[number % DEPTH].value;
}

static void write_as(unsigned thread, struct location *l, uint64_t value, int order, bool goes_on)
{
	unsigned index = (unsigned)(l - memory.locations);
	const struct message *last = &l->messages[l->newest % DEPTH];
	struct message *m = &l->messages[(l->newest + 1) % DEPTH];

	if (l->newest == UINT16_MAX)
		abort();
	memory.views[thread][index] = ++l->newest;
	if (thread == 0)
		l->floor = l->newest;
	m->value = value;
	m->known = 0;
	if (is_release(order)) {
		m->known = (uint16_t)memory.count;
		memcpy(m->view, memory.views[thread], memory.count * sizeof(m->view[0]));
	}
	/* What reads and writes in one step continues with the release that it has read. */
	if (goes_on) {
		for (unsigned i = 0; i < last->known; i++)
			m->view[i] =
				i < m->known ? later(m->view[i], last->view[i]) : last->view[i];
		m->known = later(m->known, last->known);
	}
	if (order == memory_order_seq_cst)
		l->last_seq_cst = l->newest;
	write_raw((void *)l->at, l->bytes, value);
}

static void acquire_unknown(unsigned thread, int order)
{
	if (memory.is_weak && is_acquire(order))
		memory_begin_thread(thread);
}

uint64_t memory_load(unsigned thread, const volatile void *at, size_t bytes, int order)
{
	struct location *l = find(at, bytes);

	if (l == NULL) {
		acquire_unknown(thread, order);
		return read_raw(at, bytes);
	}
	refresh(l);
	return read_as(thread, l, order, false);
}

void memory_store(unsigned thread, volatile void *at, size_t bytes, uint64_t value, int order)
{
	struct location *l = find(at, bytes);

	if (l == NULL) {
		write_raw(at, bytes, value);
		return;
	}
	refresh(l);
	write_as(thread, l, value, order, false);
}

bool memory_swap(unsigned thread, volatile void *at, size_t bytes, uint64_t *expected,
	uint64_t next, int success, int failure)
{
	struct location *l = find(at, bytes);
	uint64_t value;

	if (l == NULL) {
		acquire_unknown(thread, success);
		value = read_raw(at, bytes);
		if (value == *expected)
			write_raw(at, bytes, next);
	} else {
		refresh(l);
		value = l->messages[l->newest % DEPTH].value;
		if (value == *expected) {
			read_as(thread, l, success, true);
			write_as(thread, l, next, success, true);
		} else {
			/* A swap that fails may have read an older value than the newest, but not
			 * the expected one: that is left out. */
			read_as(thread, l, failure, true);
		}
	}
	if (value == *expected)
		return true;
	*expected = value;
	return false;
}
