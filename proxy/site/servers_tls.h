/*
 * The TLS towards a site's servers: the authorities and certificates of its configuration, read.
 *
 *   upstream's files --> first server's tls --same files--> that of each other (net/tls_client.h)
 *
 * A server whose settings and files are what they were keeps its struct tls_client over a reload,
 * and with it its connections and its session. With any other, its connections from before are not
 * used any more (upstream/server_connection.h).
 */
#ifndef SITE_SERVERS_TLS_H
#define SITE_SERVERS_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/tls_client.h"

struct conf;
struct conf_fleet;
struct conf_tls;
struct site;

/*
 * Reads the files of all upstreams. Where they are broken, the servers keep what they have in the
 * site before, and the error log says so; where one has nothing before, or `before` is NULL: false,
 * with lines in the error log.
 */
bool servers_tls_prepare(struct site *site, const struct site *before);

/* The settings of a section's TLS towards a peer of that name, with `protocol` in ALPN (NULL:
 * none). */
struct tls_client_settings servers_tls_settings(
	const struct conf_tls *tls, const char *name, const char *protocol);

/* The settings for the fleet's store, whose TLS is on: `before` where nothing has changed (see
 * tls_client_new). NULL: `why` says why. */
struct tls_client *servers_tls_of_store(
	const struct conf_fleet *conf, struct tls_client *before, char *why, size_t size);

/* The site's settings towards other nodes are in use from now on. */
void servers_tls_commit_links(const struct site *site, struct tls_client_slot *links);
/* The same, when their files may have changed. Files that can't be used leave what is in use; their
 * line is that of the listener, which has the same ones (site/certificates.h). */
void servers_tls_look_at_links(struct site *site, struct tls_client_slot *links);

/* Can all files be used? With a line on standard error for each upstream where they can't. */
bool servers_tls_check(const struct conf *conf);

#endif
