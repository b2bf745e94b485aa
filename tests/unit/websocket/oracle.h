/*
 * What a sequence of WebSocket frames means, by RFC 6455 read plainly: all bytes at once, one frame
 * after the other. For tests and the fuzz target, which hold message_read to it.
 */
#ifndef TESTS_UNIT_WEBSOCKET_ORACLE_H
#define TESTS_UNIT_WEBSOCKET_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum oracle_utf8 { ORACLE_UTF8, ORACLE_UTF8_CUT, ORACLE_NOT_UTF8 };

/* One character by the definition: decode it, then encode what was decoded. Returns its bytes, or
 * 0.
 */
static inline size_t oracle_character(const uint8_t *at, size_t len)
{
	uint32_t code;
	size_t bytes = at[0] < 0x80             ? 1
		       : (at[0] & 0xe0) == 0xc0 ? 2
		       : (at[0] & 0xf0) == 0xe0 ? 3
		       : (at[0] & 0xf8) == 0xf0 ? 4
						: 0;

	if (bytes == 0 || bytes > len)
		return 0;
	code = bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);
	for (size_t i = 1; i < bytes; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	size_t shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	return bytes == shortest ? bytes : 0;
}

/* Can these bytes, too few for a character, become one? Tries. */
static inline bool oracle_can_go_on(const uint8_t *at, size_t len)
{
	static const uint8_t tails[] = {0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf};
	uint8_t text[4];

	for (size_t more = 1; len + more <= 4; more++) {
		for (size_t n = 0; n < 6 * 6 * 6; n++) {
			memcpy(text, at, len);
			size_t rest = n;
			for (size_t i = 0; i < more; i++, rest /= 6)
				text[len + i] = tails[rest % 6];
			if (oracle_character(text, len + more) == len + more)
				return true;
		}
	}
	return false;
}

static inline enum oracle_utf8 oracle_utf8(const uint8_t *at, size_t len)
{
	while (len > 0) {
		size_t bytes = oracle_character(at, len);
		if (bytes == 0)
			return len < 4 && oracle_can_go_on(at, len) ? ORACLE_UTF8_CUT
								    : ORACLE_NOT_UTF8;
		at += bytes;
		len -= bytes;
	}
	return ORACLE_UTF8;
}

/* What happens, written down: a line an event, so that two readings compare as texts. */
struct oracle_log {
	char *text;
	size_t len, room;
};

static inline void oracle_note(struct oracle_log *log, const void *bytes, size_t len)
{
	if (log->len + len + 1 > log->room) {
		log->room = 2 * (log->len + len + 1);
		log->text = realloc(log->text, log->room);
		if (!log->text)
			abort();
	}
	if (len > 0)
		memcpy(log->text + log->len, bytes, len);
	log->len += len;
}

static inline void oracle_note_event(
	struct oracle_log *log, const char *name, unsigned number, const void *bytes, size_t len)
{
	oracle_note(log, name, strlen(name));
	oracle_note(log, &number, sizeof(number));
	oracle_note(log, &len, sizeof(len));
	oracle_note(log, bytes, len);
}

struct oracle_rules {
	bool masked, deflates;
	uint64_t max_bytes; /* 0: no bound */
	bool trusts_text;   /* texts need not be UTF-8 */
};

struct oracle_head {
	uint8_t opcode, rsv;
	bool fin, masked;
	uint64_t length;
	size_t bytes; /* of the head */
};

/* 1: whole; 0: more is needed; -1: no such head */
static inline int oracle_read_head(const uint8_t *at, size_t len, struct oracle_head *head)
{
	if (len < 2)
		return 0;
	*head = (struct oracle_head){
		at[0] & 15, at[0] >> 4 & 7, at[0] >> 7, at[1] >> 7, at[1] & 127, 2};
	if (head->opcode & 8 && (!head->fin || head->length > 125))
		return -1;
	size_t more = head->length == 126 ? 2 : head->length == 127 ? 8 : 0;
	if (len < 2 + more)
		return 0;
	if (more > 0) {
		head->length = 0;
		for (size_t i = 0; i < more; i++)
			head->length = head->length << 8 | at[2 + i];
		if (head->length < (more == 2 ? 126u : 65536u) || head->length >> 63)
			return -1;
	}
	head->bytes = 2 + more + (head->masked ? 4 : 0);
	return len >= head->bytes ? 1 : 0;
}

struct oracle_message {
	bool begun;
	uint8_t opcode, rsv;
	uint64_t promised; /* by the heads of its frames */
	uint8_t *payload;
	size_t len;
};

/* 0, or the code that ends it. */
static inline unsigned oracle_judge(const struct oracle_rules *rules,
	const struct oracle_head *head, const struct oracle_message *message)
{
	bool control = head->opcode & 8, first = head->opcode == 1 || head->opcode == 2;

	if (head->masked != rules->masked)
		return 1002;
	if (control)
		return head->opcode > 10 || head->rsv != 0 ? 1002 : 0;
	if (head->opcode > 2 || head->rsv & 3)
		return 1002;
	if (head->rsv != 0 && !(rules->deflates && first))
		return 1002;
	if (first == message->begun)
		return 1002;
	uint64_t before = first ? 0 : message->promised;
	return rules->max_bytes > 0 && head->length > rules->max_bytes - before ? 1009 : 0;
}

static inline unsigned oracle_judge_close(const uint8_t *payload, size_t len)
{
	unsigned code;

	if (len == 0)
		return 0;
	if (len == 1)
		return 1002;
	code = (unsigned)payload[0] << 8 | payload[1];
	if (!((code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
		    (code >= 3000 && code <= 4999)))
		return 1002;
	return oracle_utf8(payload + 2, len - 2) == ORACLE_UTF8 ? 0 : 1007;
}

/* Some of a data frame's payload, or all of it. 0, or the code that ends it. */
static inline unsigned oracle_take_data(struct oracle_message *message,
	const struct oracle_head *head, const uint8_t *payload, size_t len, bool trusts_text,
	struct oracle_log *log)
{
	bool whole = len == head->length && head->fin;

	if (head->opcode != 0) {
		message->begun = true;
		message->opcode = head->opcode;
		message->rsv = head->rsv;
		message->promised = message->len = 0;
	}
	message->promised += head->length;
	if (len > 0)
		memcpy(message->payload + message->len, payload, len);
	message->len += len;
	if (message->opcode == 1 && message->rsv == 0 && !trusts_text) {
		enum oracle_utf8 is = oracle_utf8(message->payload, message->len);
		if (is == ORACLE_NOT_UTF8 || (whole && is != ORACLE_UTF8))
			return 1007;
	}
	if (whole) {
		oracle_note_event(log, "data", message->opcode * 8u + message->rsv,
			message->payload, message->len);
		message->begun = false;
	}
	return 0;
}

static inline unsigned oracle_take_control(
	const struct oracle_head *head, const uint8_t *payload, size_t len, struct oracle_log *log)
{
	unsigned code = 0;

	if (len < head->length)
		return 0;
	if (head->opcode == 8)
		code = oracle_judge_close(payload, len);
	if (code == 0)
		oracle_note_event(log, "control", head->opcode, payload, len);
	return code;
}

/* Writes what happens to `log`. A close frame ends nothing here. */
static inline void oracle_read(
	const struct oracle_rules *rules, const uint8_t *bytes, size_t len, struct oracle_log *log)
{
	struct oracle_message message = {.payload = malloc(len + 1)};
	uint8_t *payload = malloc(len + 1);
	unsigned code = 0;

	while (code == 0 && len > 0) {
		struct oracle_head head;
		int found = oracle_read_head(bytes, len, &head);
		if (found < 0)
			code = 1002;
		if (found <= 0)
			break;
		size_t here =
			len - head.bytes < head.length ? len - head.bytes : (size_t)head.length;
		if (here == 0 && head.length > 0)
			break; /* not seen before its first byte */
		for (size_t i = 0; i < here; i++)
			payload[i] = bytes[head.bytes + i] ^
				     (head.masked ? bytes[head.bytes - 4 + i % 4] : 0);
		code = oracle_judge(rules, &head, &message);
		if (code == 0)
			code = head.opcode & 8 ? oracle_take_control(&head, payload, here, log)
					       : oracle_take_data(&message, &head, payload, here,
							 rules->trusts_text, log);
		bytes += head.bytes + here;
		len -= head.bytes + here;
	}
	if (code != 0)
		oracle_note_event(log, "broken", code, "", 0);
	free(payload);
	free(message.payload);
}

#endif
