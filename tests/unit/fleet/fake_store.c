#include "tests/unit/fleet/fake_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct fake_store fake_store;

void fake_store_at(uint64_t ms)
{
	fake_store.now_ns = ms * FAKE_STORE_MS;
	fake_store.worker.loop.now_known = true;
	fake_store.worker.loop.now_ms = ms;
	fake_store.worker.loop.now_ns = fake_store.now_ns;
}

void fake_store_begin(uint64_t ms)
{
	memset(&fake_store, 0, sizeof(fake_store));
	fake_store.conf.totals.callers = 100000;
	fake_store.site.conf = &fake_store.conf;
	fake_store.use.site = &fake_store.site;
	fake_store.sites.use = &fake_store.use;
	fake_store.worker.memory[PART_SITE] = &fake_store.sites;
	fake_store.link.state = STORE_READY;
	fake_store_at(ms);
}

void fake_store_answer(const void *bytes, size_t len)
{
	struct store_call *call = fake_store.call;

	assert_non_null(call);
	fake_store.call = NULL;
	call->answered(call, bytes, len);
}

void fake_store_lose_answer(void)
{
	fake_store_answer(NULL, 0);
}

void fake_store_run_timer(struct deadline *timer)
{
	assert_true(timer->at_ms != DEADLINE_NEVER);
	if (fake_store.now_ns / FAKE_STORE_MS < timer->at_ms)
		fake_store_at(timer->at_ms);
	timer->at_ms = timer->armed_ms = DEADLINE_NEVER;
	timer->passed(timer);
}

/* ---- in the place of the store --------------------------------------------------------------- */

static const struct store_link *link_of_test(void)
{
	return fake_store.own_link ? fake_store.own_link : &fake_store.link;
}

bool __wrap_store_link_send(struct store_link *store, struct store_call *call);
bool __wrap_store_link_send(struct store_link *store, struct store_call *call)
{
	assert_ptr_equal(store, link_of_test());
	if (fake_store.is_full)
		return false;
	call->sent_ms = fake_store.now_ns / FAKE_STORE_MS;
	fake_store.sent++;
	if (fake_store.take) {
		fake_store.take(call);
		return true;
	}
	if (call == fake_store.lone) {
		fake_store.lone_left = true;
		return true;
	}
	assert_null(fake_store.call); /* one at a time */
	fake_store.call = call;
	return true;
}

void __wrap_store_link_drop_silent(struct store_link *store, uint64_t before_ms);
void __wrap_store_link_drop_silent(struct store_link *store, uint64_t before_ms)
{
	assert_ptr_equal(store, link_of_test());
	fake_store.dropped++;
	fake_store.dropped_ms = before_ms;
}

/* ---- in the place of clocks ------------------------------------------------------------------ */

uint64_t __wrap_worker_throttle_ns(struct worker *worker);
uint64_t __wrap_worker_throttle_ns(struct worker *worker)
{
	assert_ptr_equal(worker, &fake_store.worker);
	return fake_store.now_ns;
}
