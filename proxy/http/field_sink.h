/*
 * A sink for the fields of a head that leaves: names and values, in their order. A composer of
 * fields knows no wire; a protocol opens the sink over its own output, with its own marks:
 *
 *   exchange, gate --field_put--> name mark value mark name mark value mark ... --> wire
 *
 * With the marks of HTTP/1 (http/text_head.h) a field is composed where it leaves, as its line. A
 * protocol with another form chooses other marks and walks over what was composed: no name contains
 * the first byte of the name's mark, and no value the last byte of the value's mark, whose
 * bytes differ. Names keep the case in which they came.
 */
#ifndef HTTP_FIELD_SINK_H
#define HTTP_FIELD_SINK_H

#include "http/message.h"
#include "http/out.h"

struct field_marks {
	char name[2], value[2]; /* behind each name, behind each value */
};

struct field_sink {
	struct http_out out;
	struct field_marks marks;
	uint8_t major; /* of the version of HTTP whose heads have these marks */
};

static inline void field_begin(struct field_sink *sink, struct slice name)
{
	struct http_out *out = &sink->out;

	if (!http_out_has_room(out, name.len + sizeof(sink->marks.name)))
		return;
	memcpy(out->at, name.at, name.len);
	memcpy(out->at + name.len, sink->marks.name, sizeof(sink->marks.name));
	out->at += name.len + sizeof(sink->marks.name);
}

static inline void field_end(struct field_sink *sink)
{
	http_out_slice(&sink->out, (struct slice){sink->marks.value, sizeof(sink->marks.value)});
}

static inline void field_put(struct field_sink *sink, struct slice name, struct slice value)
{
	struct http_out *out = &sink->out;
	char *at = out->at;

	if (!http_out_has_room(out, name.len + value.len + sizeof(sink->marks)))
		return;
	memcpy(at, name.at, name.len);
	memcpy(at += name.len, sink->marks.name, sizeof(sink->marks.name));
	at += sizeof(sink->marks.name);
	if (value.len > 0)
		memcpy(at, value.at, value.len);
	memcpy(at += value.len, sink->marks.value, sizeof(sink->marks.value));
	out->at = at + sizeof(sink->marks.value);
}

static inline void field_put_number(struct field_sink *sink, struct slice name, uint64_t value)
{
	field_begin(sink, name);
	http_out_number(&sink->out, value);
	field_end(sink);
}

/* Fields of a head that do not pass, besides those of its hop. */
struct fields_omitted {
	uint32_t ids; /* bits of http_head.ids */
	/* Which others; NULL: none. */
	bool (*others)(const void *ctx, const struct http_field *field, struct slice name);
	const void *ctx;
};

/* Puts the other fields of a head. */
void field_pass_each(struct field_sink *sink, const struct http_head *head,
	const struct fields_omitted *omitted);

/* The same in runs of bytes, if the sink has the form of the head: from the byte `from` of the
 * head, http_head_fields_at or one before that. */
void field_pass(struct field_sink *sink, const struct http_head *head, size_t from,
	const struct fields_omitted *omitted);

#endif
