/*
 * One side of a WebSocket connection. The first byte says by which rules, the second how the rest
 * is cut. What must hold: whole and cut lead to the same events, which are those that RFC 6455 read
 * plainly finds; and what of it is passed on, is read again as the same.
 */
#include "fuzz_message.h"

#include "frames/messages.h"

#include "../unit/websocket/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct passed_on {
	struct frame_sink sink;
	struct oracle_log bytes;
};

static bool put(struct frame_sink *sink, struct slice bytes)
{
	struct passed_on *to = (struct passed_on *)sink;

	oracle_note(&to->bytes, bytes.at ? bytes.at : "", bytes.len);
	return true;
}

static void note_data(struct frame_pool *pool, const struct message_event *event,
	struct oracle_log *log, struct oracle_log *message, struct passed_on *to)
{
	if (event->begins)
		message->len = 0;
	oracle_note(message, event->piece.data.at, event->piece.data.len);
	if (!event->ends)
		return;
	oracle_note_event(log, "data", event->opcode * 8u + (event->compressed ? FRAME_RSV1 : 0),
		message->text, message->len);
	MUST(frame_write_whole(pool, event->opcode, event->compressed ? FRAME_RSV1 : 0, true,
		(struct slice){message->text, message->len}, &to->sink));
}

static void note_control(struct frame_pool *pool, const struct message_event *event,
	struct oracle_log *log, struct passed_on *to)
{
	static const uint8_t opcodes[] = {[MESSAGE_PING] = FRAME_PING,
		[MESSAGE_PONG] = FRAME_PONG,
		[MESSAGE_CLOSE] = FRAME_CLOSE};
	uint8_t opcode = opcodes[event->kind];

	oracle_note_event(log, "control", opcode, event->payload.at, event->payload.len);
	MUST(frame_write_whole(pool, opcode, 0, true, event->payload, &to->sink));
}

static void read_all(struct frame_pool *pool, const struct oracle_rules *rules, const char *text,
	size_t len, size_t step, struct oracle_log *log, struct passed_on *to)
{
	struct message_reader reader = {.masked = rules->masked,
		.deflates = rules->deflates,
		.max_bytes = rules->max_bytes};
	struct message_event event = {.kind = MESSAGE_MORE};
	struct oracle_log message = {0};
	size_t end;

	for (size_t at = 0; at < len && event.kind != MESSAGE_BROKEN; at = end) {
		end = step < len - at ? at + step : len;
		char *piece = fuzz_copy(text + at, end - at);
		struct slice input = {piece, end - at};
		do {
			message_read(pool, &reader, &input, &event);
			if (event.kind == MESSAGE_DATA)
				note_data(pool, &event, log, &message, to);
			else if (event.kind == MESSAGE_PING || event.kind == MESSAGE_PONG ||
				 event.kind == MESSAGE_CLOSE)
				note_control(pool, &event, log, to);
			else if (event.kind == MESSAGE_BROKEN)
				oracle_note_event(log, "broken", event.code, "", 0);
		} while (event.kind != MESSAGE_MORE && event.kind != MESSAGE_BROKEN);
		free(piece);
	}
	message_reader_end(pool, &reader);
	free(message.text);
}

static void assert_same(const struct oracle_log *a, const struct oracle_log *b)
{
	MUST(a->len == b->len);
	MUST(a->len == 0 || memcmp(a->text, b->text, a->len) == 0);
}

/* All but the fault that ended it: what was passed on has none. */
static void cut_fault(struct oracle_log *log)
{
	size_t fault = strlen("broken") + sizeof(unsigned) + sizeof(size_t);

	if (log->len >= fault && memcmp(log->text + log->len - fault, "broken", 6) == 0)
		log->len -= fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oracle_log expected = {0};
	struct frame_pool pool;

	if (size < 2)
		return 0;
	const struct oracle_rules rules = {
		data[0] & 1, data[0] & 2, data[0] & 4 ? data[0] : 0, false};
	const struct oracle_rules onward = {true, true, 0, false};
	const char *text = (const char *)data + 2;
	size_t len = size - 2;

	frame_pool_init(&pool);
	oracle_read(&rules, data + 2, len, &expected);
	for (int way = 0; way < 2; way++) {
		struct oracle_log found = {0}, again = {0};
		struct passed_on to = {.sink = {put}};
		read_all(&pool, &rules, text, len, way ? 1u + data[1] : len + 1, &found, &to);
		assert_same(&found, &expected);
		cut_fault(&found);
		oracle_read(&onward, (const uint8_t *)to.bytes.text, to.bytes.len, &again);
		assert_same(&found, &again);
		free(found.text);
		free(again.text);
		free(to.bytes.text);
	}
	free(expected.text);
	frame_pool_clear(&pool);
	return 0;
}
