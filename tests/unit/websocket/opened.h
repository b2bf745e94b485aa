/*
 * A WebSocket that is open, of a client's connection and a server's that are streams in memory. The
 * test plays both peers, and the time; frames are written and read here, without the room's own.
 *
 *   opened_client, opened_server --> sluice --> opened_to_server, opened_to_client
 *
 * What came is one text: `text(hello) ping(x) text-(begins) cont(ends) close(1001 why) end`.
 * Programs need $(stage_sources), $(stage_flags) and $(fake_clock_wraps).
 */
#ifndef TESTS_WEBSOCKET_OPENED_H
#define TESTS_WEBSOCKET_OPENED_H

#include "stats/stats.h"
#include "tests/unit/base/fake_clock.h"
#include "tests/unit/http1/connected.h"
#include "websocket/close.h"
#include "websocket/socket.h"

#define OPENED_ROUTE "websocket = messages\nping_interval = 0s\nsocket_idle_timeout = 0s\n"
#define OPENED_REQUEST                                                                             \
	"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"           \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define OPENED_ANSWER                                                                              \
	"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                         \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

#define OPENED_BYTES (4 * STAGE_ROOM)

/* What a peer has received. */
struct opened_side {
	struct memory_peer *wire;
	bool masked; /* the frames that it gets must be */
	bool over;
	size_t len; /* of the frame that is not whole yet */
	uint8_t bytes[OPENED_BYTES];
	char text[OPENED_BYTES];
};

struct opened {
	struct connected c;
	struct stage *stage;
	struct websocket *socket;
	struct passage *passage;
	struct opened_side client, server;
};

/* Limits are judged by the stage's time, too: a slow machine changes no figure. */
static struct worker *opened_worker;

static inline uint64_t opened_boot_ns(void)
{
	return opened_worker ? worker_now_ns(opened_worker) : STAGE_START_MS * CLOCK_NS_PER_MS;
}

/* ---- frames ---------------------------------------------------------------------------------- */

#define OPENED_FIN 0x80

/* A turn in which sockets have done nothing yet. */
static inline void opened_turn(struct opened *o)
{
	o->stage->worker->wall.turn_ns = ++o->stage->worker->loop.now_ns;
	stage_turn(o->stage);
}

/* `first`: the frame's first byte. */
static inline void opened_send(struct opened *o, struct memory_peer *wire, bool masked,
	uint8_t first, struct slice payload)
{
	static const uint8_t key[4] = {0x11, 0x22, 0x33, 0x44};
	static uint8_t bytes[STAGE_ROOM + FRAME_HEAD_BYTES];
	size_t n = 0;

	assert_true(payload.len < 65536);
	bytes[n++] = first;
	if (payload.len < 126) {
		bytes[n++] = (uint8_t)(payload.len | (masked ? 0x80u : 0));
	} else {
		bytes[n++] = masked ? 0xfe : 0x7e;
		bytes[n++] = (uint8_t)(payload.len >> 8);
		bytes[n++] = (uint8_t)payload.len;
	}
	if (masked) {
		memcpy(bytes + n, key, 4);
		n += 4;
	}
	for (size_t i = 0; i < payload.len; i++)
		bytes[n++] = (uint8_t)((uint8_t)payload.at[i] ^ (masked ? key[i % 4] : 0));
	assert_int_equal(memory_peer_send(wire, bytes, n), n);
	opened_turn(o);
}

static inline void opened_client(struct opened *o, uint8_t opcode, const char *text)
{
	opened_send(o, o->client.wire, true, OPENED_FIN | opcode, slice_of(text));
}

static inline void opened_server(struct opened *o, uint8_t opcode, const char *text)
{
	opened_send(o, o->server.wire, false, OPENED_FIN | opcode, slice_of(text));
}

/* A close frame's payload. */
static inline struct slice opened_close_payload(unsigned code, const char *reason)
{
	static char payload[128];

	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	strcpy(payload + 2, reason);
	return (struct slice){payload, 2 + strlen(reason)};
}

static inline void opened_client_closes(struct opened *o, unsigned code, const char *reason)
{
	opened_send(o, o->client.wire, true, OPENED_FIN | FRAME_CLOSE,
		opened_close_payload(code, reason));
}

static inline void opened_server_closes(struct opened *o, unsigned code, const char *reason)
{
	opened_send(o, o->server.wire, false, OPENED_FIN | FRAME_CLOSE,
		opened_close_payload(code, reason));
}

static inline const char *opened_name(uint8_t opcode)
{
	static const char *const names[16] = {[0] = "cont",
		[1] = "text",
		[2] = "binary",
		[8] = "close",
		[9] = "ping",
		[10] = "pong"};

	assert_non_null(names[opcode]);
	return names[opcode];
}

/* `~`: RSV1. Of payloads that are long: the first character and how many. */
static inline void opened_note(
	struct opened_side *side, uint8_t first, const char *payload, size_t len)
{
	char *at = side->text + strlen(side->text);
	size_t room = sizeof(side->text) - strlen(side->text);
	const char *name = opened_name(first & 15);
	const char *more = first & 0x40 ? "~" : first & OPENED_FIN ? "" : "-";

	if ((first & 15) == FRAME_CLOSE && len >= 2)
		snprintf(at, room, "close(%u %.*s) ",
			(unsigned)(uint8_t)payload[0] << 8 | (uint8_t)payload[1], (int)len - 2,
			payload + 2);
	else if (len > 200)
		snprintf(at, room, "%s%s(%c x %zu) ", name, more, payload[0], len);
	else
		snprintf(at, room, "%s%s(%.*s) ", name, more, (int)len, payload);
}

/* Takes a frame off the front. False: there is no whole one. */
static inline bool opened_take(struct opened_side *side)
{
	uint8_t *b = side->bytes;
	size_t head = 2, len;

	if (side->len < 2)
		return false;
	len = b[1] & 0x7f;
	if (len == 126) {
		head = 4;
		len = (size_t)b[2] << 8 | b[3];
	} else if (len == 127) {
		head = 10;
		len = (size_t)b[6] << 24 | (size_t)b[7] << 16 | (size_t)b[8] << 8 | b[9];
	}
	assert_int_equal(b[1] >> 7, side->masked);
	const uint8_t *key = b + head;
	if (side->masked)
		head += 4;
	if (side->len < head + len)
		return false;
	for (size_t i = 0; i < len && side->masked; i++)
		b[head + i] ^= key[i % 4];
	opened_note(side, b[0], (const char *)b + head, len);
	side->len -= head + len;
	memmove(b, b + head + len, side->len);
	return true;
}

/* What has come whole since the last call. */
static inline const char *opened_got(struct opened *o, struct opened_side *side)
{
	side->text[0] = '\0';
	for (;;) {
		long n = memory_peer_receive(
			side->wire, side->bytes + side->len, sizeof(side->bytes) - side->len);
		if (n <= 0) {
			if (n < 0 && !side->over)
				strcat(side->text, n == -1 ? "end" : "cut");
			side->over |= n < 0;
			break;
		}
		side->len += (size_t)n;
		while (opened_take(side))
			;
		opened_turn(o); /* there is room for more */
	}
	return side->text;
}

static inline const char *opened_to_client(struct opened *o)
{
	return opened_got(o, &o->client);
}

static inline const char *opened_to_server(struct opened *o)
{
	return opened_got(o, &o->server);
}

/* ---- its life -------------------------------------------------------------------------------- */

/* With permessage-deflate. */
#define OPENED_DEFLATE_REQUEST                                                                     \
	"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"           \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"             \
	"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
#define OPENED_DEFLATE_ANSWER                                                                      \
	"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                         \
	"Sec-WebSocket-Extensions: permessage-deflate\r\n"                                         \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

static inline void opened_begin_with(
	struct opened *o, const struct stage_conf *conf, const char *request, const char *answer)
{
	memset(o, 0, sizeof(*o));
	opened_worker = NULL;
	fake_clock_boot_ns = opened_boot_ns;
	connected_open(&o->c, conf);
	o->stage = o->c.stage;
	opened_worker = o->stage->worker;
	connected_send(&o->c, request);
	assert_has(stage_server_got(o->stage, 0), "Upgrade: websocket\r\n");
	stage_server_sends(o->stage, 0, answer);
	assert_has(connected_got(&o->c), "HTTP/1.1 101 ");
	o->client.wire = o->c.wire;
	o->server.wire = o->stage->servers[0].wire;
	o->server.masked = true;
	o->socket = websockets_of(o->stage->worker)->first;
	assert_non_null(o->socket);
	o->socket->all->random = 1;
	o->passage = o->socket->passage;
}

static inline void opened_begin(struct opened *o, const struct stage_conf *conf)
{
	opened_begin_with(o, conf, OPENED_REQUEST, OPENED_ANSWER);
}

static inline bool opened_is_open(const struct opened *o)
{
	return websockets_of(o->stage->worker)->first != NULL;
}

static inline void opened_end(struct opened *o)
{
	connected_end(&o->c);
	opened_worker = NULL;
}

/* ---- time ------------------------------------------------------------------------------------ */

static inline struct deadline *opened_deadline(struct opened *o)
{
	return &o->passage->wait.deadline;
}

/* When its deadline passes, since the stage's beginning. */
static inline uint64_t opened_due_ms(struct opened *o)
{
	return opened_deadline(o)->at_ms - STAGE_START_MS;
}

static inline void opened_pass(struct opened *o)
{
	stage_pass(o->stage, opened_deadline(o));
}

/* Of the route's row. */
static inline uint64_t opened_count(struct opened *o, unsigned slot)
{
	uint64_t slots[STATS_ROUTE_SLOTS];

	stats_sum(o->stage->daemon.node.stats, STATS_ROUTE, o->stage->daemon.site->rows.routes[0],
		slots);
	return slots[slot];
}

#endif
