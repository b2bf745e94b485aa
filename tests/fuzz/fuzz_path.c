/* Any bytes as a path: no fault, and the normal form is normal, stable and without dot segments. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/path.h"
#include "http/path_readings.h"

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

/* Servers differ only about odd paths; one that resolves dot segments and does no more reads the
 * normal form; and a reading is no longer than it may be. */
static void check_readings(struct slice raw, struct slice path, bool odd, char *out)
{
	for (unsigned some = 0; some < 16; some++) {
		struct slice reading = http_path_reading(raw, some, out, 3 * raw.len);
		if (!reading.at || reading.len == 0 || reading.at[0] != '/')
			abort();
		if ((!odd || some == HTTP_PATH_RESOLVED) && !slice_equal(reading, path))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exact sizes, so that a sanitizer sees a byte too many. */
	char *raw = malloc(size + 1), *out = malloc(3 * size + 1),
	     *again_out = malloc(3 * size + 1);
	struct slice path, again;
	bool odd, still_odd;

	if (!raw || !out || !again_out)
		abort();
	memcpy(raw, data, size);
	raw = realloc(raw, size > 0 ? size : 1);
	enum http_path_result result =
		http_path_normalise((struct slice){raw, size}, out, 3 * size, &path, &odd);
	if (result == HTTP_PATH_TOO_LONG)
		abort();
	if (result == HTTP_PATH_OK) {
		if (path.len == 0 || path.at[0] != '/')
			abort();
		check_segments(path);
		check_readings((struct slice){raw, size}, path, odd, again_out);
		if (http_path_normalise(path, again_out, 3 * size, &again, &still_odd) !=
				HTTP_PATH_OK ||
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
