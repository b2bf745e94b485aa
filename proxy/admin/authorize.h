/* The permissions of callers: tokens, signatures of publishers, and the pages of browsers. */
#ifndef ADMIN_AUTHORIZE_H
#define ADMIN_AUTHORIZE_H

#include <stdbool.h>

#include "admin/request.h"

struct admin_services;

/* May this request call an endpoint that needs this role? Else it is answered: 401 or 403. On the
 * thread of the connection's daemon; waits for the main thread where a publisher's signature is
 * verified. */
bool admin_authorize(const struct admin_services *services, struct admin_request *request,
	enum admin_role needed);

/* ---- browser -------------------------------------------------------------------------------- */

/*
 * Requests that a web page may have made a browser send: of an interface without tokens, being able
 * to connect is the only credential, and the browser of the operator can connect, too.
 */

/*
 * May a page from elsewhere be behind a request with these fields (NULL: absent)? Its Origin or
 * Sec-Fetch-Site shows it, or its Host is a name other than localhost, which any site may resolve
 * to this address. Programs send no such thing when they are given an address or localhost. With
 * `is_https` any name will do: a browser shows no page of a site whose certificate is another's.
 */
bool admin_is_from_elsewhere(
	const char *host, const char *origin, const char *fetch_site, bool is_https);

#endif
