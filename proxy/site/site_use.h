/*
 * A worker's holds on a site: the site itself is counted once a worker and site, by an atomic; what
 * a worker has to do with it is counted here, by its thread alone.
 */
#ifndef SITE_SITE_USE_H
#define SITE_SITE_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "site/site.h"
#include "worker/worker.h"

/* A worker's hold on a site, counted without atomics: one for being current, one an exchange. */
struct site_use {
	struct site *site;
	struct worker *worker;
	uint64_t count;
};

/* A worker's memory of sites. */
struct site_part {
	struct site_use *use;          /* of the current site */
	struct site_use *_Atomic next; /* of one to take */
};

static inline struct site_part *site_part(const struct worker *worker)
{
	return worker->memory[PART_SITE];
}

/* Held once. NULL without memory. Any thread. */
struct site_use *site_use_new(struct worker *worker, struct site *site);
/* One that no worker took. NULL is ignored. */
void site_use_free_unused(struct site_use *use);
struct site_use *site_use_hold(struct site_use *use);
void site_use_release(struct site_use *use);

/* Hands the worker a new site, by a use that site_use_new made for it. Main thread. */
void site_use_post(struct worker *worker, struct site_use *use);

/* Takes what was posted. */
extern const struct worker_part site_use_part;

#endif
