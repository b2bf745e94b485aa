#include "site/lookalikes.h"

#include <stdlib.h>

struct lookalikes {
	struct slice *names; /* of the snapshot's texts */
	size_t count, capacity;
	bool any_underscored; /* one of them has an underscore */
	bool full;            /* no memory for one */
};

/* ---- collecting ------------------------------------------------------------------------------ */

static void add(struct lookalikes *lookalikes, struct slice name)
{
	for (size_t i = 0; i < lookalikes->count; i++) {
		if (slice_equal_nocase(lookalikes->names[i], name))
			return;
	}
	if (lookalikes->count == lookalikes->capacity) {
		size_t capacity = lookalikes->capacity ? 2 * lookalikes->capacity : 16;
		struct slice *names =
			realloc(lookalikes->names, capacity * sizeof(*lookalikes->names));
		if (!names) {
			lookalikes->full = true;
			return;
		}
		lookalikes->names = names;
		lookalikes->capacity = capacity;
	}
	lookalikes->names[lookalikes->count++] = name;
	lookalikes->any_underscored |= memchr(name.at, '_', name.len) != NULL;
}

static void add_key(struct lookalikes *lookalikes, const struct conf_key *key)
{
	for (size_t i = 0; key && i < key->alternative_count; i++) {
		const struct key_alternative *alternative = &key->alternatives[i];
		for (size_t j = 0; j < alternative->part_count; j++) {
			const struct key_part *part = &alternative->parts[j];
			if (part->kind == KEY_HEADER)
				add(lookalikes, (struct slice){part->name, part->name_len});
		}
	}
}

static void add_route(struct lookalikes *lookalikes, const struct conf_route *route)
{
	add_key(lookalikes, route->sessions.key);
	for (size_t i = 0; i < route->request_set.count; i++) {
		const struct conf_field *field = &route->request_set.items[i];
		add(lookalikes, (struct slice){field->name, field->name_len});
	}
	for (size_t i = 0; i < route->request_remove.count; i++)
		add(lookalikes, slice_of(route->request_remove.items[i]));
}

struct lookalikes *lookalikes_new(const struct conf *conf)
{
	struct lookalikes *lookalikes = calloc(1, sizeof(*lookalikes));

	if (!lookalikes)
		return NULL;
	/* Set by many proxies and read by many servers, and no name that sluice knows. */
	add(lookalikes, SLICE("Content-Type"));
	if (conf->request_id_field)
		add(lookalikes, slice_of(conf->request_id_field));
	for (size_t i = 0; i < conf->listener_count; i++) {
		if (conf->listeners[i].tls.client_ca && !conf->listeners[i].is_internal) {
			add(lookalikes, SLICE("Client-Cert"));
			add(lookalikes, SLICE("Client-Cert-Chain"));
		}
	}
	add_key(lookalikes, conf->plans_key);
	for (size_t i = 0; i < conf->limit_count; i++)
		add_key(lookalikes, conf->limits[i].key);
	for (size_t i = 0; i < conf->upstream_count; i++)
		add_key(lookalikes, conf->upstreams[i].hash_key);
	for (size_t i = 0; i < conf->route_count; i++)
		add_route(lookalikes, &conf->routes[i]);
	if (!lookalikes->full)
		return lookalikes;
	lookalikes_free(lookalikes);
	return NULL;
}

void lookalikes_free(struct lookalikes *lookalikes)
{
	if (lookalikes)
		free(lookalikes->names);
	free(lookalikes);
}

/* ---- dropping -------------------------------------------------------------------------------- */

static char fold(char c)
{
	if (c == '_')
		return '-';
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The same but for underscores? The very same name is no look-alike. */
static bool is_alike(struct slice name, struct slice known)
{
	if (name.len != known.len || slice_equal_nocase(name, known))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (fold(name.at[i]) != fold(known.at[i]))
			return false;
	}
	return true;
}

static bool is_alike_known(struct slice name)
{
	char folded[HTTP_FIELD_NAME_LONGEST];

	if (name.len > sizeof(folded))
		return false;
	for (size_t i = 0; i < name.len; i++)
		folded[i] = fold(name.at[i]);
	return http_field_id((struct slice){folded, name.len}) != HTTP_FIELD_OTHER;
}

static bool must_go(const struct lookalikes *lookalikes, uint8_t id, struct slice name)
{
	if (id == HTTP_FIELD_UNDERSCORED && is_alike_known(name))
		return true;
	for (size_t i = 0; i < lookalikes->count; i++) {
		if (is_alike(name, lookalikes->names[i]))
			return true;
	}
	return false;
}

void lookalikes_drop(const struct lookalikes *lookalikes, struct http_head *head)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (field->id != HTTP_FIELD_UNDERSCORED && !lookalikes->any_underscored)
			continue;
		if (!must_go(lookalikes, field->id, http_field_name(head, field)))
			continue;
		field->hop = true;
		head->ids |= HTTP_FIELD_BIT(UNDERSCORED); /* the copying of lines looks at each */
	}
}

bool lookalikes_need_all(const struct lookalikes *lookalikes)
{
	return lookalikes->any_underscored;
}
