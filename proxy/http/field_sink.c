#include "http/field_sink.h"

static bool is_omitted(const struct http_head *head, const struct http_field *field,
	const struct fields_omitted *omitted)
{
	return field->hop || (omitted->ids >> field->id & 1) ||
	       (omitted->others &&
		       omitted->others(omitted->ctx, field, http_field_name(head, field)));
}

void field_pass_each(
	struct field_sink *sink, const struct http_head *head, const struct fields_omitted *omitted)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (!is_omitted(head, field, omitted))
			field_put(
				sink, http_field_name(head, field), http_field_value(head, field));
	}
}

/* One run up to each field that is omitted, and one behind the last. */
void field_pass(struct field_sink *sink, const struct http_head *head, size_t from,
	const struct fields_omitted *omitted)
{
	const struct http_field *end = head->fields + head->field_count;
	size_t head_end = head->len - sizeof(sink->marks.value);
	/* A Connection field, which may name any other, is one of a hop itself. */
	bool all_pass =
		!omitted->others &&
		!(head->ids & (omitted->ids | HTTP_HOP_FIELDS | HTTP_FIELD_BIT(UNDERSCORED)));

	if (head->major != sink->major) {
		field_pass_each(sink, head, omitted);
		return;
	}
	for (const struct http_field *field = head->fields; !all_pass && field < end; field++) {
		if (!is_omitted(head, field, omitted))
			continue;
		if (from < field->name_at)
			http_out_slice(&sink->out,
				(struct slice){head->base + from, field->name_at - from});
		from = field + 1 < end ? field[1].name_at : head_end;
	}
	http_out_slice(&sink->out, (struct slice){head->base + from, head_end - from});
}
