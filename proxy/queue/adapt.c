/* adapt: the gradient controller of max_in_flight = auto. See adapt.h. */
#include "queue/adapt.h"

#include <string.h>

#define TOLERANCE     1.25
#define SMOOTHING     0.2
#define BACK_OFF      0.9
#define MIN_SAMPLES   10u
#define MIN_WINDOW_NS 20000000ull    /* 20 ms */
#define PROBE_NS      30000000000ull /* 30 s */
#define REPROBE_NS    2000000000ull  /* 2 s, as long as probing finds a lower base */

/* Integer square root would do; Newton keeps libm out. */
static double square_root(double value)
{
	double root = value > 1 ? value / 2 : 1;

	for (int i = 0; i < 20; i++)
		root = (root + value / root) / 2;
	return root;
}

static double clamp(double value, double low, double high)
{
	return value < low ? low : value > high ? high : value;
}

static void start_window(struct adapt *adapt, uint64_t now_ns)
{
	adapt->since_ns = now_ns;
	adapt->sum_ns = 0;
	adapt->samples = adapt->failures = adapt->peak = 0;
}

void adapt_init(struct adapt *adapt, uint32_t start, uint32_t min, uint32_t max)
{
	memset(adapt, 0, sizeof(*adapt));
	adapt->min = min > 0 ? min : 1;
	adapt->max = max > adapt->min ? max : adapt->min;
	adapt->limit = clamp(start, adapt->min, adapt->max);
}

uint32_t adapt_limit(const struct adapt *adapt)
{
	double limit = adapt->phase == ADAPT_STEADY ? adapt->limit : adapt->limit / 2;
	return (uint32_t)clamp(limit, adapt->min, adapt->max);
}

/* A steady window is full: move the limit. */
static void adjust(struct adapt *adapt, double mean_ns)
{
	double limit = adapt->limit, gradient;

	if (adapt->failures * 10 > adapt->samples + adapt->failures) {
		adapt->limit = clamp(limit * BACK_OFF, adapt->min, adapt->max);
		return;
	}
	if (adapt->base_ns <= 0 || mean_ns < adapt->base_ns)
		adapt->base_ns = mean_ns;
	if (adapt->peak * 2 < adapt_limit(adapt))
		return;
	gradient = clamp(TOLERANCE * adapt->base_ns / mean_ns, 0.5, 1);
	limit = (1 - SMOOTHING) * limit + SMOOTHING * (limit * gradient + square_root(limit));
	adapt->limit = clamp(limit, adapt->min, adapt->max);
}

static void close_window(struct adapt *adapt, uint64_t now_ns)
{
	double mean_ns = adapt->samples > 0 ? adapt->sum_ns / adapt->samples : 0;

	switch (adapt->phase) {
	case ADAPT_STEADY:
		if (adapt->samples > 0 || adapt->failures > 0)
			adjust(adapt, mean_ns > 1 ? mean_ns : 1);
		if (now_ns >= adapt->probe_at_ns) {
			adapt->skip = (uint32_t)adapt->limit;
			adapt->phase = ADAPT_PROBE_DRAIN;
		}
		break;
	case ADAPT_PROBE:
		adapt->phase = ADAPT_STEADY;
		/* Much lower than thought: the base was seen while the upstream was full. */
		adapt->probe_at_ns =
			now_ns + (mean_ns < adapt->base_ns * 0.8 ? REPROBE_NS : PROBE_NS);
		if (adapt->samples > 0)
			adapt->base_ns = mean_ns > 1 ? mean_ns : 1;
		break;
	case ADAPT_PROBE_DRAIN:
		break;
	}
	start_window(adapt, now_ns);
}

void adapt_sample(
	struct adapt *adapt, uint64_t latency_ns, bool failed, uint32_t in_flight, uint64_t now_ns)
{
	uint32_t wanted = adapt_limit(adapt) > MIN_SAMPLES ? adapt_limit(adapt) : MIN_SAMPLES;

	if (adapt->since_ns == 0) {
		adapt->probe_at_ns = now_ns + REPROBE_NS;
		start_window(adapt, now_ns);
	}
	if (adapt->phase == ADAPT_PROBE_DRAIN) {
		if (adapt->skip-- > 1)
			return;
		adapt->phase = ADAPT_PROBE;
		start_window(adapt, now_ns);
		return;
	}
	if (in_flight > adapt->peak)
		adapt->peak = in_flight;
	if (failed) {
		adapt->failures++;
	} else {
		adapt->samples++;
		adapt->sum_ns += (double)latency_ns;
	}
	if (adapt->samples + adapt->failures >= wanted && now_ns >= adapt->since_ns + MIN_WINDOW_NS)
		close_window(adapt, now_ns);
}
