/*
 * The TLS of listeners: their certificates, read, over all sites.
 *
 *   site 1 --.                       .--take--> a connection, which holds what it took
 *   site 2 --+--> struct certificates
 *                   `-- replaced when a reload is committed, or when files have changed
 *
 * All but certificates_take is the main thread's.
 */
#ifndef SITE_CERTIFICATES_H
#define SITE_CERTIFICATES_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tls_server.h"

struct certificates;
struct conf;
struct conf_listener;
struct site;

/* From so many days before its end on, a certificate has a line in the log each day. */
#define CERTIFICATE_WARN_DAYS 21

/* Terms that all listeners have in common. */
struct certificates_terms {
	const char *const *protocols; /* the names in ALPN, ended by NULL */
	struct tls_tickets *tickets;
};

enum certificates_read {
	CERTIFICATES_READ_ALL,
	CERTIFICATES_READ_CHANGED, /* those whose options are other ones than before */
};

/*
 * Makes those of a site's listeners ready. Where a pair is broken, the listener keeps what the site
 * before has, and the error log says so; where it has nothing, or `before` is NULL: false, with
 * lines in the error log.
 */
bool certificates_prepare(struct site *site, const struct site *before,
	const struct certificates_terms *terms, enum certificates_read what);
/* New connections use the prepared certificates from now on. */
void certificates_commit(struct site *site);
void certificates_release(struct site *site);

/* The TLS for a new connection, held once. Any thread. */
struct tls_server *certificates_take(struct certificates *certificates);

/* Reads those again whose files are not those that were read last, and logs which ones end soon,
 * each once a day. */
void certificates_look(
	const struct site *site, const struct certificates_terms *terms, uint64_t now_s);

/* Calls `take` with the path of each file that they were read from. */
void certificates_each_file(const struct conf_listener *listener,
	void (*take)(void *user, const char *path), void *user);

/* Calls `take` for each pair in use. `why`: the reason why the listener's files could not be used
 * when they were read last, so that older ones are in use; NULL: they could. */
typedef void certificates_take_pair(
	void *user, const char *listener, const struct tls_pair_facts *pair, const char *why);
void certificates_each(const struct site *site, certificates_take_pair *take, void *user);

/* Can all certificates be used? With a line on standard error for each that can't. */
bool certificates_check(const struct conf *conf);

#endif
