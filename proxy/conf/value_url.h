/*
 * `scheme://user:password@host:port/path`, as a store's or broker's URL is written. No message
 * repeats what was written: it may be a password.
 */
#ifndef CONF_VALUE_URL_H
#define CONF_VALUE_URL_H

#include "conf/value.h"

struct value_url {
	const char *user, *password; /* percent-decoded; NULL: none; a user may be without one */
	struct conf_address address; /* INET or NAME */
	bool has_path;               /* a '/' follows the host */
	struct slice path;           /* what is behind that '/', as written */
};

/* Reads `text`, which begins with `scheme` ("redis://"); `port` is that of a host without one.
 * False when it is wrong and the error was added. Texts belong to the arena. */
bool value_read_url(struct value *value, struct slice text, struct slice scheme, unsigned port,
	struct value_url *url);

/* A part of a URL, percent-decoded (RFC 3986 section 2.1), in the arena; NULL when it is none or is
 * longer than 512 bytes. */
const char *value_decode_url(struct value *value, struct slice text);

#endif
