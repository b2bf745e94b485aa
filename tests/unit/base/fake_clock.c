#include "fake_clock.h"

#include <stddef.h>

uint64_t (*fake_clock_boot_ns)(void);

uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void);

uint64_t __wrap_clock_boot_ns(void)
{
	return fake_clock_boot_ns != NULL ? fake_clock_boot_ns() : __real_clock_boot_ns();
}
