/*
 * Answers of a gateway's server: events, as many as there are. What must hold:
 *
 *   - each event's content lies in the input, and the bytes read become fewer with each
 *   - an event that is read and written again is read as the same
 *   - what counts as well-formed is read to its end, with OPEN where it belongs and nowhere else
 */
#include "fuzz_message.h"

#include "gateway/gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct gateway_event *event)
{
	size_t len = gateway_event_bytes(event);
	char *bytes = malloc(len);
	struct gateway_event again;
	struct slice rest = {bytes, len};

	MUST(bytes);
	gateway_event_write(event, bytes);
	MUST(gateway_event_read(&rest, &again) == GATEWAY_EVENT_READ && rest.len == 0);
	MUST(again.kind == event->kind && again.has_content == event->has_content);
	MUST(slice_equal(again.content, event->content));
	free(bytes);
}

/* Returns whether all of it could be read; counts what there is. */
static bool read_all(struct slice rest, unsigned *events, unsigned *opens, bool *opens_first)
{
	const char *end = rest.at + rest.len;
	struct gateway_event event;

	*events = *opens = 0;
	for (;;) {
		struct slice before = rest;
		switch (gateway_event_read(&rest, &event)) {
		case GATEWAY_EVENT_NONE:
			MUST(before.len == 0);
			return true;
		case GATEWAY_EVENT_MALFORMED:
			return false;
		case GATEWAY_EVENT_READ:
			break;
		}
		MUST(rest.len < before.len && rest.at + rest.len == end);
		MUST(event.content.len == 0 ||
			(event.content.at >= before.at &&
				event.content.at + event.content.len + 2 == rest.at));
		if (event.kind != GATEWAY_EVENT_UNKNOWN)
			check_written(&event);
		if (*events == 0)
			*opens_first = event.kind == GATEWAY_EVENT_OPEN;
		*events += 1;
		*opens += event.kind == GATEWAY_EVENT_OPEN;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy((const char *)data, size);
	const struct slice content = {copy, size};
	unsigned events, opens;
	bool opens_first = false, is_whole = read_all(content, &events, &opens, &opens_first);

	if (gateway_is_well_formed(content, true))
		MUST(is_whole && opens == 1 && opens_first && events <= GATEWAY_ANSWER_EVENTS);
	if (gateway_is_well_formed(content, false))
		MUST(is_whole && opens == 0 && events <= GATEWAY_ANSWER_EVENTS);
	free(copy);
	return 0;
}
