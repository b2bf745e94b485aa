/* See scan.h. conf/value.h and getopt.h each have a `struct option`. */
#include "cli/lock/scan.h"

#include "conf/value.h"

bool cli_scan_number(const char *text, uint64_t *number)
{
	return scan_digits(slice_of(text), number);
}

bool cli_scan_duration_ms(const char *text, uint64_t *ms)
{
	return scan_duration_ms(slice_of(text), ms);
}
