/*
 * [sluice] user: the user that serves, after root has opened sockets and files.
 */
#ifndef DAEMON_PRIVILEGES_H
#define DAEMON_PRIVILEGES_H

#include <stdbool.h>

struct conf;
struct daemon;

/* Changes to the user, with its groups, and warns of files that it cannot read at a reload. Without
 * `user`, or when not root, nothing changes. Returns false, with a line in the log, when the user
 * is not known or can't be changed to. Before other threads begin. */
bool privileges_drop(struct daemon *daemon, const struct conf *conf);

#endif
