/*
 * Which idle connection is closed where no place is free for a new one (listen/give_way.h): the one
 * that has been idle longest. Of the IDLE_LOOK that have been so longest, it is the oldest of the
 * address that has most of them: who opens many loses their own.
 */
#ifndef HTTP1_IDLE_H
#define HTTP1_IDLE_H

struct connection_bound;
struct idle_link;
struct worker;

#define IDLE_LOOK 16

/* One of this worker's connections that have a place of the bound. NULL: none is idle. */
struct idle_link *idle_find(struct worker *worker, const struct connection_bound *bound);

void idle_close(struct idle_link *link);

#endif
