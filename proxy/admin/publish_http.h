/*
 * What an item to publish says to held responses (channels/grip_hold.h):
 *
 *   "http-response": {"code": 200, "headers": {"Content-Type": "text/plain"}, "body": "hello"}
 *   "http-stream": {"content": "hello"}, or {"action": "close"}
 */
#ifndef ADMIN_PUBLISH_HTTP_H
#define ADMIN_PUBLISH_HTTP_H

#include <jansson.h>
#include <stdbool.h>

#include "channels/publish.h"

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
