#include "http/upgrade.h"

#include "conf/conf.h"

/* The protocols that a head's Upgrade fields name, one after the other. */
struct walk {
	const struct http_head *head;
	unsigned field;
	struct slice rest;
};

static bool next_protocol(struct walk *walk, struct slice *protocol)
{
	for (;;) {
		if (slice_next_element(&walk->rest, protocol))
			return true;
		while (walk->field < walk->head->field_count &&
			walk->head->fields[walk->field].id != HTTP_FIELD_UPGRADE)
			walk->field++;
		if (walk->field == walk->head->field_count)
			return false;
		walk->rest = http_field_value(walk->head, &walk->head->fields[walk->field++]);
	}
}

static bool is_listed(const struct conf_text_list *protocols, struct slice protocol)
{
	for (size_t i = 0; i < protocols->count; i++) {
		if (slice_equal_nocase(protocol, slice_of(protocols->items[i])))
			return true;
	}
	return false;
}

bool http_upgrade_names(const struct http_head *head, struct slice wanted)
{
	struct walk walk = {.head = head};
	struct slice protocol;

	while (next_protocol(&walk, &protocol)) {
		if (slice_equal_nocase(protocol, wanted))
			return true;
	}
	return false;
}

bool http_upgrade_allowed(const struct http_head *head, const struct conf_text_list *protocols)
{
	struct walk walk = {.head = head};
	struct slice protocol;

	while (next_protocol(&walk, &protocol)) {
		if (is_listed(protocols, protocol))
			return true;
	}
	return false;
}

bool http_upgrade_agreed(const struct http_head *response, const struct http_head *request,
	const struct conf_text_list *protocols)
{
	struct walk walk = {.head = response};
	struct slice protocol;
	bool any = false;

	while (next_protocol(&walk, &protocol)) {
		if (!is_listed(protocols, protocol) || !http_upgrade_names(request, protocol))
			return false;
		any = true;
	}
	return any;
}

void http_upgrade_put_names(
	struct http_out *out, const struct http_head *head, const struct conf_text_list *protocols)
{
	struct walk walk = {.head = head};
	struct slice protocol, separator = SLICE("");

	while (next_protocol(&walk, &protocol)) {
		if (!is_listed(protocols, protocol))
			continue;
		http_out_slice(out, separator);
		http_out_slice(out, protocol);
		separator = SLICE(", ");
	}
}
