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

/* ---- publish http --------------------------------------------------------------------------- */

/*
 * What an item to publish says to held responses (channels/grip_hold.h):
 *
 *   "http-response": {"code": 200, "headers": {"Content-Type": "text/plain"}, "body": "hello"}
 *   "http-stream": {"content": "hello"}, or {"action": "close"}
 */

/* Where texts are composed; each call takes some. */
struct publish_room {
	char *at;
	size_t bytes;
};

/* So much of it an item needs beside its own JSON text and what is in base64. */
#define PUBLISH_HTTP_BYTES 256

/* Reads both formats of an item, of which either may be missing. NULL, or a constant text with the
 * place in the item, the error and the expected value. */
const char *publish_http_read(
	const json_t *formats, struct publish_room *room, struct publish_item *item);

/* Does a format have filters of its content? They would change it, and none is known. */
bool publish_filters_content(const json_t *format);

#endif
