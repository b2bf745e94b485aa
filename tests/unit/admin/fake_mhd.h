/* A request and the main thread, as a suite sets them, in place of libmicrohttpd's and
 * admin/ask.h's. */
#ifndef TESTS_UNIT_ADMIN_FAKE_MHD_H
#define TESTS_UNIT_ADMIN_FAKE_MHD_H

#include <microhttpd.h>
#include <stdbool.h>

/* NULL: there are none. */
extern const char *(*fake_mhd_field)(const char *name);

/* `name`, value, ... of the query, which NULL ends. NULL: there is none. */
extern const char *const *fake_mhd_arguments;

extern bool fake_mhd_over_unix; /* it came over a unix socket */

/* asker_run. */
extern bool (*fake_asker_run)(void (*run)(void *ctx), void *ctx);

#endif
