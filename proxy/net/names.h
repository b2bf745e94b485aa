/*
 * Addresses of names, by libevent's evdns on a loop's event base: /etc/resolv.conf and /etc/hosts,
 * which are read again when they have changed, and nothing waits. All of it belongs to the loop's
 * thread.
 */
#ifndef NET_NAMES_H
#define NET_NAMES_H

#include <event2/event.h>
#include <netdb.h>
#include <stdint.h>

struct names;
struct name_lookup;

/* Reads no file and opens no socket before the first look-up. NULL without memory. */
struct names *names_new(struct event_base *base);
/* A name server that has not answered for so long is asked no more, but the next one. Otherwise it
 * is 5 s, or what /etc/resolv.conf says. Before the first look-up. */
void names_set_timeout(struct names *names, uint64_t timeout_ms);
/* Other files than /etc/resolv.conf and /etc/hosts. The texts stay the caller's. Before the first
 * look-up. */
void names_set_files(struct names *names, const char *servers, const char *hosts);
/* All look-ups must have ended. NULL is ignored. */
void names_free(struct names *names);

/*
 * Looks `name` up; an address is its own. `found(ctx, why, list)` is called once, later and never
 * from within: `list` are its addresses, with port 0, until the call returns; or it is NULL, and
 * `why` says why. The look-up is over then. NULL without memory: `found` is not called.
 */
struct name_lookup *names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
/* The same for one family, AF_INET or AF_INET6. */
struct name_lookup *names_look_up_family(struct names *names, const char *name, int family,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
/* `found` is not called any more. */
void names_cancel(struct name_lookup *lookup);

#endif
