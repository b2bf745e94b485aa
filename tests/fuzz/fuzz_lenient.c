/*
 * Heads of responses that are forgiven. The first byte says what is. What must hold:
 *
 *   - where the head ends does not depend on how it came
 *   - a head that the parser takes as it came needs no cleaning, and cleaning leaves its meaning
 *   - a clean head that the parser takes has no trace of what was forgiven: every line ends with
 *     CRLF, the version is 1.0 or 1.1, there is one length at most; and cleaning it again finds
 * nothing
 */
#include "fuzz_message.h"

#include "http/lenient.h"
#include "http/out.h"

#define CODINGS                                                                                    \
	(HTTP_LENIENT_CHUNKED_TWICE | HTTP_LENIENT_LENGTH_AND_CHUNKED |                            \
		HTTP_LENIENT_CHUNKED_HTTP_1_0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_strict(const struct http_head *head)
{
	unsigned lengths = 0;

	MUST(head->minor <= 1);
	for (unsigned i = 0; i < head->field_count; i++)
		lengths += head->fields[i].id == HTTP_FIELD_CONTENT_LENGTH;
	MUST(lengths <= 1);
	fuzz_assert_lines(head);
}

static void assert_same_fields(const struct http_head *a, const struct http_head *b)
{
	MUST(a->status == b->status && a->minor == b->minor && a->field_count == b->field_count);
	for (unsigned i = 0; i < a->field_count; i++) {
		MUST(slice_equal(
			http_field_name(a, &a->fields[i]), http_field_name(b, &b->fields[i])));
		MUST(slice_equal(
			http_field_value(a, &a->fields[i]), http_field_value(b, &b->fields[i])));
	}
}

static void clean_one(const char *text, size_t len, unsigned forgiven)
{
	struct fuzz_outcome as_it_came, cleaned;
	size_t capacity = 2 * len + 32;
	char *bytes = malloc(capacity), *again = malloc(capacity);

	MUST(bytes && again);
	struct http_out out = http_out_over(bytes, capacity),
			twice = http_out_over(again, capacity);
	unsigned found = http_lenient_clean((struct slice){text, len}, forgiven, &out);
	MUST(!out.overflow && (found & ~forgiven) == 0);
	fuzz_parse(&as_it_came, false, text, len, len, 1);
	if (found) {
		size_t clean = (size_t)(out.at - bytes);
		fuzz_parse(&cleaned, false, bytes, clean, clean, 1);
		if (cleaned.result == HTTP_PARSE_DONE) {
			MUST(cleaned.head.len == clean);
			assert_strict(&cleaned.head);
			MUST(http_lenient_clean((struct slice){bytes, clean}, forgiven, &twice) ==
				0);
			/* The parser may take an empty length that is there twice for itself, and
			 * leaves codings to http/framing.h. */
			if (as_it_came.result == HTTP_PARSE_DONE && !(found & CODINGS))
				assert_same_fields(&as_it_came.head, &cleaned.head);
		}
		fuzz_outcome_end(&cleaned);
	}
	fuzz_outcome_end(&as_it_came);
	free(bytes);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	unsigned forgiven = data[0];
	char *text = fuzz_copy((const char *)data + 1, size - 1);
	size_t end = http_lenient_end(text, size - 1, 0), found = 0;

	for (size_t come = 1, looked = 0; come <= size - 1 && !found; looked = come++)
		found = http_lenient_end(text, come, looked);
	MUST(found == end);
	if (end > 0)
		clean_one(text, end, forgiven);
	free(text);
	return 0;
}
