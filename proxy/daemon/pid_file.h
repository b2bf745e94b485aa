/*
 * The pid file. During an upgrade the old process's is PATH.oldbin, as with nginx, so that the new
 * one's can be PATH; if the new one fails it becomes PATH again.
 */
#ifndef DAEMON_PID_FILE_H
#define DAEMON_PID_FILE_H

#include <stdbool.h>

struct conf;
struct daemon;

/* Writes the file that `conf` names, if it does. False with a line in the log. */
bool pid_file_write(const struct conf *conf);

void pid_file_put_aside(struct daemon *daemon);
void pid_file_take_back(struct daemon *daemon);

/* Removes what is this process's. */
void pid_file_remove(struct daemon *daemon);

/* ---- privileges ----------------------------------------------------------------------------- */

/*
 * [sluice] user: the user that serves, after root has opened sockets and files.
 */

/* Changes to the user, with its groups, and warns of files that it cannot read at a reload. Without
 * `user`, or when not root, nothing changes. Returns false, with a line in the log, when the user
 * is not known or can't be changed to. Before other threads begin. */
bool privileges_drop(struct daemon *daemon, const struct conf *conf);

/* ---- descriptors ---------------------------------------------------------------------------- */

/*
 * How a process's descriptors are divided among clients, servers and files.
 */

/* Raises RLIMIT_NOFILE to what is allowed, and sets how many clients and files there may be. Warns
 * of listeners whose max_connections is more than that. Before workers begin. */
void descriptors_divide(struct daemon *daemon, const struct conf *conf);

#endif
