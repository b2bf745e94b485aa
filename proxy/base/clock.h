/*
 * Time. The monotonic clock measures, the wall clock only dates things for people; the modules that
 * decide by time are passed a number and never call these themselves.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

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

/*
 * `wall_ns` as UTC, `2026-11-21T03:36:37.123Z` (RFC 3339), milliseconds cut, not rounded. Writes
 * CLOCK_ISO_BYTES to `out`. Years after 9999 are written as 9999.
 */
void clock_format_iso(struct clock_cache *cache, uint64_t wall_ns, char out[CLOCK_ISO_BYTES]);

/* `wall_ns` in UTC as the combined log format has it, `21/Nov/2026:03:36:37 +0000`. Valid until the
 * next call. */
const char *clock_format_combined(struct clock_cache *cache, uint64_t wall_ns);

#endif
