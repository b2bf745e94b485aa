/*
 * Methods: those of RFC 9110, those of IANA's registry, and any other token. All are forwarded; a
 * route's list of methods restricts them. sluice knows of a method whether it is safe and whether
 * it may be repeated; it takes neither of one that is not in RFC 9110.
 */
#ifndef HTTP_METHOD_H
#define HTTP_METHOD_H

#include <stdbool.h>

#include "base/slice.h"

enum http_method {
	HTTP_METHOD_GET,
	HTTP_METHOD_HEAD,
	HTTP_METHOD_POST,
	HTTP_METHOD_PUT,
	HTTP_METHOD_DELETE,
	HTTP_METHOD_CONNECT,
	HTTP_METHOD_OPTIONS,
	HTTP_METHOD_TRACE,
	HTTP_METHOD_PATCH, /* up to here llhttp reads the name, too */
	HTTP_METHOD_ACL,
	HTTP_METHOD_BASELINE_CONTROL,
	HTTP_METHOD_BIND,
	HTTP_METHOD_CHECKIN,
	HTTP_METHOD_CHECKOUT,
	HTTP_METHOD_COPY,
	HTTP_METHOD_LABEL,
	HTTP_METHOD_LINK,
	HTTP_METHOD_LOCK,
	HTTP_METHOD_MERGE,
	HTTP_METHOD_MKACTIVITY,
	HTTP_METHOD_MKCALENDAR,
	HTTP_METHOD_MKCOL,
	HTTP_METHOD_MKREDIRECTREF,
	HTTP_METHOD_MKWORKSPACE,
	HTTP_METHOD_MOVE,
	HTTP_METHOD_ORDERPATCH,
	HTTP_METHOD_PROPFIND,
	HTTP_METHOD_PROPPATCH,
	HTTP_METHOD_PURGE, /* not registered, but what caches listen to */
	HTTP_METHOD_QUERY,
	HTTP_METHOD_REBIND,
	HTTP_METHOD_REPORT,
	HTTP_METHOD_SEARCH,
	HTTP_METHOD_UNBIND,
	HTTP_METHOD_UNCHECKOUT,
	HTTP_METHOD_UNLINK,
	HTTP_METHOD_UNLOCK,
	HTTP_METHOD_UPDATE,
	HTTP_METHOD_UPDATEREDIRECTREF,
	HTTP_METHOD_VERSION_CONTROL,
	HTTP_METHOD_OTHER, /* any other token: it has no name here, so no route can list it */
	HTTP_METHODS,
};

_Static_assert(HTTP_METHODS <= 64, "methods are bits of a route's mask");

/* A longer method is not supported (501). */
#define HTTP_METHOD_LONGEST 64

/* Routes without a list of methods serve these, and more (Allow). */
#define HTTP_METHODS_USUAL                                                                         \
	((UINT64_C(1) << HTTP_METHOD_GET) | (UINT64_C(1) << HTTP_METHOD_HEAD) |                    \
		(UINT64_C(1) << HTTP_METHOD_POST) | (UINT64_C(1) << HTTP_METHOD_PUT) |             \
		(UINT64_C(1) << HTTP_METHOD_DELETE) | (UINT64_C(1) << HTTP_METHOD_OPTIONS) |       \
		(UINT64_C(1) << HTTP_METHOD_PATCH))

/* Its name; NULL for HTTP_METHOD_OTHER. */
const char *http_method_name(enum http_method method);

/* The method of this name; HTTP_METHOD_OTHER for one that is not in the table. Compared with case
 * (RFC 9110 section 9.1). */
enum http_method http_method_of(struct slice name);

/* Would this be a name of the table but for its case? Some servers take `post` for POST, so that
 * it must not pass a route that lists POST. */
bool http_method_is_misspelt(struct slice name);

/* RFC 9110 section 9.2.1 and 9.2.2. */
static inline bool http_method_is_safe(enum http_method method)
{
	return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ||
	       method == HTTP_METHOD_OPTIONS || method == HTTP_METHOD_TRACE;
}

static inline bool http_method_is_idempotent(enum http_method method)
{
	return http_method_is_safe(method) || method == HTTP_METHOD_PUT ||
	       method == HTTP_METHOD_DELETE;
}

#endif
