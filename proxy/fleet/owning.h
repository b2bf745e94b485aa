/*
 * The questions of the table of owners (ownership/owners.h) to the store: locks (locks.h) of the
 * kind of sessions, whose session is the node, as `instance/name/address`.
 */
#ifndef FLEET_OWNING_H
#define FLEET_OWNING_H

#include "ownership/owners.h"
#include "loop/deadline.h"

struct worker;

extern const struct owner_store owning_store;

/* A worker's part: the first one keeps the time of the table. */
struct owning {
	struct worker *worker;
	struct deadline sweep;
};

void owning_init(struct owning *owning, struct worker *worker);
void owning_take_site(struct owning *owning);
/* Before the store is closed for good. */
void owning_leave(struct owning *owning);
void owning_end(struct owning *owning);

#endif
