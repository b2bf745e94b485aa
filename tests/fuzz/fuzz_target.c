/* Any bytes as a request-target: no fault, and the parts lie within what was given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_within(struct slice part, struct slice whole)
{
	if (part.len > 0 && part.at != NULL &&
		(part.at < whole.at || part.at + part.len > whole.at + whole.len))
		abort();
}

static void check_host(const struct http_authority *authority)
{
	char out[HTTP_HOST_BYTES];
	struct slice host = http_authority_host(authority, out);
	struct http_authority again;

	if (host.len > HTTP_HOST_BYTES)
		abort();
	for (size_t i = 0; i < host.len; i++) {
		if (host.at[i] <= ' ' || (host.at[i] >= 'A' && host.at[i] <= 'Z'))
			abort();
	}
	if (!http_authority_parse(host, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum http_method methods[] = {
		HTTP_METHOD_GET, HTTP_METHOD_OPTIONS, HTTP_METHOD_CONNECT};
	char *bytes = malloc(size > 0 ? size : 1);
	struct slice raw = {bytes, size};
	struct http_authority authority;

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	for (unsigned i = 0; i < 3; i++) {
		struct http_target target;
		if (!http_target_parse(raw, methods[i], &target))
			continue;
		if (target.path.len != 1)
			check_within(target.path, raw);
		check_within(target.query, raw);
		check_within(target.authority_text, raw);
		check_host(&target.authority);
	}
	if (http_authority_parse(raw, &authority)) {
		check_within(authority.host, raw);
		check_host(&authority);
	}
	free(bytes);
	return 0;
}
