/* See engine.h. */
#include "tests/stress/explore/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/stress/explore/atomics.h"

#define STACK_BYTES (1u << 20)
#define POINTS_MAX  400000 /* a thread that needs more never ends */

enum state { STATE_NONE, STATE_READY, STATE_WAITS, STATE_STOPPED, STATE_ENDED };

struct thread {
	ucontext_t context;
	void *stack;
	void (*run)(void *);
	void *argument;
	enum state state;
	unsigned process;
	uint64_t points;
};

static struct {
	struct schedule schedule;
	struct thread threads[ENGINE_THREADS + 1]; /* [0] is the real one */
	unsigned count, current;
	uint64_t random, points, base, cycles; /* base: where the schedule begins */
	unsigned killed_mask, preemptions;
	bool is_running, hangs;
	int trace;
} engine;

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t engine_random(uint64_t below)
{
	return mix(engine.random += UINT64_C(0x9e3779b97f4a7c15)) % below;
}

uint64_t engine_now(void)
{
	return engine.points;
}

unsigned engine_process(void)
{
	return engine.threads[engine.current].process;
}

bool engine_is_killed(unsigned process)
{
	return engine.killed_mask >> process & 1;
}

unsigned engine_preemptions(void)
{
	return engine.preemptions;
}

void engine_trace(int level)
{
	engine.trace = level;
}

int engine_tracing(void)
{
	return engine.trace;
}

uint64_t explore_cycles(void)
{
	return engine.cycles += 1u << 16;
}

void engine_reset(uint64_t seed, bool is_weak)
{
	engine.random = seed;
	engine.points = engine.base = engine.count = engine.current = 0;
	engine.killed_mask = engine.preemptions = 0;
	engine.hangs = false;
	memory_reset(is_weak);
}

void engine_schedule(const struct schedule *schedule)
{
	engine.schedule = *schedule;
	engine.base = engine.points;
}

static unsigned ready_threads(unsigned *ready, bool with_stopped)
{
	unsigned n = 0;

	for (unsigned i = 1; i <= engine.count; i++)
		if (engine.threads[i].state == STATE_READY ||
			(with_stopped && engine.threads[i].state == STATE_STOPPED))
			ready[n++] = i;
	return n;
}

static void switch_to(unsigned next)
{
	unsigned last = engine.current;

	if (next == last)
		return;
	engine.current = next;
	swapcontext(&engine.threads[last].context, &engine.threads[next].context);
}

/* Who continues when the current thread doesn't: 0, the real one, when there is none. */
static void go_on_with_another(void)
{
	unsigned ready[ENGINE_THREADS], n = ready_threads(ready, false);

	if (n == 0)
		n = ready_threads(ready, true);
	if (n == 0) {
		switch_to(0);
		return;
	}
	n = ready[engine_random(n)];
	engine.threads[n].state = STATE_READY;
	switch_to(n);
}

static void kill_process(unsigned process)
{
	engine.killed_mask |= 1u << process;
	for (unsigned i = 1; i <= engine.count; i++)
		if (engine.threads[i].process == process)
			engine.threads[i].state = STATE_ENDED;
	if (engine.trace)
		printf("#   process %u is killed\n", process);
	files_kill(process);
}

static bool is_change_due(void)
{
	const struct schedule *s = &engine.schedule;

	if (s->policy == POLICY_WALK)
		return s->one_in > 0 && engine_random(s->one_in) == 0;
	for (unsigned i = 0; i < s->changes; i++)
		if (s->change[i] == engine.points - engine.base)
			return true;
	return false;
}

void engine_point(const char *file, int line)
{
	struct thread *self = &engine.threads[engine.current];
	const struct schedule *s = &engine.schedule;
	unsigned ready[ENGINE_THREADS], n;

	if (engine.current == 0)
		return;
	engine.points++;
	if (++self->points > POINTS_MAX) {
		engine.hangs = true;
		if (engine.trace)
			printf("#   thread %u hangs at %s:%d\n", engine.current, file, line);
		switch_to(0);
	}
	if (s->kill_at == engine.points - engine.base) {
		kill_process(s->killed);
		if (self->state != STATE_READY)
			go_on_with_another();
	}
	if (s->policy == POLICY_STOPPED && s->stopped == engine.current &&
		s->stopped_at == self->points) {
		if (engine.trace)
			printf("#   thread %u stops before %s:%d\n", engine.current, file, line);
		self->state = STATE_STOPPED;
		go_on_with_another();
		if (engine.trace)
			printf("#   thread %u goes on\n", engine.current);
		return;
	}
	if (!is_change_due())
		return;
	n = ready_threads(ready, false);
	n = ready[engine_random(n)];
	if (n == engine.current)
		return;
	engine.preemptions++;
	if (engine.trace)
		printf("#   thread %u is interrupted before %s:%d by thread %u\n", engine.current,
			file, line, n);
	switch_to(n);
}

void engine_synchronize(void)
{
	memory_begin_thread(engine.current);
}

void engine_wait(void)
{
	engine.threads[engine.current].state = STATE_WAITS;
	go_on_with_another();
}

void engine_wake(void)
{
	for (unsigned i = 1; i <= engine.count; i++)
		if (engine.threads[i].state == STATE_WAITS)
			engine.threads[i].state = STATE_READY;
}

static void begin_thread(void)
{
	struct thread *self = &engine.threads[engine.current];

	self->run(self->argument);
	engine.threads[engine.current].state = STATE_ENDED;
	go_on_with_another();
}

void engine_spawn(unsigned process, void (*run)(void *), void *argument)
{
	struct thread *t = &engine.threads[++engine.count];

	if (engine.count > ENGINE_THREADS)
		abort();
	if (t->stack == NULL) {
		t->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (t->stack == MAP_FAILED)
			abort();
	}
	t->run = run;
	t->argument = argument;
	t->process = process;
	t->points = 0;
	t->state = STATE_READY;
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = STACK_BYTES;
	t->context.uc_link = NULL;
	makecontext(&t->context, begin_thread, 0);
	memory_begin_thread(engine.count);
}

enum ended engine_run(void)
{
	go_on_with_another();
	engine.current = 0;
	engine.count = 0;
	memory_settle();
	return engine.hangs ? ENDED_HANGS : ENDED_ALL;
}

static void show(const char *what, const volatile void *at, uint64_t value, uint64_t next,
	struct explore_place place)
{
	if (engine.trace > 1 && engine.current != 0)
		printf("#     %u %s %p %llx %llx  %s:%d\n", engine.current, what,
			(void *)(uintptr_t)at, (unsigned long long)value, (unsigned long long)next,
			place.file, place.line);
}

uint64_t explore_load(const volatile void *at, size_t bytes, int order, struct explore_place place)
{
	uint64_t value;

	engine_point(place.file, place.line);
	value = memory_load(engine.current, at, bytes, order);
	show("load", at, value, 0, place);
	return value;
}

void explore_store(
	volatile void *at, size_t bytes, uint64_t value, int order, struct explore_place place)
{
	engine_point(place.file, place.line);
	show("store", at, value, 0, place);
	memory_store(engine.current, at, bytes, value, order);
}

bool explore_swap(volatile void *at, size_t bytes, void *expected, uint64_t next, int success,
	int failure, bool is_weak, struct explore_place place)
{
	uint64_t value = 0, was;
	bool done;

	engine_point(place.file, place.line);
	memcpy(&value, expected, bytes);
	was = value;
	if (is_weak && engine.current != 0 && engine_random(16) == 0)
		return false;
	done = memory_swap(engine.current, at, bytes, &value, next, success, failure);
	show(done ? "swap" : "swap fails", at, was, next, place);
	if (!done)
		memcpy(expected, &value, bytes);
	return done;
}

uint64_t explore_fetch(volatile void *at, size_t bytes, enum explore_change change,
	uint64_t operand, int order, struct explore_place place)
{
	uint64_t value = 0, next;

	engine_point(place.file, place.line);
	do {
		next = change == EXPLORE_ADD   ? value + operand
		       : change == EXPLORE_SUB ? value - operand
		       : change == EXPLORE_OR  ? value | operand
					       : value & operand;
	} while (!memory_swap(engine.current, at, bytes, &value, next, order, order));
	show("fetch", at, value, next, place);
	return value;
}
