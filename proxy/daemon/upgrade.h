/*
 * Replacing the binary without a lost connection (SIGUSR2): the new process gets the listening
 * sockets and the throttles' table of the old one, which continues until it hears that the new one
 * serves.
 *
 *   old:  serving --USR2--> starting a new one --ready--> handed over: lame duck, drain, end
 *            ^                    |
 *            '---- failed: ended, or not ready in time; the log says why
 *
 *   new:  start, with what it inherits --> serving, reports ready --> the old one has ended
 *
 * While two processes have the table, neither may change limits: reloads wait for the end of it,
 * and a new one whose file has other limits does not start. What a process counts for itself,
 * upstreams' places and paces and the sessions' order, each of the two counts for itself.
 *
 * All of it is the main thread's.
 */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include <stdbool.h>

struct daemon;
struct upgrade;

/* Starts the new process, or logs the reason why it can't. */
void upgrade_begin(struct daemon *daemon);

/* This process is to stop: one that is starting is stopped as well. */
void upgrade_cancel(struct daemon *daemon);

/* Reads from the environment the objects that another process hands over. False when that can't be
 * used: a line in the log. */
bool upgrade_inherit(struct daemon *daemon);

/* Sets the modes and weights that operators have set in the process before. Before the workers. */
void upgrade_take_servers(const struct daemon *daemon);

/* This process serves: reports to the one before, if there is one. */
void upgrade_report(struct daemon *daemon);

/* Do two processes have the table? */
bool upgrade_is_under_way(const struct daemon *daemon);

void upgrade_end(struct daemon *daemon);

#endif
