#include "gateway/gateway_replay.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/gateway_event.h"

void replay_accept(struct gateway_replay *replay, struct slice value)
{
	uint64_t bytes = 0;

	replay->accepted = REPLAY_ACCEPTS_ALL;
	if (value.len == 0 || value.len > 18)
		return;
	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return;
		bytes = bytes * 10 + (uint64_t)(value.at[i] - '0');
	}
	replay->accepted = bytes;
}

/* What is left of the events of a request when `accepted` bytes of their content are taken off: all
 * messages behind the last of these bytes, also those without content. The content of CLOSE counts,
 * and is not left. */
struct rest {
	uint64_t left; /* content of those that are left */
	size_t bytes;  /* of those, as events */
};

/* Writes them to `to` unless that is NULL. */
static struct rest find_rest(struct slice events, uint64_t accepted, char *to)
{
	struct rest rest = {0};
	struct gateway_event event;

	while (gateway_event_read(&events, &event) == GATEWAY_EVENT_READ) {
		size_t off = event.content.len < accepted ? event.content.len : (size_t)accepted;
		bool is_message =
			event.kind == GATEWAY_EVENT_TEXT || event.kind == GATEWAY_EVENT_BINARY;
		bool is_accepted = accepted > 0 && off == event.content.len;
		accepted -= off;
		if (is_accepted || !is_message)
			continue;
		event.content.at += off;
		event.content.len -= off;
		rest.left += event.content.len;
		if (to)
			gateway_event_write(&event, to + rest.bytes);
		rest.bytes += gateway_event_bytes(&event);
	}
	return rest;
}

static uint64_t content_bytes(struct slice events)
{
	struct gateway_event event;
	uint64_t bytes = 0;

	while (gateway_event_read(&events, &event) == GATEWAY_EVENT_READ)
		bytes += event.content.len;
	return bytes;
}

const char *replay_keep(struct gateway_replay *replay, struct slice events, uint64_t most)
{
	uint64_t content;
	struct rest rest;

	if (replay->accepted == REPLAY_ACCEPTS_ALL)
		return NULL;
	content = content_bytes(events);
	if (replay->accepted == content)
		return NULL;
	if (replay->accepted > content)
		return "answer that accepts more than was sent";
	rest = find_rest(events, replay->accepted, NULL);
	if (rest.left > most)
		return "answer that accepts too little";
	if (rest.bytes == 0)
		return NULL;
	replay->events = malloc(rest.bytes);
	if (!replay->events)
		return "no memory";
	replay->bytes = rest.bytes;
	replay->content = rest.left;
	find_rest(events, replay->accepted, replay->events);
	return NULL;
}

bool replay_put(struct gateway_replay *replay, char **events, uint64_t *length)
{
	char *joined;

	replay->sent = 0;
	if (!replay->events)
		return true;
	joined = malloc(replay->bytes + *length);
	if (!joined)
		return false;
	memcpy(joined, replay->events, replay->bytes);
	if (*length > 0)
		memcpy(joined + replay->bytes, *events, *length);
	free(*events);
	*events = joined;
	*length += replay->bytes;
	replay->sent = replay->content;
	replay_clear(replay);
	return true;
}

void replay_clear(struct gateway_replay *replay)
{
	free(replay->events);
	replay->events = NULL;
	replay->bytes = replay->content = 0;
}

/* ---- retry ---------------------------------------------------------------------------------- */

#define FIRST_MS 1000

uint64_t retry_after_ms(unsigned failed, unsigned tries, uint64_t random)
{
	if (failed == 0 || failed >= tries || failed > RETRY_TRIES_MOST)
		return 0;
	uint64_t wait_ms = (uint64_t)FIRST_MS << (failed - 1);
	return wait_ms + random % (wait_ms / 10 + 1);
}
