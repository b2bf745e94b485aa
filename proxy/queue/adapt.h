/* adapt: finds the concurrency beyond which an upstream's latency rises (max_in_flight = auto).
 *
 *   latency ^            / overloaded: more in flight only waits there
 *           |           /
 *      base |__________/
 *           +----------+------> in flight
 *                     knee: the limit settles a little beyond it
 *
 * A gradient controller after Envoy's adaptive concurrency filter and Netflix's
 * concurrency-limits: each window of samples gives
 *
 *     gradient = base * 1.25 / mean latency, clamped to 0.5 .. 1
 *     limit    = limit * gradient + sqrt(limit), smoothed
 *
 * where sqrt(limit) is room to grow into. base is the latency without queueing; as it can only be
 * seen when the upstream is not full, the limit is halved for one window every 30 s (as BBR's
 * ProbeRTT does) and base is what is measured then; every 2 s as long as that finds a much lower
 * one. Failures (timeouts, 503s of the upstream) of more than a tenth of a window cut the limit
 * multiplicatively instead, as AIMD does. A window in which less than half of the limit was used
 * proves nothing about it and changes nothing. Private to the room; the caller holds the run
 * queue's lock. */
#ifndef SLUICE_QUEUE_ADAPT_H
#define SLUICE_QUEUE_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

enum adapt_phase {
	ADAPT_STEADY,
	ADAPT_PROBE_DRAIN, /* the limit is halved; what went before it is still coming back */
	ADAPT_PROBE,       /* measuring base */
};

struct adapt {
	uint32_t min, max;
	enum adapt_phase phase;
	double limit, base_ns;
	uint64_t probe_at_ns;

	/* the window under way */
	uint64_t since_ns;
	double sum_ns;
	uint32_t samples, failures, peak, skip;
};

/* start, min and max in exchanges; start is clamped to the others. */
void adapt_init(struct adapt *adapt, uint32_t start, uint32_t min, uint32_t max);

/* One exchange is over: what it took, whether the upstream failed it, how many were in flight with
 * it. */
void adapt_sample(
	struct adapt *adapt, uint64_t latency_ns, bool failed, uint32_t in_flight, uint64_t now_ns);

/* The bound now in force, min..max. */
uint32_t adapt_limit(const struct adapt *adapt);

#endif
