/*
 * A store in memory that runs the fleet's own function (lease.lua) in Lua 5.1, as Redis does: the
 * commands that it calls, struct and cmsgpack are implemented here, as far as it needs them.
 */
#ifndef TESTS_SIMULATION_LUA_STORE_H
#define TESTS_SIMULATION_LUA_STORE_H

#include <stddef.h>
#include <stdint.h>

struct store;

/* With the function in this file. Ends the program with a message when it cannot be loaded. */
struct store *store_new(const char *path);
void store_free(struct store *store);

/* Runs a command as a batch composes it, at this time by the store's clock. Returns the answer's
 * bytes, which stay until the next call; NULL with a line on stderr when the function failed. */
const char *store_call(
	struct store *store, const char *command, size_t len, uint64_t now_us, size_t *answer_len);

#endif
