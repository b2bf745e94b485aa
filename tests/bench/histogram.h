/* Latencies in logarithmic buckets of 1/64: at most 1.6 % off, any range, constant memory. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEPS = 64, HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * 60 };

struct histogram {
	uint64_t count;
	uint64_t largest;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t value)
{
	if (value < HISTOGRAM_STEPS)
		return (unsigned)value;
	unsigned shift = 63u - (unsigned)__builtin_clzll(value) - 6u;
	return (shift + 1) * HISTOGRAM_STEPS + (unsigned)((value >> shift) - HISTOGRAM_STEPS);
}

/* The largest value that falls into the bucket. */
static inline uint64_t histogram_upper(unsigned bucket)
{
	if (bucket < HISTOGRAM_STEPS)
		return bucket;
	unsigned shift = bucket / HISTOGRAM_STEPS - 1;
	return (((uint64_t)(bucket % HISTOGRAM_STEPS) + HISTOGRAM_STEPS + 1) << shift) - 1;
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->buckets[histogram_bucket(value)]++;
	histogram->count++;
	if (value > histogram->largest)
		histogram->largest = value;
}

/* The value that `percent` of all are at or below; 0 when there are none. */
static inline uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	double wanted = (double)histogram->count * percent / 100.0;
	uint64_t seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen > 0 && (double)seen >= wanted)
			return histogram_upper(i) < histogram->largest ? histogram_upper(i)
								       : histogram->largest;
	}
	return histogram->largest;
}

#endif
