/*
 * Events of the WebSocket-over-HTTP protocol (Pushpin, "WebSocket-Over-HTTP Protocol"): what the
 * bodies of a gateway's requests and of their answers consist of.
 *
 *   OPEN\r\n                      TEXT 5\r\nhello\r\n       a name; with content also its length in
 *   `- no content                 `- name, length, content  hexadecimal digits, and CRLF behind it
 */
#ifndef GATEWAY_GATEWAY_EVENT_H
#define GATEWAY_GATEWAY_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

enum gateway_event_kind {
	GATEWAY_EVENT_OPEN,
	GATEWAY_EVENT_TEXT,
	GATEWAY_EVENT_BINARY,
	GATEWAY_EVENT_PING,
	GATEWAY_EVENT_PONG,
	GATEWAY_EVENT_CLOSE,
	GATEWAY_EVENT_DISCONNECT,
	GATEWAY_EVENT_UNKNOWN, /* of a later version of the protocol: read, and of no effect */
};

struct gateway_event {
	enum gateway_event_kind kind;
	bool has_content;
	struct slice content; /* lies in the bytes that were read */
};

enum gateway_event_result {
	GATEWAY_EVENT_READ,
	GATEWAY_EVENT_NONE, /* there are no more bytes */
	GATEWAY_EVENT_MALFORMED,
};

/* Takes the next event off the front of `bytes`, which are all that there are. After MALFORMED
 * nothing more can be read. */
enum gateway_event_result gateway_event_read(struct slice *bytes, struct gateway_event *event);

/* So many bytes has an event, which is not UNKNOWN. */
size_t gateway_event_bytes(const struct gateway_event *event);

/* Writes them. */
void gateway_event_write(const struct gateway_event *event, char *bytes);

#endif
