/*
 * Request targets and authorities (RFC 9112 section 3.2, RFC 9110 sections 4.2 and 7.2, RFC 3986
 * section 3.2).
 *
 *   GET /a?b                   origin-form:    path `/a`, query `b`
 *   GET http://h:8080/a?b      absolute-form:  authority `h:8080`, path `/a`, query `b`
 *   OPTIONS *                  asterisk-form
 *   CONNECT h:443              authority-form
 *
 * All results are slices of the bytes given. Nothing is decoded here; http/path.h normalises.
 */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "http/message.h"

enum http_target_form {
	HTTP_TARGET_ORIGIN,
	HTTP_TARGET_ABSOLUTE,
	HTTP_TARGET_ASTERISK,
	HTTP_TARGET_AUTHORITY,
};

/* `host` is without brackets when it is an IPv6 literal. */
struct http_authority {
	struct slice host;
	bool is_ipv6;
	bool has_upper; /* some letter of the host is a capital */
	bool has_port;
	uint16_t port;
};

struct http_target {
	enum http_target_form form;
	bool is_https;                   /* absolute-form */
	struct slice authority_text;     /* absolute- and authority-form, as written */
	struct http_authority authority; /* the same in parts */
	struct slice path;  /* "/" for an empty absolute-form path, "*" for asterisk-form,
			       none for authority-form */
	struct slice query; /* without its '?' */
	bool has_query;     /* `/a?` has an empty one */
};

/*
 * Splits a request-target. False (answer 400) when its form does not fit the method, when the
 * scheme is neither http nor https, when there is a fragment, userinfo, a space or a control byte,
 * or when the authority is not valid. Authority-form is taken with CONNECT and nothing else is.
 */
bool http_target_parse(struct slice raw, enum http_method method, struct http_target *target);

/*
 * Splits `host[:port]`: a Host field's value or the authority of a target. False (answer 400) when
 * it has userinfo, a byte that no host has, a bad IPv6 literal (no zones), a port over 65535 or
 * more than HTTP_HOST_BYTES. Percent-encoding in a host is refused: no name in DNS has it, and
 * routes could be evaded with it. The empty text is a valid Host (RFC 9110 section 7.2) and a
 * valid result with an empty host.
 */
bool http_authority_parse(struct slice text, struct http_authority *authority);

#define HTTP_HOST_BYTES 255

/*
 * The host as routes are matched by: lower case, without port and one trailing dot; IPv6 in
 * brackets in its shortest form (RFC 5952). Writes to `out` and returns the slice of it. `out` is
 * not written to if the host already has that form (the slice is then of the request's bytes).
 */
struct slice http_authority_host(
	const struct http_authority *authority, char out[static HTTP_HOST_BYTES]);

#endif
