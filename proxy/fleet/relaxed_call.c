#include "fleet/relaxed_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/integers.h"

enum { FIELDS = 4 }; /* integers of a part */

static void put_key(const struct relaxed_part *part, const char *prefix, FILE *out)
{
	size_t len = strlen(prefix) + 34 + strlen(part->limit) + strlen(":relaxed");

	fprintf(out, "$%zu\r\n%s{%016" PRIx64 "%016" PRIx64 "}%s:relaxed\r\n", len, prefix,
		part->caller.hi, part->caller.lo, part->limit);
}

static size_t put_numbers(const struct relaxed_part *parts, unsigned count, uint8_t *out)
{
	size_t len = integers_head(out, FIELDS * count);

	for (unsigned i = 0; i < count; i++) {
		len += integers_put(out + len, parts[i].rule->window_us);
		len += integers_put(out + len, parts[i].rule->quantum_us);
		len += integers_put(out + len, parts[i].more);
		len += integers_put(out + len, parts[i].less);
	}
	return len;
}

bool relaxed_compose(const struct relaxed_part *parts, unsigned count, const char *prefix,
	char **command, size_t *len)
{
	uint8_t request[INTEGERS_HEAD_BYTES + INTEGERS_MOST_BYTES * FIELDS * RELAXED_AT_ONCE];
	size_t request_len = put_numbers(parts, count, request);
	char text[16];

	*command = NULL;
	FILE *out = open_memstream(command, len);
	if (!out)
		return false;
	int digits = snprintf(text, sizeof(text), "%u", count);
	fprintf(out, "*%u\r\n$5\r\nFCALL\r\n$16\r\nsluice_relaxed_1\r\n$%d\r\n%s\r\n", count + 4,
		digits, text);
	for (unsigned i = 0; i < count; i++)
		put_key(&parts[i], prefix, out);
	fprintf(out, "$%zu\r\n", request_len);
	fwrite(request, 1, request_len, out);
	fputs("\r\n", out);
	bool is_whole = !ferror(out);
	if (fclose(out) == 0 && is_whole)
		return true;
	free(*command);
	*command = NULL;
	return false;
}
