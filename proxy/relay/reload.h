/*
 * A reload (SIGHUP): the file is read and checked anew; when all of it is good, listeners,
 * throttles and routes become the new ones, else nothing changes and the log says file:line.
 * What was admitted goes on counting; exchanges under way finish by what they began with.
 */
#ifndef RELAY_RELOAD_H
#define RELAY_RELOAD_H

#include <stdbool.h>

#include "conf/conf.h"

struct relay;
struct worker;

void relay_reload(struct relay *relay);

/* The warnings of a file that is taken, to the error log. */
void relay_tell_warnings(const struct conf *conf);

/* The worker has taken the site of the last reload: it is in no call that began before. */
void reload_seen(struct worker *worker);

/* Frees what the limits of before left, once all workers have seen the last reload. Main thread. */
void reload_collect(struct relay *relay);

/* The table of the throttles, in conf's state folder or in memory. False with a line in the log. */
bool relay_open_throttles(struct relay *relay, const struct conf *conf);
void relay_close_throttles(struct relay *relay);

#endif
