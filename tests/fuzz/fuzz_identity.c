/* Any bytes as what keys are taken from: no fault, the same twice, and what identity_text finds is
 * found again by identity_hash_text. The first line is the query, the others are fields. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_head.h"
#include "gate/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct key_part parts[] = {
	{.kind = KEY_HEADER, .name = "x-api-key", .name_len = 9},
	{.kind = KEY_COOKIE, .name = "sid", .name_len = 3},
	{.kind = KEY_QUERY, .name = "key", .name_len = 3},
	{.kind = KEY_PATH},
	{.kind = KEY_IP_PREFIX, .prefix = 61},
};

static void check_key(const struct conf_key *key, struct identity_input *input)
{
	const struct throttle_seed seed = {1, 2};
	struct throttle_key first = identity_hash(key, input, &seed);
	struct throttle_key second = identity_hash(key, input, &seed);
	char scratch[IDENTITY_TEXT_BYTES];
	struct slice text = identity_text(key, input, scratch);

	if (first.hi != second.hi || first.lo != second.lo)
		abort();
	if (text.len > 0 && identity_hash_text(key, text, &seed, &second) &&
		!slice_equal(text, SLICE("::")) && key->alternative_count == 1 &&
		key->alternatives[0].parts[0].kind == KEY_QUERY &&
		!memchr(text.at, ':', text.len) && !memchr(text.at, '.', text.len) &&
		(first.hi != second.hi || first.lo != second.lo))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = malloc(size > 0 ? size : 1);
	struct identity_input input = {
		.host = SLICE("h"), .path = SLICE("/"), .method = SLICE("GET")};
	struct http_head head;

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	const char *newline = memchr(bytes, '\n', size);
	size_t query_len = newline ? (size_t)(newline - bytes) : size;
	size_t skip = newline ? query_len + 1 : query_len;
	input.query = (struct slice){bytes, query_len};
	fuzz_head(&head, (struct slice){bytes + skip, size - skip});
	input.head = &head;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct key_alternative alone = {&parts[i], 1}, rest = {&parts[i], 5 - i};
		struct conf_key key = {"alone", &alone, 1}, joined = {"rest", &rest, 1};
		check_key(&key, &input);
		check_key(&joined, &input);
	}
	free(bytes);
	return 0;
}
