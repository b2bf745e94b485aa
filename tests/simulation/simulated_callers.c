#include "tests/simulation/simulated_callers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static void add(struct times *times, uint64_t at_us)
{
	if (times->count == times->size) {
		times->size = times->size > 0 ? 2 * times->size : 4;
		times->at_us = realloc(times->at_us, times->size * sizeof(*times->at_us));
		assert(times->at_us);
	}
	times->at_us[times->count++] = at_us;
}

void callers_init(struct callers *callers, uint32_t count, double exponent, uint64_t quota,
	uint64_t window_us, uint64_t slack_us)
{
	double sum = 0;

	*callers = (struct callers){.count = count,
		.quota = quota,
		.window_us = window_us,
		.slack_us = slack_us,
		.closest_us = UINT64_MAX};
	callers->admitted = calloc(count, sizeof(*callers->admitted));
	callers->ideal = calloc(count, sizeof(*callers->ideal));
	assert(callers->admitted && callers->ideal);
	if (exponent <= 0)
		return;
	callers->shares = malloc(count * sizeof(*callers->shares));
	assert(callers->shares);
	for (uint32_t i = 0; i < count; i++)
		callers->shares[i] = sum += pow(i + 1.0, -exponent);
}

void callers_end(struct callers *callers)
{
	for (uint32_t i = 0; i < callers->count; i++) {
		free(callers->admitted[i].at_us);
		free(callers->ideal[i].at_us);
	}
	free(callers->admitted);
	free(callers->ideal);
	free(callers->shares);
}

uint32_t callers_draw(const struct callers *callers, struct random *random)
{
	if (!callers->shares)
		return (uint32_t)random_below(random, callers->count);
	double drawn = draw_unit(random) * callers->shares[callers->count - 1];
	uint32_t low = 0, high = callers->count - 1;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (callers->shares[middle] > drawn)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void callers_ask(struct callers *callers, uint32_t caller, uint64_t now_us)
{
	struct times *times = &callers->ideal[caller];

	if (times->count < callers->quota ||
		now_us - times->at_us[times->count - callers->quota] >= callers->window_us)
		add(times, now_us);
}

void callers_admit(struct callers *callers, uint32_t caller, uint64_t now_us)
{
	struct times *times = &callers->admitted[caller];

	if (times->count >= callers->quota) {
		uint64_t span_us = now_us - times->at_us[times->count - callers->quota];
		if (span_us < callers->closest_us)
			callers->closest_us = span_us;
		callers->violations += span_us + callers->slack_us < callers->window_us;
	}
	add(times, now_us);
}

double callers_unused(const struct callers *callers, const uint64_t *asked)
{
	uint64_t used = 0, ideal = 0;

	for (uint32_t i = 0; i < callers->count; i++) {
		if (asked[i] <= callers->ideal[i].count)
			continue;
		used += callers->admitted[i].count;
		ideal += callers->ideal[i].count;
	}
	return ideal > 0 ? 1 - (double)used / (double)ideal : 0;
}
