/* The time that a test sets in place of CLOCK_BOOTTIME, in programs linked with
 * $(fake_clock_wraps). */
#ifndef TESTS_UNIT_BASE_FAKE_CLOCK_H
#define TESTS_UNIT_BASE_FAKE_CLOCK_H

#include <stdint.h>

/* Returns the time; NULL: clock_boot_ns reads the clock. */
extern uint64_t (*fake_clock_boot_ns)(void);

#endif
