/*
 * The results that the prober of an upstream publishes (probing.h): the value of its lock, as text.
 * Pure.
 *
 *   1 FENCE NUMBER LEASE
 *   STATE SINCE CHECKED ADDRESSES LENGTH LENGTH ADDRESS SAW      a line for each server
 *
 * Times are how long ago it was when this was written, in milliseconds, as nodes' clocks differ.
 * The fence is the prober's: what another fence published is not of the lock's holder.
 */
#ifndef FLEET_FINDINGS_H
#define FLEET_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct findings_head {
	uint64_t fence;    /* of the prober's lock */
	uint64_t number;   /* grows with each publication by the fence */
	uint64_t lease_ms; /* that publishing renewed the lock by */
};

struct findings_line {
	bool is_known; /* the prober has probed it; else is_up and the times mean nothing */
	bool is_up;
	uint64_t since_ago_ms, checked_ago_ms;
	uint64_t addresses_id; /* server_addresses_sum */
	struct slice address;  /* as the configuration has it */
	struct slice saw;
};

/* Memory of the caller's that it is written to. */
struct findings_writer {
	char *at;
	size_t size, len;
};

/* Begins again. False: no room. */
bool findings_begin(struct findings_writer *writer, const struct findings_head *head);
/* Adds a server. False: no room; nothing of it was written. */
bool findings_add(struct findings_writer *writer, const struct findings_line *line);

/* What is left of a text, which stays its owner's. */
struct findings_reader {
	const char *at, *end;
};

/* False: this is no such text, or one of another version. */
bool findings_read_head(
	struct findings_reader *reader, const char *text, size_t len, struct findings_head *head);
/* The next server; its slices point into the text. False: there is none, or what is left is no
 * server. */
bool findings_read_line(struct findings_reader *reader, struct findings_line *line);

#endif
