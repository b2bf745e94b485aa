/* A gate over a table of throttles in memory, by a clock of the test's. */
#ifndef TESTS_GATE_GATE_FIXTURE_H
#define TESTS_GATE_GATE_FIXTURE_H

#include "conf_of.h"
#include "gate/gate.h"

#define S UINT64_C(1000000000)

struct fixture {
	const struct conf *conf;
	struct throttle_table *table;
	struct gate *gate;
	uint64_t now_ns;
	struct gate_verdict verdict; /* of what was asked last */
	struct gate_receipt receipt;
};

/* `folder`: where the files are that the text names; may be NULL. */
static inline struct fixture begin_in(const char *folder, const char *ini)
{
	struct fixture f = {.conf = conf_in(folder, ini), .now_ns = 1795000000 * S};
	struct throttle_limit *limits = gate_throttle_limits(f.conf, 0);
	const struct throttle_table_options options = {.callers = 4000, .now_ns = f.now_ns};
	struct throttle_report report;

	assert_non_null(limits);
	f.table = throttle_table_open(&options, limits, f.conf->limit_count, &report);
	if (!f.table)
		fail_msg("%s", report.text);
	free(limits);
	f.gate = gate_new(f.conf, f.table);
	assert_non_null(f.gate);
	return f;
}

static inline struct fixture begin(const char *ini)
{
	return begin_in(NULL, ini);
}

static inline void end(struct fixture *f)
{
	gate_free(f->gate);
	throttle_table_close(f->table);
	conf_release(f->conf);
}

#endif
