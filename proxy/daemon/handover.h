/*
 * The objects that a process hands to its successor (daemon/upgrade.h): a text in memory that the
 * new one inherits, with the descriptors that it names.
 *
 *   sluice 1
 *   channel 9                           where the new one reports
 *   clock 1700000000000000000           what the throttles' clock is ahead of CLOCK_BOOTTIME, ns
 *   table 12                            the throttles' memory; or `folder PATH`
 *   socket 14 listener 0.0.0.0:80       listening; several of one name belong to it together
 *   socket 15 admin unix:/run/sluice/admin.sock
 *   tickets 1234 00112233...            the keys of TLS tickets (net/tls_tickets.h)
 *   server 2 0 legacy 10.0.0.5:8080     what an operator has said of it: mode and weight
 *   end
 */
#ifndef DAEMON_HANDOVER_H
#define DAEMON_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/tls_tickets.h"

struct handed_socket {
	char *name; /* `listener ADDRESS`, `admin ADDRESS` */
	int fd;
	bool is_taken;
};

struct handed_server {
	unsigned mode, weight; /* as in its server_state */
	char *upstream, *address;
};

struct handover {
	int channel;
	uint64_t clock_offset_ns;
	int table;                      /* -1: it is in a folder */
	char *folder;                   /* NULL: it is in memory */
	char tickets[TLS_TICKETS_TEXT]; /* "": none */
	struct handed_socket *sockets;
	size_t count;
	struct handed_server *servers; /* those with settings of an operator */
	size_t server_count;
};

/* Empty, with no descriptors. NULL without memory. */
struct handover *handover_new(void);
/* Descriptors stay open. NULL is ignored. */
void handover_free(struct handover *handover);

/* False without memory. The descriptor stays the caller's. */
bool handover_add_socket(struct handover *handover, const char *kind, const char *text, int fd);

/* False without memory. */
bool handover_add_server(struct handover *handover, unsigned mode, unsigned weight,
	const char *upstream, const char *address);

/* Writes the text to `fd`, from its beginning. 0 or errno. */
int handover_write(const struct handover *handover, int fd);

/* Reads it, and looks whether all descriptors are what they should be. NULL with a sentence in
 * `why`. */
struct handover *handover_read(int fd, char *why, size_t size);

/* Is there a socket of that name that was not taken? NULL has none. */
bool handover_has(const struct handover *handover, const char *kind, const char *text);

/* The next such socket, which is the caller's from then on and is closed by an exec; -1: none. */
int handover_take(struct handover *handover, const char *kind, const char *text);

/* Closes the sockets that were not taken over, so that no client waits in them. */
void handover_close_rest(struct handover *handover);

#endif
