#include "http2/h2_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/text_head.h"

/* The next of the worker's fields. NULL: no memory. */
static nghttp2_nv *add_field(struct h2_fields *fields)
{
	struct h2_worker *h2 = fields->h2;

	if (fields->count == h2->field_room) {
		size_t room = h2->field_room > 0 ? 2 * h2->field_room : 64;
		nghttp2_nv *more = realloc(h2->fields, room * sizeof(*more));
		if (!more)
			return NULL;
		h2->fields = more;
		h2->field_room = room;
	}
	return &h2->fields[fields->count++];
}

void h2_fields_begin(struct h2_fields *fields, struct worker *worker)
{
	*fields = (struct h2_fields){.h2 = h2_part(worker)};
}

bool h2_fields_put(struct h2_fields *fields, struct slice name, struct slice value)
{
	nghttp2_nv *field = add_field(fields);

	if (!field)
		return false;
	*field = (nghttp2_nv){(uint8_t *)(uintptr_t)name.at, (uint8_t *)(uintptr_t)value.at,
		name.len, value.len, NGHTTP2_NV_FLAG_NONE};
	return true;
}

bool h2_fields_put_status(struct h2_fields *fields, unsigned status)
{
	snprintf(fields->status, sizeof(fields->status), "%03u", status % 1000);
	return h2_fields_put(fields, SLICE(":status"), (struct slice){fields->status, 3});
}

/* Of a connection of HTTP/1, whatever the configuration sets. */
static bool is_of_connection(struct slice name)
{
	switch ((unsigned)http_field_id(name)) {
	case HTTP_FIELD_CONNECTION:
	case HTTP_FIELD_KEEP_ALIVE:
	case HTTP_FIELD_PROXY_CONNECTION:
	case HTTP_FIELD_TRANSFER_ENCODING:
	case HTTP_FIELD_UPGRADE:
		return true;
	default:
		return false;
	}
}

static void make_lower(char *at, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (at[i] >= 'A' && at[i] <= 'Z')
			at[i] = (char)(at[i] + ('a' - 'A'));
	}
}

bool h2_fields_read(struct h2_fields *fields, char *at, const char *end)
{
	while (at < end) {
		char *colon = memchr(at, ':', (size_t)(end - at));
		char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (!colon || !line_end || colon > line_end)
			return true;
		struct slice name = {at, (size_t)(colon - at)};
		const char *value_end = line_end[-1] == '\r' ? line_end - 1 : line_end;
		struct slice value =
			slice_trim((struct slice){colon + 1, (size_t)(value_end - colon) - 1});
		make_lower(at, name.len);
		at = line_end + 1;
		if (is_of_connection(name))
			continue;
		if (!h2_fields_put(fields, name, value))
			return false;
	}
	return true;
}

bool h2_fields_open(struct h2_fields *fields, size_t bytes)
{
	struct buffer_pool *pool = &fields->h2->worker->blocks;

	if (!buffer_acquire(&fields->text, pool))
		return false;
	if (!buffer_reserve(&fields->text, pool, bytes)) {
		buffer_release(&fields->text, pool);
		return false;
	}
	/* The marks of text, and not its version: lines of a head do not pass as they are. */
	fields->sink = text_head_over(http_out_over(fields->text.at, fields->text.capacity));
	fields->sink.major = 2;
	fields->lines = fields->text.at;
	return true;
}

bool h2_fields_close(struct h2_fields *fields)
{
	return !fields->sink.out.overflow &&
	       h2_fields_read(fields, fields->lines, fields->sink.out.at);
}

void h2_fields_free(struct h2_fields *fields)
{
	buffer_release(&fields->text, &fields->h2->worker->blocks);
}
