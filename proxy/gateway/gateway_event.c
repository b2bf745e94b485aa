#include "gateway/gateway_event.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct slice names[] = {
	[GATEWAY_EVENT_OPEN] = SLICE("OPEN"),
	[GATEWAY_EVENT_TEXT] = SLICE("TEXT"),
	[GATEWAY_EVENT_BINARY] = SLICE("BINARY"),
	[GATEWAY_EVENT_PING] = SLICE("PING"),
	[GATEWAY_EVENT_PONG] = SLICE("PONG"),
	[GATEWAY_EVENT_CLOSE] = SLICE("CLOSE"),
	[GATEWAY_EVENT_DISCONNECT] = SLICE("DISCONNECT"),
};

/* An event's line has at most so many bytes, its end included. */
#define LINE_BYTES 32

/* Eight digits say more than any body has. */
#define LENGTH_DIGITS 8

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool read_length(struct slice text, uint64_t *length)
{
	*length = 0;
	if (text.len == 0 || text.len > LENGTH_DIGITS)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		int value = digit(text.at[i]);
		if (value < 0)
			return false;
		*length = *length << 4 | (uint64_t)value;
	}
	return true;
}

/* Names have letters only. */
static bool read_name(struct slice name, enum gateway_event_kind *kind)
{
	if (name.len == 0)
		return false;
	for (size_t i = 0; i < name.len; i++)
		if ((name.at[i] | 0x20) < 'a' || (name.at[i] | 0x20) > 'z')
			return false;
	for (unsigned i = 0; i < GATEWAY_EVENT_UNKNOWN; i++) {
		*kind = (enum gateway_event_kind)i;
		if (slice_equal(name, names[i]))
			return true;
	}
	*kind = GATEWAY_EVENT_UNKNOWN;
	return true;
}

/* The line, without CRLF, off the front. */
static bool take_line(struct slice *bytes, struct slice *line)
{
	size_t most = bytes->len < LINE_BYTES ? bytes->len : LINE_BYTES;
	const char *end = memmem(bytes->at, most, "\r\n", 2);

	if (!end)
		return false;
	*line = (struct slice){bytes->at, (size_t)(end - bytes->at)};
	bytes->at += line->len + 2;
	bytes->len -= line->len + 2;
	return true;
}

static bool take_content(struct slice *bytes, uint64_t length, struct slice *content)
{
	if (bytes->len < 2 || length > bytes->len - 2)
		return false;
	*content = (struct slice){bytes->at, (size_t)length};
	if (memcmp(bytes->at + length, "\r\n", 2) != 0)
		return false;
	bytes->at += length + 2;
	bytes->len -= length + 2;
	return true;
}

enum gateway_event_result gateway_event_read(struct slice *bytes, struct gateway_event *event)
{
	struct slice line, name;
	uint64_t length;

	*event = (struct gateway_event){.content = SLICE_NONE};
	if (bytes->len == 0)
		return GATEWAY_EVENT_NONE;
	if (!take_line(bytes, &line))
		return GATEWAY_EVENT_MALFORMED;
	const char *space = memchr(line.at, ' ', line.len);
	name = (struct slice){line.at, space ? (size_t)(space - line.at) : line.len};
	if (!read_name(name, &event->kind))
		return GATEWAY_EVENT_MALFORMED;
	if (!space)
		return GATEWAY_EVENT_READ;
	event->has_content = true;
	if (!read_length((struct slice){space + 1, line.len - name.len - 1}, &length) ||
		!take_content(bytes, length, &event->content))
		return GATEWAY_EVENT_MALFORMED;
	return GATEWAY_EVENT_READ;
}

static size_t write_line(const struct gateway_event *event, char line[LINE_BYTES])
{
	struct slice name = names[event->kind];

	if (!event->has_content)
		return (size_t)snprintf(line, LINE_BYTES, "%s\r\n", name.at);
	return (size_t)snprintf(line, LINE_BYTES, "%s %zx\r\n", name.at, event->content.len);
}

size_t gateway_event_bytes(const struct gateway_event *event)
{
	char line[LINE_BYTES];
	size_t len = write_line(event, line);

	return event->has_content ? len + event->content.len + 2 : len;
}

void gateway_event_write(const struct gateway_event *event, char *bytes)
{
	char line[LINE_BYTES];
	size_t len = write_line(event, line);

	memcpy(bytes, line, len);
	if (!event->has_content)
		return;
	if (event->content.len > 0)
		memcpy(bytes + len, event->content.at, event->content.len);
	memcpy(bytes + len + event->content.len, "\r\n", 2);
}
