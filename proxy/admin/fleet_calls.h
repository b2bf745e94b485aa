/*
 * Requests about callers of limits that the fleet's store judges: they are answered when the store
 * has answered (fleet/inquiry.h, admin/background.h).
 *
 *   main thread: fleet_calls_begin --> first worker --> store --> respond, main thread
 */
#ifndef ADMIN_FLEET_CALLS_H
#define ADMIN_FLEET_CALLS_H

#include "fleet/inquiry.h"

/* Requests under way at once; further ones get 503. */
#define FLEET_CALLS 64

struct admin_request;
struct fleet_calls;
struct pending;
struct daemon;
struct site;

struct fleet_call {
	struct inquiry inquiry; /* the handler sets what is the asker's, but `done` */
	struct site *site;      /* a hold on the site that it began under */
	struct admin_request *request;
	/* Makes the response, if the store has answered. Main thread. */
	void (*respond)(struct fleet_call *call);
	void *more; /* the handler's; freed with the call */
	struct fleet_call *prev, *next;
	struct fleet_calls *all;
};

/* NULL without memory. Main thread, as all of it. */
struct fleet_calls *fleet_calls_new(struct daemon *daemon, struct pending *pending);
/* The workers have ended, and all requests are answered. NULL is ignored. */
void fleet_calls_free(struct fleet_calls *calls);

/* A call that asks nothing yet; NULL: it was refused, and the request has its answer. */
struct fleet_call *fleet_calls_add(
	struct admin_request *request, void (*respond)(struct fleet_call *call));
/* The request waits from now on. */
void fleet_calls_begin(struct fleet_call *call);
/* Takes back one that has not begun. */
void fleet_calls_drop(struct fleet_call *call);

#endif
