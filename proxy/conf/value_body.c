/* How bodies pass: what is kept of them. See value.h. */
#include "conf/same.h"
#include "conf/value.h"

#define LEAST_KEPT 4096ULL
#define MOST_KEPT  (1ULL << 40)

/* off, 256k, or 256k file 16M */
static bool parse_buffering(struct value *value)
{
	struct conf_buffering *buffering = value->at;
	struct slice rest = value->text, memory, word;

	*buffering = (struct conf_buffering){0};
	if (slice_equal(value->text, SLICE("off")))
		return true;
	scan_next_token(&rest, &memory);
	if (!scan_size(memory, &buffering->memory_bytes))
		return value_fail(value, "invalid size \"%.*s\"", SLICE_ARGS(memory));
	if (scan_next_token(&rest, &word) &&
		(!slice_equal(word, SLICE("file")) ||
			!scan_size(slice_trim(rest), &buffering->file_bytes)))
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	if (buffering->memory_bytes < LEAST_KEPT || buffering->memory_bytes > MOST_KEPT ||
		buffering->file_bytes > MOST_KEPT)
		return value_fail_plainly(value,
			"%.*s is out of bounds; expected 4k to 1024G, or off",
			SLICE_ARGS(value->text));
	return true;
}

const struct option_type type_buffering = {"sizes",
	"off, SIZE such as 64k, or SIZE file SIZE such as 64k file 16M", parse_buffering, NULL,
	false};
