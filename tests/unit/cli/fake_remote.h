/* The running sluice that a command asks, as a suite sets it, in place of cli/remote.h's. */
#ifndef TESTS_UNIT_CLI_FAKE_REMOTE_H
#define TESTS_UNIT_CLI_FAKE_REMOTE_H

#include "cli/remote.h"

/* NULL: one is found. */
extern int (*fake_remote_find)(const char *admin, const char *conf_path, const char *token_path);

extern enum remote_result (*fake_remote_call)(const struct remote *remote, const char *method,
	const char *path, const json_t *body, json_t **answer);

#endif
