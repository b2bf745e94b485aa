/* Any bytes as a path: no fault, and the normal form is normal, stable and without dot segments. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_segments(struct slice path)
{
	const char *end = path.at + path.len;

	for (const char *at = path.at; at < end;) {
		const char *next = memchr(at + 1, '/', (size_t)(end - at - 1));
		size_t len = (size_t)((next ? next : end) - at - 1);
		if ((len == 1 && at[1] == '.') || (len == 2 && at[1] == '.' && at[2] == '.'))
			abort();
		at = next ? next : end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exact sizes, so that a sanitizer sees a byte too many. */
	char *raw = malloc(size + 1), *out = malloc(3 * size + 1),
	     *again_out = malloc(3 * size + 1);
	struct slice path, again;

	if (!raw || !out || !again_out)
		abort();
	memcpy(raw, data, size);
	raw = realloc(raw, size > 0 ? size : 1);
	enum http_path_result result =
		http_path_normalise((struct slice){raw, size}, out, 3 * size, &path);
	if (result == HTTP_PATH_TOO_LONG)
		abort();
	if (result == HTTP_PATH_OK) {
		if (path.len == 0 || path.at[0] != '/')
			abort();
		check_segments(path);
		if (http_path_normalise(path, again_out, 3 * size, &again) != HTTP_PATH_OK ||
			!slice_equal(path, again))
			abort();
		if (!http_path_has_prefix(path, path) || !http_path_has_prefix(path, SLICE("/")))
			abort();
	}
	free(raw);
	free(out);
	free(again_out);
	return 0;
}
