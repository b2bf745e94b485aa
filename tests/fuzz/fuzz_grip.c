/*
 * Any bytes as a control message of GRIP, as what is published, and as a publisher's token: no
 * fault, what is accepted keeps its bounds, and what is refused is said why.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "admin/publish_items.h"
#include "admin/tokens.h"
#include "channels/grip_control.h"
#include "frames/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static bool is_utf8(struct slice text)
{
	struct utf8 utf8 = {0};

	return utf8_continue(&utf8, text) && utf8_is_whole(&utf8);
}

static void fuzz_control(struct slice text)
{
	struct grip_control control;
	const char *wrong = grip_control_parse(text, &control);

	if (wrong) {
		check(strlen(wrong) > 0);
		return;
	}
	struct slice got = {control.text, control.bytes};
	check(got.len <= sizeof(control.text));
	switch (control.type) {
	case GRIP_SUBSCRIBE:
	case GRIP_UNSUBSCRIBE:
		check(grip_channel_is_valid(got));
		break;
	case GRIP_DETACH:
		break;
	case GRIP_KEEP_ALIVE:
		check(control.timeout_s >= 1 && control.timeout_s <= GRIP_KEEP_ALIVE_MAX_S);
		check(control.has_content || got.len == 0);
		check(control.opcode != FRAME_TEXT || is_utf8(got));
		check(!(control.opcode & 8) || got.len <= FRAME_CONTROL_BYTES);
		break;
	case GRIP_SET_META:
		check(control.name_bytes >= 1 && control.name_bytes <= sizeof(control.name));
		break;
	default:
		check(false);
	}
}

static void fuzz_publish(struct slice text)
{
	struct publish_items items;
	char why[512] = "";

	if (!publish_items_read(text, &items, why, sizeof(why))) {
		check(strlen(why) > 0 && !items.items && !items.document && !items.decoded);
		return;
	}
	check(items.count >= 1 && items.count <= PUBLISH_ITEMS_MOST);
	size_t decoded = 0;
	for (size_t i = 0; i < items.count; i++) {
		const struct publish_item *item = &items.items[i];
		check(grip_channel_is_valid(item->channel));
		check(item->action != PUBLISH_SEND || item->opcode != FRAME_TEXT ||
			is_utf8(item->content));
		check(item->action != PUBLISH_CLOSE ||
			(close_code_is_valid(item->code) &&
				item->content.len <= FRAME_CONTROL_BYTES - 2));
		decoded += item->content.len;
	}
	check(decoded <= text.len);
	publish_items_end(&items);
}

/* None that a fuzzer finds is signed. */
static void fuzz_token(struct slice text)
{
	char *field = malloc(text.len + 8);

	check(field);
	memcpy(field, "Bearer ", 7);
	memcpy(field + 7, text.at, text.len);
	field[7 + text.len] = '\0';
	check(!publish_token_is_good(SLICE("a key that no input has"), field, 0));
	free(field);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	fuzz_control(text);
	fuzz_publish(text);
	if (size > 0)
		fuzz_token(text);
	return 0;
}
