/*
 * A whole WebSocket, from its handshake to its end: both connections are streams in memory, the
 * input says what each peer sends, takes and leaves out, and how time passes. What must hold:
 *
 *   - each peer gets frames that RFC 6455 read plainly has no fault with, and none behind a close
 *     frame; a server gets the messages that its client sent, whole and in order, a client its
 *     server's, and between these what is sent to it beside them, in the order of each lane
 *   - the sender of each of these gets one report of its outcome
 *   - each turn leaves a deadline for all that waits (SLUICE_CHECK_WAITS), and when it is over,
 *     nothing is left of it
 */
#include "fuzz_message.h"

#include "../unit/http1/connected.h"
#include "../unit/websocket/oracle.h"
#include "daemon/wait_check.h"
#include "queue/queue.h"
#include "websocket/close.h"
#include "websocket/send.h"
#include "websocket/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MOST 4096

static const struct stage_conf conf = {
	.more = "[limit l]\nkey = ip\nrate = 5 per 1s\n",
	.route = "websocket = messages\nmessage_limits = l\nmax_message_size = 4k\nsession = ip\n"
		 "ordering = strict\nclose_timeout = 2s\nmessage_timeout = 3s\nping_interval = "
		 "20s\nsocket_queue_messages = 6\nsocket_queue_bytes = 40k\non_socket_queue_full = "
		 "drop\n",
};

#define REQUEST                                                                                    \
	"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"           \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define ANSWER                                                                                     \
	"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                         \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

struct peer {
	struct memory_peer *wire;
	bool masks;
	bool over; /* has ended its output, or cut */
	struct oracle_log sent, got;
};

/* What is sent to the client beside its server's messages: each begins with these bytes, its lane
 * and its number. */
#define OURS "\xff\xfeours"
struct ours {
	char mark[8];
	uint32_t lane, number;
};

struct sends {
	struct send_report report;
	uint32_t made, told[SEND_RESULTS];
};

struct fuzz {
	struct stage *stage;
	struct sends sends;
	struct peer client, server;
	const uint8_t *at, *end;
};

/* Made once: its limits and sessions go on from input to input, as its time does. */
static struct stage *stage;

uint64_t __wrap_clock_boot_ns(void);

/* Limits are judged by the stage's time, too, so that an input leads to the same each time. */
uint64_t __wrap_clock_boot_ns(void)
{
	return stage ? worker_now_ns(stage->worker) : STAGE_START_MS * CLOCK_NS_PER_MS;
}

static uint8_t next_byte(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static struct websocket *socket_now(struct fuzz *f)
{
	return f->stage->worker->websockets->first;
}

static void turn(struct fuzz *f)
{
	f->stage->worker->wall.turn_ns = ++f->stage->worker->loop.now_ns;
	stage_turn(f->stage);
	wait_check(f->stage->worker);
	lines_clear();
}

static void later(struct fuzz *f, uint64_t ms)
{
	stage_at(f->stage, worker_now_ms(f->stage->worker) - STAGE_START_MS + ms);
}

/* ---- what peers do --------------------------------------------------------------------------- */

static void send_bytes(struct peer *peer, const uint8_t *bytes, size_t len)
{
	if (peer->over)
		return;
	oracle_note(&peer->sent, bytes, memory_peer_send(peer->wire, bytes, len));
}

static void send_frame(struct fuzz *f, struct peer *peer)
{
	uint8_t first = next_byte(f), len = next_byte(f), frame[400];
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
		frame[n++] = f->at < f->end ? next_byte(f) : 'x';
	send_bytes(peer, frame, n);
}

static void send_raw(struct fuzz *f, struct peer *peer)
{
	size_t len = next_byte(f), here = (size_t)(f->end - f->at);

	len = len < here ? len : here;
	send_bytes(peer, f->at, len);
	f->at += len;
}

static void take(struct peer *peer, size_t most)
{
	static uint8_t bytes[STAGE_ROOM];
	long n = memory_peer_receive(peer->wire, bytes, most);

	if (n > 0)
		oracle_note(&peer->got, bytes, (size_t)n);
}

static void leave(struct peer *peer, bool resets)
{
	if (peer->over)
		return;
	peer->over = true;
	if (resets)
		memory_peer_reset(peer->wire);
	else
		memory_peer_end_output(peer->wire);
}

/* ---- what we do ------------------------------------------------------------------------------ */

/* The next deadline passes, its message's or its own. */
static void pass(struct fuzz *f)
{
	struct websocket *socket = socket_now(f);
	struct deadline *deadline;

	if (!socket)
		return;
	deadline = &socket->passage->wait.deadline;
	struct exchange *message = socket->client.first;
	if (message && message->turn.has_deadline && message->turn.deadline.at_ms < deadline->at_ms)
		deadline = &message->turn.deadline;
	stage_pass(f->stage, deadline);
}

static void finish(struct fuzz *f)
{
	socket_finish(socket_now(f), CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(socket_now(f));
}

static void tell(struct send_report *report, enum send_result result)
{
	((struct sends *)report)->told[result]++;
}

static void send_ours(struct fuzz *f, enum send_lane lane)
{
	static char payload[256 * 256];
	struct ours ours = {.mark = OURS, .lane = lane, .number = f->sends.made++};
	size_t len = sizeof(ours) + 200u * next_byte(f);

	memcpy(payload, &ours, sizeof(ours));
	struct shared_frame *frame = shared_frame_new(
		&f->stage->worker->node->sends, FRAME_BINARY, (struct slice){payload, len});
	MUST(frame);
	f->sends.report.tell = tell;
	socket_send(socket_now(f), lane, frame, &f->sends.report);
	shared_frame_release(frame);
}

static void end_session(struct fuzz *f, uint8_t how)
{
	static const enum session_state states[] = {
		SESSION_DRAINING, SESSION_CLOSING, SESSION_ABORTED};

	queue_close_all(
		f->stage->relay.node.queue, states[how % 3], worker_now_ns(f->stage->worker));
}

static void step(struct fuzz *f)
{
	uint8_t what = next_byte(f);
	struct peer *peer = what & 1 ? &f->client : &f->server;

	switch (what >> 1 & 7) {
	case 0:
		send_raw(f, peer);
		break;
	case 1:
	case 2:
		send_frame(f, peer);
		break;
	case 3:
		take(peer, 1u + 256u * next_byte(f));
		break;
	case 4:
		pass(f);
		break;
	case 5:
		later(f, 16u * next_byte(f));
		break;
	case 6:
		if (what & 16)
			leave(peer, what & 32);
		else if (socket_now(f))
			send_ours(f, what & 32 ? SEND_HIGH : SEND_NORMAL);
		break;
	case 7:
		if (what & 16 && socket_now(f))
			finish(f);
		else if (what & 32)
			end_session(f, next_byte(f));
		break;
	}
	turn(f);
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Is it one of ours? Then its number is behind those of its lane before it. */
static bool is_ours(const char *payload, size_t len, uint32_t next[SEND_LANES])
{
	struct ours ours;

	if (len < sizeof(ours) || memcmp(payload, OURS, sizeof(OURS)) != 0)
		return false;
	memcpy(&ours, payload, sizeof(ours));
	MUST(ours.lane < SEND_LANES && ours.number >= next[ours.lane]);
	next[ours.lane] = ours.number + 1;
	return true;
}

/* The log's events of data alone, one behind the other; `faulty`: does it end in a fault? */
static struct oracle_log data_of(const struct oracle_log *log, bool *faulty)
{
	struct oracle_log data = {0};
	uint32_t next[SEND_LANES] = {0};
	size_t at = 0;

	*faulty = false;
	while (at < log->len) {
		char first = log->text[at];
		size_t name = first == 'd' ? 4 : first == 'c' ? 7 : 6, head, len;
		head = name + sizeof(unsigned) + sizeof(size_t);
		memcpy(&len, log->text + at + name + sizeof(unsigned), sizeof(len));
		if (first == 'd' && !is_ours(log->text + at + head, len, next))
			oracle_note(&data, log->text + at, head + len);
		*faulty |= first == 'b';
		at += head + len;
	}
	return data;
}

/* Whole frames, and one that is cut at most, none of them behind a close frame. */
static void assert_ends_with_close(const struct oracle_log *got)
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

static void assert_passed_on(
	const struct peer *from, const struct peer *to, uint64_t max_bytes, bool trusts_text)
{
	const struct oracle_rules sent_by = {from->masks, false, max_bytes, trusts_text};
	const struct oracle_rules got_by = {!to->masks, false, 0, trusts_text};
	struct oracle_log sent = {0}, got = {0};
	bool faulty;

	oracle_read(&sent_by, (const uint8_t *)from->sent.text, from->sent.len, &sent);
	oracle_read(&got_by, (const uint8_t *)to->got.text, to->got.len, &got);
	struct oracle_log expected = data_of(&sent, &faulty), found = data_of(&got, &faulty);
	MUST(!faulty);
	MUST(found.len <= expected.len);
	MUST(found.len == 0 || memcmp(found.text, expected.text, found.len) == 0);
	assert_ends_with_close(&to->got);
	free(sent.text);
	free(got.text);
	free(expected.text);
	free(found.text);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void open_both(struct fuzz *f)
{
	later(f, 3600 * 1000); /* limits have room */
	connected_accept(stage, &f->client.wire, "192.0.2.1");
	turn(f);
	MUST(memory_peer_send(f->client.wire, REQUEST, strlen(REQUEST)) == strlen(REQUEST));
	turn(f);
	MUST(stage->server_count == 1);
	stage_server_got(stage, 0);
	stage_server_sends(stage, 0, ANSWER);
	f->server.wire = stage->servers[0].wire;
	take(&f->client, STAGE_ROOM);
	MUST(socket_now(f) && f->client.got.len > 12);
	MUST(memcmp(f->client.got.text, "HTTP/1.1 101", 12) == 0);
	f->client.got.len = 0;
	f->client.masks = true;
}

/* Both take all there is, and what they wait for does not come. */
static void run_to_the_end(struct fuzz *f)
{
	for (unsigned i = 0; i < 8; i++) {
		take(&f->client, STAGE_ROOM);
		take(&f->server, STAGE_ROOM);
		turn(f);
	}
	if (socket_now(f)) {
		socket_close(socket_now(f), CLOSE_NORMAL, SLICE("enough"), CLOSE_NORMAL, "enough");
		socket_run(socket_now(f));
	}
	for (unsigned i = 0; i < 20 && socket_now(f); i++) {
		pass(f);
		turn(f);
		take(&f->client, STAGE_ROOM);
		take(&f->server, STAGE_ROOM);
	}
	MUST(!socket_now(f));
	while (f->stage->worker->downstreams)
		downstream_close(f->stage->worker->downstreams, "the end");
	turn(f);
	take(&f->client, STAGE_ROOM);
	take(&f->server, STAGE_ROOM);
	MUST(f->stage->worker->exchange_count == 0);
	MUST(f->stage->worker->websockets->count == 0);
}

static void close_both(struct fuzz *f)
{
	struct queue_counts counts;

	memory_peer_close(f->client.wire);
	for (unsigned i = 0; i < f->stage->server_count; i++)
		memory_peer_close(f->stage->servers[i].wire);
	f->stage->server_count = 0;
	turn(f);
	queue_count(f->stage->relay.node.queue, &counts);
	const uint32_t *told = f->sends.told;
	MUST(told[SEND_WRITTEN] + told[SEND_DROPPED] + told[SEND_GONE] == f->sends.made);
	MUST(f->stage->worker->node->sends.bytes == 0);
	MUST(counts.queued == 0 && counts.in_flight == 0 && counts.detached == 0);
	free(f->client.sent.text);
	free(f->client.got.text);
	free(f->server.sent.text);
	free(f->server.got.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (memmem(data, size, OURS, strlen(OURS)))
		return 0; /* a peer's message would pass for ours: a fuzzer finds the mark */
	if (!stage)
		stage = stage_begin(&conf);
	struct fuzz f = {.stage = stage, .at = data, .end = data + size};

	open_both(&f);
	while (f.at < f.end && socket_now(&f))
		step(&f);
	run_to_the_end(&f);
	assert_passed_on(&f.client, &f.server, MESSAGE_MOST, false);
	assert_passed_on(&f.server, &f.client, 0, true);
	close_both(&f);
	return 0;
}
