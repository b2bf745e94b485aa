#include "http/changes.h"

static bool is_listed(const struct conf_text_list *list, struct slice name)
{
	for (size_t i = 0; list && i < list->count; i++) {
		if (slice_equal_nocase(name, slice_of(list->items[i])))
			return true;
	}
	return false;
}

static struct slice name_of(const struct conf_field *field)
{
	return (struct slice){field->name, field->name_len};
}

static bool is_set(const struct conf_fields *set, struct slice name)
{
	for (size_t i = 0; set && i < set->count; i++) {
		if (slice_equal_nocase(name, name_of(&set->items[i])))
			return true;
	}
	return false;
}

bool http_changes_touch(const struct http_changes *changes, struct slice name)
{
	return is_listed(changes->removed, name) || is_set(changes->set, name) ||
	       is_listed(changes->listener_removed, name) || is_set(changes->listener_set, name);
}

void http_changes_filter(struct field_sink *sink, char *begin, const struct http_changes *changes)
{
	struct http_out *out = &sink->out;
	char *from = begin, *to = begin;

	while (from < out->at) {
		const char *last = memchr(from, sink->marks.value[1], (size_t)(out->at - from));
		size_t len = (size_t)((last ? last + 1 : out->at) - from);
		const char *mark = memchr(from, sink->marks.name[0], len);
		struct slice name = {from, mark ? (size_t)(mark - from) : 0};
		if (name.len == 0 || !http_changes_touch(changes, name)) {
			memmove(to, from, len);
			to += len;
		}
		from += len;
	}
	out->at = to;
}

static void put_field(struct field_sink *sink, const struct conf_field *field)
{
	field_put(sink, name_of(field), (struct slice){field->value, field->value_len});
}

void http_changes_put(struct field_sink *sink, const struct http_changes *changes,
	bool (*kept)(struct slice name))
{
	const struct conf_fields *set = changes->listener_set;

	for (size_t i = 0; set && i < set->count; i++) {
		struct slice name = name_of(&set->items[i]);
		if (!is_set(changes->set, name) && !is_listed(changes->removed, name) &&
			!(kept && kept(name)))
			put_field(sink, &set->items[i]);
	}
	set = changes->set;
	for (size_t i = 0; set && i < set->count; i++) {
		if (!(kept && kept(name_of(&set->items[i]))))
			put_field(sink, &set->items[i]);
	}
}

static size_t set_bytes(const struct conf_fields *set)
{
	size_t bytes = 0;

	for (size_t i = 0; set && i < set->count; i++)
		bytes += set->items[i].name_len + set->items[i].value_len + 4;
	return bytes;
}

size_t http_changes_bytes(const struct http_changes *changes)
{
	return set_bytes(changes->set) + set_bytes(changes->listener_set);
}
