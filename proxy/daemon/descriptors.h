/*
 * How a process's descriptors are divided among clients, servers and files.
 */
#ifndef DAEMON_DESCRIPTORS_H
#define DAEMON_DESCRIPTORS_H

struct conf;
struct daemon;

/* Raises RLIMIT_NOFILE to what is allowed, and sets how many clients and files there may be. Warns
 * of listeners whose max_connections is more than that. Before workers begin. */
void descriptors_divide(struct daemon *daemon, const struct conf *conf);

#endif
