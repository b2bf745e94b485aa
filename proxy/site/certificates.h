/*
 * The TLS of a site's listeners: the certificates of its configuration, read.
 */
#ifndef SITE_CERTIFICATES_H
#define SITE_CERTIFICATES_H

#include <stdbool.h>

struct conf;
struct site;

/*
 * Reads the certificates of all listeners. `protocols` are the names in ALPN, ended by NULL. Where
 * a pair is broken, the listener keeps that of the site before, and the error log says so; where
 * it has none before, or `before` is NULL: false, with lines in the error log.
 */
bool certificates_prepare(
	struct site *site, const struct site *before, const char *const *protocols);

/* Can all certificates be used? With a line on standard error for each that can't. */
bool certificates_check(const struct conf *conf);

void certificates_release(struct site *site);

#endif
