/*
 * Opening and closing of listening sockets (listen/listener.h), which a reload and an upgrade
 * prepare before they commit. All of it is the main thread's.
 */
#ifndef DAEMON_BINDING_H
#define DAEMON_BINDING_H

#include <stdbool.h>

struct conf;
struct conf_address;
struct handover;
struct daemon;

/* What can be done where an address can't be listened at, for the end of that message: "; ...", or
 * "". Constant. */
const char *binding_advice(const struct conf_address *address, int error);

/* Does no process listen on any of these addresses? Otherwise the error log names the address. To
 * be asked before bindings_prepare, which shares an address with all that share it. */
bool bindings_are_free(const struct conf *conf, const struct handover *inherited);

/* Opens the sockets of all listeners of `conf` that are not open yet, for bindings_commit or
 * bindings_discard. False, with all that failed in the error log, and what was opened here closed
 * again. */
bool bindings_prepare(struct daemon *daemon, const struct conf *conf);
void bindings_discard(struct daemon *daemon);
/* Shows what was prepared to the workers, and closes what `conf` no longer has. */
void bindings_commit(struct daemon *daemon, const struct conf *conf);
/* Frees those that are closed and that no worker's connections are of any more. */
void bindings_collect(struct daemon *daemon);
void bindings_free(struct daemon *daemon);

/* Adds the listening sockets there are. False without memory. */
bool bindings_give(struct daemon *daemon, struct handover *to);
/* Another process has taken those of the address. WORKER_HAND_OVER is to follow. */
void bindings_hand_over(struct daemon *daemon, const char *address);

/* The process before will not come back: socket files that it had are removed with ours. */
void bindings_take_over(struct daemon *daemon);

/* Removes the socket files of `unix:` bindings, so that no new client can connect: a drain begins.
 */
void bindings_remove_paths(struct daemon *daemon);

#endif
