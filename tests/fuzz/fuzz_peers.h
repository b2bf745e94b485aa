/*
 * Peers of a WebSocket, for targets of whole connections: streams in memory, and an input that says
 * what each peer sends, takes and leaves out. A target has one stage for all its inputs: its limits
 * and sessions continue from input to input, as its time does.
 */
#ifndef TESTS_FUZZ_PEERS_H
#define TESTS_FUZZ_PEERS_H

#include "fuzz_message.h"

#include "../unit/http1/connected.h"
#include "../unit/websocket/oracle.h"
#include "daemon/wait_check.h"
#include "websocket/socket.h"

#define FUZZ_REQUEST                                                                               \
	"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"           \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

struct fuzz_peer {
	struct memory_peer *wire;
	bool masks;
	bool over; /* has ended its output, or cut */
	struct oracle_log sent, got;
};

struct fuzz_input {
	const uint8_t *at, *end;
};

static struct stage *stage;

uint64_t __wrap_clock_boot_ns(void);

/* Limits are judged by the stage's time, too, so that an input leads to the same each time. */
uint64_t __wrap_clock_boot_ns(void)
{
	return stage ? worker_now_ns(stage->worker) : STAGE_START_MS * CLOCK_NS_PER_MS;
}

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

/* A turn of the loop, behind which all that waits has a deadline. */
static inline void fuzz_turn(void)
{
	stage->worker->wall.turn_ns = ++stage->worker->loop.now_ns;
	stage_turn(stage);
	wait_check(stage->worker);
	lines_clear();
}

static inline void fuzz_later(uint64_t ms)
{
	stage_at(stage, worker_now_ms(stage->worker) - STAGE_START_MS + ms);
}

static inline void fuzz_send(struct fuzz_peer *peer, const void *bytes, size_t len)
{
	if (peer->over)
		return;
	oracle_note(&peer->sent, bytes, memory_peer_send(peer->wire, bytes, len));
}

static inline void fuzz_send_frame(struct fuzz_input *input, struct fuzz_peer *peer)
{
	uint8_t first = fuzz_byte(input), len = fuzz_byte(input), frame[400];
	size_t n = 0;

	frame[n++] = first;
	frame[n++] = (uint8_t)((len < 126 ? len : 126) | (peer->masks ? 0x80 : 0));
	if (len >= 126) {
		frame[n++] = 0;
		frame[n++] = len;
	}
	if (peer->masks) {
		memset(frame + n, 0, 4); /* so that the input's bytes are the payload's */
		n += 4;
	}
	for (unsigned i = 0; i < len; i++)
		frame[n++] = input->at < input->end ? fuzz_byte(input) : 'x';
	fuzz_send(peer, frame, n);
}

static inline void fuzz_send_raw(struct fuzz_input *input, struct fuzz_peer *peer)
{
	size_t len = fuzz_byte(input), here = (size_t)(input->end - input->at);

	len = len < here ? len : here;
	fuzz_send(peer, input->at, len);
	input->at += len;
}

static inline void fuzz_take(struct fuzz_peer *peer, size_t most)
{
	static uint8_t bytes[STAGE_ROOM];
	long n = memory_peer_receive(peer->wire, bytes, most);

	if (n > 0)
		oracle_note(&peer->got, bytes, (size_t)n);
}

static inline void fuzz_leave(struct fuzz_peer *peer, bool resets)
{
	if (peer->over)
		return;
	peer->over = true;
	if (resets)
		memory_peer_reset(peer->wire);
	else
		memory_peer_end_output(peer->wire);
}

static inline void fuzz_free(struct fuzz_peer *peer)
{
	free(peer->sent.text);
	free(peer->got.text);
}

/* Its client has sent its handshake. */
static inline void fuzz_ask(struct fuzz_peer *client)
{
	fuzz_later(3600 * 1000); /* limits have room */
	connected_accept(stage, &client->wire, "192.0.2.1");
	fuzz_turn();
	MUST(memory_peer_send(client->wire, FUZZ_REQUEST, strlen(FUZZ_REQUEST)) ==
		strlen(FUZZ_REQUEST));
	fuzz_turn();
	MUST(stage->server_count == 1);
}

/* It has been answered. */
static inline void fuzz_opened(struct fuzz_peer *client)
{
	fuzz_take(client, STAGE_ROOM);
	MUST(websockets_of(stage->worker)->first && client->got.len > 12);
	MUST(memcmp(client->got.text, "HTTP/1.1 101", 12) == 0);
	client->got.len = 0;
	client->masks = true;
}

/* Whole frames, and one that is cut at most, none of them behind a close frame. */
static inline void fuzz_ends_with_close(const struct oracle_log *got)
{
	const uint8_t *at = (const uint8_t *)got->text;
	size_t len = got->len;

	while (len > 0) {
		struct oracle_head head;
		if (oracle_read_head(at, len, &head) <= 0 || len - head.bytes < head.length)
			return;
		at += head.bytes + head.length;
		len -= head.bytes + (size_t)head.length;
		MUST(head.opcode != 8 || len == 0);
	}
}

/* An event of an oracle's log. */
struct fuzz_event {
	char kind; /* 'd': data; 'c': control; 'b': a fault */
	unsigned number;
	const char *payload;
	size_t len, bytes; /* of the payload; of the event */
};

static inline struct fuzz_event fuzz_event_at(const struct oracle_log *log, size_t at)
{
	struct fuzz_event event = {.kind = log->text[at]};
	size_t name = event.kind == 'd' ? 4 : event.kind == 'c' ? 7 : 6;

	memcpy(&event.number, log->text + at + name, sizeof(event.number));
	memcpy(&event.len, log->text + at + name + sizeof(event.number), sizeof(event.len));
	event.bytes = name + sizeof(event.number) + sizeof(event.len);
	event.payload = log->text + at + event.bytes;
	event.bytes += event.len;
	return event;
}

#endif
