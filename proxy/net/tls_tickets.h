/*
 * The keys of session tickets (RFC 5077, RFC 8446 section 4.6.1), of all workers and listeners.
 *
 *   of this process:  chain of an epoch --HKDF--> its key
 *                            `-----------HKDF--> chain of the next epoch, which replaces it
 *   of a fleet:       secret --HKDF with the epoch--> its key
 *
 * An epoch lasts as long as a ticket. Tickets are made by the key of the present epoch, and those
 * of the one before are taken too. Keys of a process that are older can't be made again; those of a
 * fleet are the same on all nodes, whose clocks may differ by an epoch.
 */
#ifndef NET_TLS_TICKETS_H
#define NET_TLS_TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ssl_ctx_st;
struct tls_tickets;

#define TLS_TICKET_S (12 * 3600)

struct tls_ticket_key {
	unsigned char name[16], cipher[32], mac[32];
};

/* With a random chain; NULL without memory or randomness. Lives longer than what uses it. */
struct tls_tickets *tls_tickets_new(uint64_t now_s);
void tls_tickets_free(struct tls_tickets *tickets);

/* The secret of a fleet; 0 bytes: there is none. Any thread, as all below. */
void tls_tickets_set_secret(struct tls_tickets *tickets, const void *secret, size_t len);

/* The process's chain as a text, for the process that follows it, and taken there. False: it is no
 * such text. */
#define TLS_TICKETS_TEXT 96
void tls_tickets_write(struct tls_tickets *tickets, char out[static TLS_TICKETS_TEXT]);
bool tls_tickets_read(struct tls_tickets *tickets, const char *text);

/* Has the context make and take tickets by these keys. */
void tls_tickets_use(struct tls_tickets *tickets, struct ssl_ctx_st *context);

/* The key to make a ticket by (`name` is NULL), or to take one by its key's name. False: there is
 * none. `is_old`: the client should get another ticket. */
bool tls_tickets_find(struct tls_tickets *tickets, uint64_t now_s, const unsigned char *name,
	struct tls_ticket_key *key, bool *is_old);

#endif
