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
struct server_finding;
struct stream_loop;
struct upstream_state;

/* Whose probes they are, where nodes share them (health_shared; probers.h). */
struct check_sharing {
	/* Is the server this node's to probe now? Asked before a probe, and before what came of one
	 * counts. */
	bool (*is_mine)(void *ctx, const struct server *server);
	/* A probe has ended, and the server's finding has the result. `is_news`: it is the first
	 * one, or the server has come or gone by it. */
	void (*probed)(void *ctx, const struct server *server, bool is_news);
	void *ctx;
};

/* NULL without memory. The loop must not run when they are freed. */
struct checks *checks_new(struct loop *loop);
void checks_free(struct checks *checks);
/* The streams of its probes, for others on its loop. */
struct stream_loop *checks_streams(struct checks *checks);

/* From now on all servers are this node's to probe for which this says so. `sharing` stays until
 * NULL takes its place: all are, then. */
void checks_share(struct checks *checks, const struct check_sharing *sharing);
/* Probes the upstream's servers now, as far as no probe is under way and they are this node's. */
void checks_hurry(struct checks *checks, const struct upstream_state *upstream);
/* Another node's result for a server; it is known. */
void checks_take(struct server *server, const struct server_finding *finding);

/* Prepares the checks of the servers of `site` that are not checked yet. False without memory. The
 * prepared changes are then committed or discarded. */
bool checks_prepare(struct checks *checks, struct site *site);
void checks_discard(struct checks *checks);
/* Checks the servers of this site from now on, instead of the last one's. Checks of servers that
 * both have continue unchanged, unless they ask something else now: those begin again. */
void checks_commit(struct checks *checks, struct site *site);

#endif
