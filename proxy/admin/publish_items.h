/*
 * The items to publish, in GRIP's format:
 *
 *   {"items": [{"channel": "room", "formats": {"ws-message": {"content": "hello"}}}, ...]}
 */
#ifndef ADMIN_PUBLISH_ITEMS_H
#define ADMIN_PUBLISH_ITEMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "channels/publish.h"

/* Items of one publication. */
#define PUBLISH_ITEMS_MOST 10000

struct publish_items {
	struct publish_item *items; /* their texts are borrowed from what is below */
	size_t count;
	json_t *document;
	char *decoded;  /* of base64 */
	char *composed; /* for held responses */
};

/* Reads the document. False: `why` (`why_bytes` of it) has the place of the error and the expected
 * value, and nothing is held. Else publish_items_end frees what it holds. */
bool publish_items_read(
	struct slice text, struct publish_items *items, char *why, size_t why_bytes);
void publish_items_end(struct publish_items *items);

#endif
