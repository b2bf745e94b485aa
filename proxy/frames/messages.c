#include "frames/messages.h"

#include <string.h>

static void fail(struct message_event *event, unsigned code, struct slice reason)
{
	event->kind = MESSAGE_BROKEN;
	event->code = code;
	event->reason = reason;
}

bool close_code_is_valid(unsigned code)
{
	if (code < 1000 || code > 4999)
		return false;
	if (code >= 3000)
		return true;
	return code <= 1003 || (code >= 1007 && code <= 1014);
}

static bool is_control(uint8_t opcode)
{
	return opcode & 8;
}

/* ---- control frames -------------------------------------------------------------------------- */

static void read_close(const struct message_reader *reader, struct message_event *event)
{
	event->kind = MESSAGE_CLOSE;
	event->payload = (struct slice){reader->control, reader->control_len};
	event->code = CLOSE_NO_CODE;
	event->reason = SLICE_NONE;
	if (reader->control_len == 0)
		return;
	if (reader->control_len == 1) {
		fail(event, CLOSE_PROTOCOL, SLICE("close frame of one byte"));
		return;
	}
	event->code = (unsigned)((uint8_t)reader->control[0] << 8 | (uint8_t)reader->control[1]);
	event->reason = (struct slice){reader->control + 2, reader->control_len - 2u};
	if (!close_code_is_valid(event->code))
		fail(event, CLOSE_PROTOCOL, SLICE("invalid close code"));
	else if (!utf8_is_valid(event->reason))
		fail(event, CLOSE_NOT_UTF8, SLICE("close reason is not UTF-8"));
}

/* A piece of one. False: it continues. */
static bool read_control(
	struct message_reader *reader, const struct frame_piece *piece, struct message_event *event)
{
	if (piece->begins)
		reader->control_len = 0;
	if (piece->data.len > 0) /* the frame has at most FRAME_CONTROL_BYTES */
		memcpy(reader->control + reader->control_len, piece->data.at, piece->data.len);
	reader->control_len = (uint8_t)(reader->control_len + piece->data.len);
	if (!piece->ends)
		return false;
	if (piece->frame.opcode == FRAME_CLOSE) {
		read_close(reader, event);
		return true;
	}
	event->kind = piece->frame.opcode == FRAME_PING ? MESSAGE_PING : MESSAGE_PONG;
	event->payload = (struct slice){reader->control, reader->control_len};
	return true;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* What is wrong with a frame, by its head alone; NULL: nothing. */
static const char *judge_head(const struct message_reader *reader, const struct frame *frame)
{
	bool continues = frame->opcode == FRAME_CONTINUATION;

	if (frame->masked != reader->masked)
		return reader->masked ? "frame is not masked" : "frame is masked";
	if (is_control(frame->opcode)) {
		if (frame->opcode > FRAME_PONG)
			return "unknown opcode";
		return frame->rsv == 0 ? NULL : "reserved bit";
	}
	if (frame->opcode > FRAME_BINARY)
		return "unknown opcode";
	if (frame->rsv & ~FRAME_RSV1 || (frame->rsv && (!reader->deflates || continues)))
		return "reserved bit";
	if (continues && !reader->opcode)
		return "continuation of no message";
	if (!continues && reader->opcode)
		return "message within a message";
	return NULL;
}

static void begin_message(struct message_reader *reader, const struct frame *frame)
{
	reader->opcode = frame->opcode;
	reader->compressed = frame->rsv & FRAME_RSV1;
	reader->utf8 = (struct utf8){0};
	reader->bytes = 0;
}

static void read_data(
	struct message_reader *reader, const struct frame_piece *piece, struct message_event *event)
{
	bool is_text;

	event->begins = piece->begins && piece->frame.opcode != FRAME_CONTINUATION;
	if (event->begins)
		begin_message(reader, &piece->frame);
	if (piece->begins) {
		if (reader->max_bytes > 0 &&
			piece->frame.length > reader->max_bytes - reader->bytes) {
			fail(event, CLOSE_TOO_BIG, SLICE("message too big"));
			return;
		}
		reader->bytes += piece->frame.length;
	}
	event->kind = MESSAGE_DATA;
	event->piece = *piece;
	event->opcode = reader->opcode;
	event->compressed = reader->compressed;
	event->ends = piece->ends && piece->frame.fin;
	is_text = reader->opcode == FRAME_TEXT && !reader->compressed && !reader->trusts_text;
	if (is_text && (!utf8_continue(&reader->utf8, piece->data) ||
			       (event->ends && !utf8_is_whole(&reader->utf8)))) {
		fail(event, CLOSE_NOT_UTF8, SLICE("text is not UTF-8"));
		return;
	}
	if (event->ends)
		reader->opcode = 0;
}

void message_read(struct frame_pool *pool, struct message_reader *reader, struct slice *input,
	struct message_event *event)
{
	struct frame_piece piece;
	const char *why;

	for (;;) {
		switch (frame_read(pool, &reader->frames, input, &piece)) {
		case FRAME_PIECE:
			break;
		case FRAME_MORE:
			event->kind = MESSAGE_MORE;
			return;
		case FRAME_BROKEN:
			fail(event, CLOSE_PROTOCOL, SLICE("malformed frame"));
			return;
		case FRAME_NO_MEMORY:
			event->kind = MESSAGE_NO_MEMORY;
			return;
		}
		why = piece.begins ? judge_head(reader, &piece.frame) : NULL;
		if (why) {
			fail(event, CLOSE_PROTOCOL, slice_of(why));
			return;
		}
		if (!is_control(piece.frame.opcode)) {
			read_data(reader, &piece, event);
			return;
		}
		if (read_control(reader, &piece, event))
			return;
	}
}

void message_reader_end(struct frame_pool *pool, struct message_reader *reader)
{
	frame_reader_end(pool, &reader->frames);
}

struct slice close_payload(unsigned code, struct slice reason, char payload[FRAME_CONTROL_BYTES])
{
	size_t room = FRAME_CONTROL_BYTES - 2;

	if (code == CLOSE_NO_CODE)
		return SLICE_NONE;
	if (reason.len > room) {
		reason.len = room;
		while (reason.len > 0 && ((uint8_t)reason.at[reason.len] & 0xc0) == 0x80)
			reason.len--;
	}
	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	if (reason.len > 0)
		memcpy(payload + 2, reason.at, reason.len);
	return (struct slice){payload, reason.len + 2};
}

/* ---- utf8 ----------------------------------------------------------------------------------- */

/* The first byte of a character. The second one's bounds keep out surrogates, what is longer than
 * it has to be, and what is above U+10FFFF. */
static bool begin(struct utf8 *utf8, uint8_t byte)
{
	utf8->low = 0x80;
	utf8->high = 0xbf;
	if (byte >= 0xc2 && byte <= 0xdf) {
		utf8->left = 1;
	} else if (byte >= 0xe0 && byte <= 0xef) {
		utf8->left = 2;
		if (byte == 0xe0)
			utf8->low = 0xa0;
		if (byte == 0xed)
			utf8->high = 0x9f;
	} else if (byte >= 0xf0 && byte <= 0xf4) {
		utf8->left = 3;
		if (byte == 0xf0)
			utf8->low = 0x90;
		if (byte == 0xf4)
			utf8->high = 0x8f;
	} else {
		return false;
	}
	return true;
}

/* How many of the first bytes are ASCII, eight at a time. */
static size_t skip_ascii(struct slice bytes)
{
	size_t at = 0;

	for (uint64_t word; at + sizeof(word) <= bytes.len; at += sizeof(word)) {
		memcpy(&word, bytes.at + at, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	return at;
}

bool utf8_continue(struct utf8 *utf8, struct slice bytes)
{
	size_t i = utf8->left == 0 ? skip_ascii(bytes) : 0;

	while (i < bytes.len) {
		uint8_t byte = (uint8_t)bytes.at[i++];
		if (utf8->left > 0) {
			if (byte < utf8->low || byte > utf8->high)
				return false;
			utf8->low = 0x80;
			utf8->high = 0xbf;
			if (--utf8->left == 0)
				i += skip_ascii((struct slice){bytes.at + i, bytes.len - i});
		} else if (byte >= 0x80 && !begin(utf8, byte)) {
			return false;
		}
	}
	return true;
}

bool utf8_is_valid(struct slice text)
{
	struct utf8 utf8 = {0};

	return utf8_continue(&utf8, text) && utf8_is_whole(&utf8);
}
