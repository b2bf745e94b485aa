#include "channels/meta.h"

#include <stdlib.h>
#include <string.h>

static const struct slice name_start = SLICE("Meta-");

static struct slice name_of(const struct meta_item *item)
{
	return (struct slice){item->text, item->name_len};
}

static struct slice value_of(const struct meta_item *item)
{
	return (struct slice){item->text + item->name_len, item->value_len};
}

static struct meta_item *find(const struct meta *meta, struct slice name)
{
	for (unsigned i = 0; i < meta->count; i++)
		if (slice_equal_nocase(name_of(&meta->items[i]), name))
			return &meta->items[i];
	return NULL;
}

static size_t bytes_of(const struct meta_item *item)
{
	return item ? item->name_len + item->value_len : 0;
}

/* Those behind it move up, so that the order stays. */
static void drop(struct meta *meta, struct meta_item *item)
{
	size_t behind = meta->count - (size_t)(item - meta->items) - 1;

	meta->bytes -= bytes_of(item);
	free(item->text);
	memmove(item, item + 1, behind * sizeof(*item));
	meta->count--;
}

static struct meta_item *add(struct meta *meta)
{
	struct meta_item *items = realloc(meta->items, (meta->count + 1) * sizeof(*meta->items));

	if (!items)
		return NULL;
	meta->items = items;
	items[meta->count] = (struct meta_item){0};
	return &items[meta->count++];
}

enum meta_result meta_set(struct meta *meta, struct slice name, struct slice value)
{
	struct meta_item *item = find(meta, name);
	size_t others = meta->bytes - bytes_of(item);
	char *text;

	if (value.len == 0) {
		if (item)
			drop(meta, item);
		return META_SET;
	}
	if (name.len == 0 || name.len > META_BYTES || value.len > META_BYTES ||
		others + name.len + value.len > META_BYTES || (!item && meta->count == META_COUNT))
		return META_FULL;
	text = malloc(name.len + value.len);
	if (text && !item)
		item = add(meta);
	if (!text || !item) {
		free(text);
		return META_NO_MEMORY;
	}
	memcpy(text, name.at, name.len);
	memcpy(text + name.len, value.at, value.len);
	free(item->text);
	*item = (struct meta_item){text, name.len, value.len};
	meta->bytes = others + name.len + value.len;
	return META_SET;
}

struct slice meta_find(const struct meta *meta, struct slice name)
{
	const struct meta_item *item = find(meta, name);

	return item ? value_of(item) : SLICE_NONE;
}

void meta_put_fields(const struct meta *meta, struct field_sink *sink)
{
	for (unsigned i = 0; i < meta->count; i++) {
		http_out_slice(&sink->out, name_start);
		field_put(sink, name_of(&meta->items[i]), value_of(&meta->items[i]));
	}
}

size_t meta_field_bytes(const struct meta *meta)
{
	return meta->bytes + meta->count * (name_start.len + sizeof(struct field_marks));
}

void meta_clear(struct meta *meta)
{
	for (unsigned i = 0; i < meta->count; i++)
		free(meta->items[i].text);
	free(meta->items);
	*meta = (struct meta){0};
}
