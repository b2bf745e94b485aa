/* Any bytes as a header of the PROXY protocol: no fault, no read beyond what is there, every part
 * of a header may still be one, and what follows one changes nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/proxy_header.h"
#include "net/tls_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum proxy_header_result read_copy(const uint8_t *data, size_t size, size_t *len)
{
	struct proxy_header header;
	struct tls_facts facts;
	bool is_begun;
	const char *why;
	/* Exactly as large as it is, so that the sanitizer sees a read beyond. */
	char *bytes = malloc(size > 0 ? size : 1);

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	enum proxy_header_result result =
		proxy_header_read((struct slice){bytes, size}, &header, &is_begun, &why);
	if (result == PROXY_HEADER_BAD && !is_begun)
		abort();
	*len = result == PROXY_HEADER_WHOLE ? header.len : 0;
	if (*len > size || (result == PROXY_HEADER_WHOLE && *len == 0))
		abort();
	if (result == PROXY_HEADER_WHOLE && tls_facts_report(&facts, &header)) {
		if (!tls_facts_identify(&facts))
			abort();
		tls_facts_clear(&facts);
	}
	free(bytes);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len, other;

	if (read_copy(data, size, &len) != PROXY_HEADER_WHOLE)
		return 0;
	if (read_copy(data, len, &other) != PROXY_HEADER_WHOLE || other != len)
		abort();
	for (size_t cut = 0; cut < len; cut += 1 + len / 64) {
		if (read_copy(data, cut, &other) != PROXY_HEADER_MORE)
			abort();
	}
	return 0;
}
