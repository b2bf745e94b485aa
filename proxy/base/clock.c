#include "base/clock.h"

#include <string.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec now;

	/* Both clocks exist on every system that has threads: nothing to report. */
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_monotonic_ms(void)
{
	return read_ns(CLOCK_MONOTONIC) / CLOCK_NS_PER_MS;
}

uint64_t clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

uint64_t clock_boot_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

void clock_anchor_init(struct clock_anchor *anchor, uint64_t boot_ns, uint64_t wall_ns)
{
	anchor->offset_ns = wall_ns - boot_ns;
	atomic_init(&anchor->shift_ns, 0);
}

int64_t clock_anchor_step(struct clock_anchor *anchor, uint64_t boot_ns, uint64_t wall_ns)
{
	/* relaxed, both: the number is all there is */
	int64_t before = atomic_load_explicit(&anchor->shift_ns, memory_order_relaxed);
	int64_t shift = (int64_t)(wall_ns - clock_anchor_time(anchor, boot_ns));
	int64_t step = shift - before;

	if (step > -(int64_t)CLOCK_STEP_NS && step < (int64_t)CLOCK_STEP_NS)
		return 0;
	if (!atomic_compare_exchange_strong_explicit(
		    &anchor->shift_ns, &before, shift, memory_order_relaxed, memory_order_relaxed))
		return 0;
	return step;
}

static char *put_digits(char *at, unsigned value, unsigned width)
{
	for (unsigned i = width; i > 0; i--) {
		at[i - 1] = (char)('0' + value % 10);
		value /= 10;
	}
	return at + width;
}

static char *put_time(char *at, const struct tm *utc)
{
	at = put_digits(at, (unsigned)utc->tm_hour, 2);
	*at++ = ':';
	at = put_digits(at, (unsigned)utc->tm_min, 2);
	*at++ = ':';
	return put_digits(at, (unsigned)utc->tm_sec, 2);
}

static void cache_fill(struct clock_cache *cache, uint64_t second)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t when = (time_t)second;
	struct tm utc;

	/* A year of more than four digits would not fit; nothing real is dated then. */
	if (!gmtime_r(&when, &utc) || utc.tm_year > 9999 - 1900) {
		utc = (struct tm){.tm_year = 9999 - 1900,
			.tm_mon = 11,
			.tm_mday = 31,
			.tm_hour = 23,
			.tm_min = 59,
			.tm_sec = 59};
	}
	unsigned year = (unsigned)utc.tm_year + 1900;

	char *at = put_digits(cache->iso, year, 4);
	*at++ = '-';
	at = put_digits(at, (unsigned)utc.tm_mon + 1, 2);
	*at++ = '-';
	at = put_digits(at, (unsigned)utc.tm_mday, 2);
	*at++ = 'T';
	at = put_time(at, &utc);
	memcpy(at, ".000Z", sizeof(".000Z"));

	at = put_digits(cache->combined, (unsigned)utc.tm_mday, 2);
	*at++ = '/';
	memcpy(at, months + 3 * utc.tm_mon, 3);
	at += 3;
	*at++ = '/';
	at = put_digits(at, year, 4);
	*at++ = ':';
	at = put_time(at, &utc);
	memcpy(at, " +0000", sizeof(" +0000"));
	cache->second = second;
}

static void cache_refresh(struct clock_cache *cache, uint64_t wall_ns)
{
	uint64_t second = wall_ns / CLOCK_NS_PER_S;

	if (cache->second != second || cache->iso[0] == '\0')
		cache_fill(cache, second);
}

void clock_format_iso(struct clock_cache *cache, uint64_t wall_ns, char out[CLOCK_ISO_BYTES])
{
	cache_refresh(cache, wall_ns);
	memcpy(out, cache->iso, CLOCK_ISO_BYTES);
	put_digits(out + sizeof("2026-11-21T03:36:37.") - 1,
		(unsigned)(wall_ns % CLOCK_NS_PER_S / CLOCK_NS_PER_MS), 3);
}

const char *clock_format_combined(struct clock_cache *cache, uint64_t wall_ns)
{
	cache_refresh(cache, wall_ns);
	return cache->combined;
}
