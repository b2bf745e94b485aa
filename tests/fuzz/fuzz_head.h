/* A head with the fields of a fuzzed text: lines of `Name: value`, taken as they come. */
#ifndef TESTS_FUZZ_HEAD_H
#define TESTS_FUZZ_HEAD_H

#include <stdlib.h>
#include <string.h>

#include "http/message.h"

static inline void fuzz_head(struct http_head *head, struct slice text)
{
	const char *end = text.at + text.len;

	*head = (struct http_head){.base = text.at, .len = (uint32_t)text.len, .major = 1};
	head->fields = head->inline_fields;
	for (const char *at = text.at; at < end && head->field_count < HTTP_HEAD_FIELDS_INLINE;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		const char *colon = memchr(at, ':', (size_t)(stop - at));
		if (colon && colon - at < 1000) {
			struct slice value =
				slice_trim((struct slice){colon + 1, (size_t)(stop - colon - 1)});
			struct slice name = {at, (size_t)(colon - at)};
			head->fields[head->field_count++] = (struct http_field){
				.name_at = (uint32_t)(at - text.at),
				.name_len = (uint16_t)name.len,
				.value_at = (uint32_t)(value.at - text.at),
				.value_len = (uint32_t)value.len,
				.id = (uint8_t)http_field_id_of(name),
			};
			http_head_note(head, head->field_count - 1u);
		}
		at = newline ? newline + 1 : end;
	}
}

#endif
