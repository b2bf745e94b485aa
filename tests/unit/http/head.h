/* A message head for tests, from its text: one field a line, as `Name: value\n`. */
#ifndef TESTS_HTTP_HEAD_H
#define TESTS_HTTP_HEAD_H

#include <string.h>

#include "http/message.h"

static inline void head_of(struct http_head *head, const char *text)
{
	*head = (struct http_head){.base = text, .len = (uint32_t)strlen(text), .major = 1};
	head->minor = 1;
	head->fields = head->inline_fields;
	head->field_capacity = HTTP_HEAD_FIELDS_INLINE;
	for (const char *at = text; *at;) {
		const char *colon = strchr(at, ':'), *end = strchrnul(at, '\n');
		struct slice value =
			slice_trim((struct slice){colon + 1, (size_t)(end - colon - 1)});
		head->fields[head->field_count++] = (struct http_field){
			.name_at = (uint32_t)(at - text),
			.name_len = (uint16_t)(colon - at),
			.value_at = (uint32_t)(value.at - text),
			.value_len = (uint32_t)value.len,
			.id = (uint8_t)http_field_id_of((struct slice){at, (size_t)(colon - at)}),
		};
		http_head_note(head, head->field_count - 1u);
		at = *end ? end + 1 : end;
	}
}

#endif
