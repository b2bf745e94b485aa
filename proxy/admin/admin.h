/*
 * The operator's interface: an HTTP API, metrics and health, on sockets of its own.
 *
 *   operator --HTTP--> libmicrohttpd's thread --message--> main thread: runs the handler
 *                                  ^                                          |
 *                                  '------------- response -------------------'
 *
 * Handlers that look at configuration, limits or upstreams run on the main thread, which owns
 * these, so a reload never happens under them; a slow operator holds up no request.
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <stdbool.h>

struct admin;
struct conf;
struct handover;
struct daemon;

/* Opens the sockets of [admin] in `conf`, or takes them from `inherited` (NULL: none is), before
 * privileges are dropped. `*admin` is NULL when
 * there is no [admin]. False with lines in the error log; nothing is held then. */
bool admin_open(const struct conf *conf, struct handover *inherited, struct admin **admin);

/* Serves on them; nothing may fail after it, as socket files are then removed at the end. The
 * daemon's main loop must turn until admin_close. False with a line in the
 * error log. NULL is ignored. */
bool admin_start(struct admin *admin, struct daemon *daemon);

/* Adds the listening sockets, for an upgrade. False without memory. NULL has none. */
bool admin_give(const struct admin *admin, struct handover *to);
/* Another process answers at the address from now on; requests that have come are answered here. */
void admin_hand_over(struct admin *admin, const char *address);

/* Stops serving, answers 503 to requests that wait for the main thread, and frees `admin`. On the
 * main thread. NULL is ignored. */
void admin_close(struct admin *admin);

#endif
