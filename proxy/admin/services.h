/* The objects that the requests to the admin API share. One for all daemons of libmicrohttpd; it is
 * set before they are started. */
#ifndef ADMIN_SERVICES_H
#define ADMIN_SERVICES_H

struct admin_tokens;
struct asker;
struct background;
struct events;
struct fleet_calls;
struct pending;
struct daemon;
struct socket_calls;

struct admin_services {
	struct daemon *daemon;
	struct asker *asker;
	struct background *background;
	struct events *events;
	struct pending *pending;
	struct fleet_calls *fleet_calls;   /* NULL: built without a store */
	struct socket_calls *socket_calls; /* NULL: built without WebSockets */
	struct admin_tokens *tokens;       /* NULL: no token is needed */
};

#endif
