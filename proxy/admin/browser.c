#include "admin/browser.h"

#include <string.h>
#include <strings.h>

#include "http/forwarded.h"
#include "http/target.h"

/* An address, localhost or a name below it. */
static bool is_of_this_machine(struct slice host)
{
	static const struct slice local = {"localhost", 9};
	uint8_t address[16];

	if (host.len > 2 && host.at[0] == '[')
		host = (struct slice){host.at + 1, host.len - 2};
	if (forwarded_address_parse(host, address) || slice_equal(host, local))
		return true;
	return host.len > local.len && host.at[host.len - local.len - 1] == '.' &&
	       memcmp(host.at + host.len - local.len, local.at, local.len) == 0;
}

static bool is_same_origin(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");

	return at && strcasecmp(at + 3, host) == 0;
}

bool admin_is_from_elsewhere(
	const char *host, const char *origin, const char *fetch_site, bool is_https)
{
	struct http_authority authority;
	char text[HTTP_HOST_BYTES];

	if (fetch_site && strcmp(fetch_site, "same-origin") != 0 && strcmp(fetch_site, "none") != 0)
		return true;
	if (origin && (!host || !is_same_origin(origin, host)))
		return true;
	if (!host || !*host || is_https)
		return false;
	return !http_authority_parse(slice_of(host), &authority) ||
	       !is_of_this_machine(http_authority_host(&authority, text));
}
