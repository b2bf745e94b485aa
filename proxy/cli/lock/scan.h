/* Values on a command line, written as in the configuration. */
#ifndef CLI_LOCK_SCAN_H
#define CLI_LOCK_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* `12`. False when it is none. */
bool cli_scan_number(const char *text, uint64_t *number);

/* `500ms`, `1h30m`. False when it is none. */
bool cli_scan_duration_ms(const char *text, uint64_t *ms);

#endif
