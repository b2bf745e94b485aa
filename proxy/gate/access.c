#include "gate/access.h"

#include <errno.h>
#include <stdlib.h>

#include "gate/networks.h"
#include "gate/text_set.h"

struct access_list {
	struct network_set allow, deny;
	struct text_set allow_keys, deny_keys;
};

static bool keys_init(struct text_set *set, const struct conf_text_list *keys)
{
	if (keys->count == 0)
		return true;
	if (!text_set_init(set, keys->count))
		return false;
	for (size_t i = 0; i < keys->count; i++)
		text_set_add(set, slice_of(keys->items[i]), 0);
	return true;
}

struct access_list *access_list_new(const struct conf_route *route)
{
	errno = 0;
	if (route->access.allow_addresses.count + route->access.deny_addresses.count +
			route->access.allow_keys.count + route->access.deny_keys.count ==
		0)
		return NULL;
	struct access_list *list = calloc(1, sizeof(*list));
	if (list && network_set_init(&list->allow, &route->access.allow_addresses) &&
		network_set_init(&list->deny, &route->access.deny_addresses) &&
		keys_init(&list->allow_keys, &route->access.allow_keys) &&
		keys_init(&list->deny_keys, &route->access.deny_keys))
		return list;
	access_list_free(list);
	errno = ENOMEM;
	return NULL;
}

void access_list_free(struct access_list *list)
{
	if (!list)
		return;
	network_set_free(&list->allow);
	network_set_free(&list->deny);
	text_set_free(&list->allow_keys);
	text_set_free(&list->deny_keys);
	free(list);
}

enum access_verdict access_check(
	const struct access_list *list, const uint8_t address[16], struct slice key)
{
	if (network_set_has(&list->deny, address) ||
		text_set_find(&list->deny_keys, key) != TEXT_SET_NONE)
		return ACCESS_DENIED;
	if (network_set_has(&list->allow, address) ||
		text_set_find(&list->allow_keys, key) != TEXT_SET_NONE)
		return ACCESS_ALLOWED;
	return ACCESS_LIMITED;
}

bool access_needs_key(const struct access_list *list)
{
	return list->allow_keys.count + list->deny_keys.count > 0;
}
