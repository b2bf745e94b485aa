#include "http2/h2_flood.h"

#include "base/clock.h"

/* Types and flags of frames (RFC 9113 section 6, RFC 9218 section 7.1). */
enum {
	TYPE_DATA = 0,
	TYPE_HEADERS = 1,
	TYPE_PRIORITY = 2,
	TYPE_RST_STREAM = 3,
	TYPE_SETTINGS = 4,
	TYPE_PING = 6,
	TYPE_WINDOW_UPDATE = 8,
	TYPE_CONTINUATION = 9,
	TYPE_PRIORITY_UPDATE = 16,
	FLAG_END_STREAM = 1,
	FLAG_END_HEADERS = 4,
	FLAG_PADDED = 8,
};

/* A block of the longest head is one frame and a few more; a frame of this length is not short. */
#define BLOCK_FRAME_BYTES 1024
#define BLOCK_FRAMES      8

static const struct {
	const char *name;
	unsigned per_second, burst;
} bounds[] = {
	[H2_FLOOD_RESET] = {"streams reset", 50, 500},
	[H2_FLOOD_PING] = {"PING", 10, 100},
	[H2_FLOOD_SETTINGS] = {"SETTINGS", 2, 30},
	[H2_FLOOD_PRIORITY] = {"PRIORITY", 200, 2000},
	[H2_FLOOD_WINDOW] = {"WINDOW_UPDATE", 200, 2000},
	[H2_FLOOD_EMPTY] = {"empty DATA", 20, 200},
	[H2_FLOOD_OTHER] = {"frames of unknown types", 20, 200},
	[H2_FLOOD_HEADERS] = {"a header block too long or in too many frames", 0, 0},
};
_Static_assert(sizeof(bounds) / sizeof(bounds[0]) == H2_FLOOD_KINDS, "a row for each kind");

const char *h2_flood_name(enum h2_flood_kind kind)
{
	return bounds[kind].name;
}

bool h2_flood_count(struct h2_flood *flood, enum h2_flood_kind kind, uint64_t now_ns)
{
	uint64_t interval_ns = CLOCK_NS_PER_S / bounds[kind].per_second;
	uint64_t from_ns = flood->paid_until_ns[kind];

	if (from_ns < now_ns)
		from_ns = now_ns;
	if (from_ns - now_ns + interval_ns > bounds[kind].burst * interval_ns)
		return false;
	flood->paid_until_ns[kind] = from_ns + interval_ns;
	return true;
}

static bool count_window(struct h2_flood *flood, uint64_t now_ns)
{
	if (flood->window_credit > 0) {
		flood->window_credit--;
		return true;
	}
	return h2_flood_count(flood, H2_FLOOD_WINDOW, now_ns);
}

/* Counts a piece of a header block; its padding counts, too. */
static bool count_block(struct h2_flood *flood, uint32_t len, uint8_t flags)
{
	flood->block_bytes += len;
	flood->block_frames++;
	bool is_within =
		flood->block_bytes <= flood->block_most &&
		flood->block_frames <= BLOCK_FRAMES + flood->block_bytes / BLOCK_FRAME_BYTES;
	if (flags & FLAG_END_HEADERS)
		flood->block_bytes = flood->block_frames = 0;
	return is_within;
}

/* The head of a frame is here. */
static enum h2_flood_kind begin_frame(struct h2_flood *flood, uint64_t now_ns)
{
	const uint8_t *head = flood->head;
	uint32_t len = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
	uint8_t flags = head[4];
	enum h2_flood_kind kind = H2_FLOOD_OTHER;

	flood->left = len;
	flood->pads = false;
	switch (head[3]) {
	case TYPE_DATA:
		flood->pads = len > 0 && (flags & FLAG_PADDED) && !(flags & FLAG_END_STREAM);
		if (len > 0 || (flags & FLAG_END_STREAM))
			return H2_FLOOD_NONE;
		kind = H2_FLOOD_EMPTY;
		break;
	case TYPE_HEADERS:
		flood->block_bytes = flood->block_frames = 0;
		return count_block(flood, len, flags) ? H2_FLOOD_NONE : H2_FLOOD_HEADERS;
	case TYPE_CONTINUATION:
		return count_block(flood, len, flags) ? H2_FLOOD_NONE : H2_FLOOD_HEADERS;
	case TYPE_WINDOW_UPDATE:
		return count_window(flood, now_ns) ? H2_FLOOD_NONE : H2_FLOOD_WINDOW;
	case TYPE_PRIORITY:
	case TYPE_PRIORITY_UPDATE:
		kind = H2_FLOOD_PRIORITY;
		break;
	case TYPE_RST_STREAM:
		kind = H2_FLOOD_RESET;
		break;
	case TYPE_SETTINGS:
		kind = H2_FLOOD_SETTINGS;
		break;
	case TYPE_PING:
		kind = H2_FLOOD_PING;
		break;
	default:
		break;
	}
	return h2_flood_count(flood, kind, now_ns) ? H2_FLOOD_NONE : kind;
}

/* The first byte of a padded DATA frame: is all of it padding? */
static bool is_all_padding(struct h2_flood *flood, uint8_t padding)
{
	flood->pads = false;
	return flood->left == 1u + padding;
}

enum h2_flood_kind h2_flood_walk(
	struct h2_flood *flood, const uint8_t *bytes, size_t len, uint64_t now_ns)
{
	const uint8_t *end = bytes + len;
	enum h2_flood_kind kind = H2_FLOOD_NONE;

	if (flood->preface_left > 0) {
		size_t skipped = len < flood->preface_left ? len : (size_t)flood->preface_left;
		flood->preface_left -= skipped;
		bytes += skipped;
	}
	while (bytes < end && kind == H2_FLOOD_NONE) {
		if (flood->left > 0) {
			size_t rest = (size_t)(end - bytes);
			if (flood->pads && is_all_padding(flood, *bytes) &&
				!h2_flood_count(flood, H2_FLOOD_EMPTY, now_ns))
				kind = H2_FLOOD_EMPTY;
			if (rest > flood->left)
				rest = flood->left;
			flood->left -= (uint32_t)rest;
			bytes += rest;
			continue;
		}
		flood->head[flood->head_len++] = *bytes++;
		if (flood->head_len == sizeof(flood->head)) {
			flood->head_len = 0;
			kind = begin_frame(flood, now_ns);
		}
	}
	return kind;
}
