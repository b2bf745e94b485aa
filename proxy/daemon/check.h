/*
 * Active health checks: GET health_path at each server of an upstream that has one, from the main
 * thread. Two failures in a row take a server out, one 2xx or 3xx
 * brings it back.
 */
#ifndef DAEMON_CHECK_H
#define DAEMON_CHECK_H

#include "site/site.h"

struct checks;
struct loop;

/* NULL without memory. The loop must not run when they are freed. */
struct checks *checks_new(struct loop *loop);
void checks_free(struct checks *checks);

/* Prepares the checks of the servers of `site` that are not checked yet. False without memory. What
 * was prepared is then committed or discarded. */
bool checks_prepare(struct checks *checks, struct site *site);
void checks_discard(struct checks *checks);
/* Checks the servers of this site from now on, instead of the last one's. Checks of servers that
 * both have go on as they are. */
void checks_commit(struct checks *checks, struct site *site);

#endif
