/*
 * Time. The monotonic clock measures, the wall clock only dates things for people; the modules that
 * decide by time are passed a number and never call these themselves.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#define CLOCK_NS_PER_MS 1000000ULL
#define CLOCK_NS_PER_S  1000000000ULL

/* Sizes of the texts below, each with its NUL. */
#define CLOCK_ISO_BYTES      sizeof("2026-11-21T03:36:37.123Z")
#define CLOCK_COMBINED_BYTES sizeof("21/Nov/2026:03:36:37 +0000")

/*
 * Texts of one second, kept by the caller (one a thread) so that a date is composed once a second
 * and not once a line. All zeroes is a valid, empty cache.
 */
struct clock_cache {
	uint64_t second;
	char iso[CLOCK_ISO_BYTES];
	char combined[CLOCK_COMBINED_BYTES];
};

/* CLOCK_MONOTONIC: since an unspecified start, never backwards, not stepped by NTP. */
uint64_t clock_monotonic_ns(void);
uint64_t clock_monotonic_ms(void);

/* CLOCK_REALTIME: nanoseconds since 1970-01-01T00:00:00Z. May step. */
uint64_t clock_wall_ns(void);

/* CLOCK_BOOTTIME: as the monotonic clock, but continues while the machine is suspended. */
uint64_t clock_boot_ns(void);

/*
 * A clock that begins with the wall's time and then never steps: what limits count by. When the
 * wall clock is set meanwhile, clock_anchor_step notices, so that its users can be informed. Times
 * are passed in.
 */
struct clock_anchor {
	uint64_t offset_ns;        /* added to clock_boot_ns */
	_Atomic(int64_t) shift_ns; /* the wall clock minus this one, as last noticed */
};

void clock_anchor_init(struct clock_anchor *anchor, uint64_t boot_ns, uint64_t wall_ns);

static inline uint64_t clock_anchor_time(const struct clock_anchor *anchor, uint64_t boot_ns)
{
	return boot_ns + anchor->offset_ns;
}

/* By less than this the two may differ: they are not read at the same instant. */
#define CLOCK_STEP_NS (20 * CLOCK_NS_PER_MS)

/* Has the wall clock been set since init or the last step noticed? By how much, in ns, or 0. Of the
 * threads that ask at once, one gets true. */
int64_t clock_anchor_step(struct clock_anchor *anchor, uint64_t boot_ns, uint64_t wall_ns);

/*
 * `wall_ns` as UTC, `2026-11-21T03:36:37.123Z` (RFC 3339), milliseconds cut, not rounded. Writes
 * CLOCK_ISO_BYTES to `out`. Years after 9999 are written as 9999.
 */
void clock_format_iso(struct clock_cache *cache, uint64_t wall_ns, char out[CLOCK_ISO_BYTES]);

/* `wall_ns` in UTC as the combined log format has it, `21/Nov/2026:03:36:37 +0000`. Valid until the
 * next call. */
const char *clock_format_combined(struct clock_cache *cache, uint64_t wall_ns);

#endif
