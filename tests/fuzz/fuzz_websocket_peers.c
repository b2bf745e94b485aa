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
#include "fuzz_peers.h"

#include "queue/queue.h"
#include "websocket/close.h"
#include "websocket/send.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MOST 4096

static const struct stage_conf conf = {
	.more = "[limit l]\nkey = ip\nrate = 5 per 1s\n",
	.route = "websocket = messages\nmessage_limits = l\nmax_message_size = 4k\nsession = ip\n"
		 "ordering = strict\nclose_timeout = 2s\nmessage_timeout = 3s\nping_interval = "
		 "20s\nsocket_queue_messages = 6\nsocket_queue_bytes = 40k\non_socket_queue_full = "
		 "drop\n",
};

#define ANSWER                                                                                     \
	"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                         \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

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
	struct sends sends;
	struct fuzz_peer client, server;
	struct fuzz_input input;
};

static struct websocket *socket_now(void)
{
	return websockets_of(stage->worker)->first;
}

/* ---- what we do ------------------------------------------------------------------------------ */

/* The next deadline passes, its message's or its own. */
static void pass(void)
{
	struct websocket *socket = socket_now();
	struct deadline *deadline;

	if (!socket)
		return;
	deadline = &socket->passage->wait.deadline;
	struct exchange *message = socket->client.first;
	if (message && message->turn.has_deadline && message->turn.deadline.at_ms < deadline->at_ms)
		deadline = &message->turn.deadline;
	stage_pass(stage, deadline);
}

static void finish(void)
{
	socket_finish(socket_now(), CLOSE_GOING_AWAY, SLICE("over"), "over");
	socket_run(socket_now());
}

static void tell(struct send_report *report, enum send_result result)
{
	((struct sends *)report)->told[result]++;
}

static void send_ours(struct fuzz *f, enum send_lane lane)
{
	static char payload[256 * 256];
	struct ours ours = {.mark = OURS, .lane = lane, .number = f->sends.made++};
	size_t len = sizeof(ours) + 200u * fuzz_byte(&f->input);

	memcpy(payload, &ours, sizeof(ours));
	struct shared_frame *frame = shared_frame_new(
		&stage->worker->node->sends, FRAME_BINARY, (struct slice){payload, len});
	MUST(frame);
	f->sends.report.tell = tell;
	socket_send(socket_now(), lane, frame, &f->sends.report);
	shared_frame_release(frame);
}

static void end_session(uint8_t how)
{
	static const enum session_state states[] = {
		SESSION_DRAINING, SESSION_CLOSING, SESSION_ABORTED};

	queue_close_all(stage->daemon.node.queue, states[how % 3], worker_now_ns(stage->worker));
}

static void step(struct fuzz *f)
{
	uint8_t what = fuzz_byte(&f->input);
	struct fuzz_peer *peer = what & 1 ? &f->client : &f->server;

	switch (what >> 1 & 7) {
	case 0:
		fuzz_send_raw(&f->input, peer);
		break;
	case 1:
	case 2:
		fuzz_send_frame(&f->input, peer);
		break;
	case 3:
		fuzz_take(peer, 1u + 256u * fuzz_byte(&f->input));
		break;
	case 4:
		pass();
		break;
	case 5:
		fuzz_later(16u * fuzz_byte(&f->input));
		break;
	case 6:
		if (what & 16)
			fuzz_leave(peer, what & 32);
		else if (socket_now())
			send_ours(f, what & 32 ? SEND_HIGH : SEND_NORMAL);
		break;
	case 7:
		if (what & 16 && socket_now())
			finish();
		else if (what & 32)
			end_session(fuzz_byte(&f->input));
		break;
	}
	fuzz_turn();
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

	*faulty = false;
	for (size_t at = 0; at < log->len;) {
		struct fuzz_event event = fuzz_event_at(log, at);
		if (event.kind == 'd' && !is_ours(event.payload, event.len, next))
			oracle_note(&data, log->text + at, event.bytes);
		*faulty |= event.kind == 'b';
		at += event.bytes;
	}
	return data;
}

static void assert_passed_on(const struct fuzz_peer *from, const struct fuzz_peer *to,
	uint64_t max_bytes, bool trusts_text)
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
	fuzz_ends_with_close(&to->got);
	free(sent.text);
	free(got.text);
	free(expected.text);
	free(found.text);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void open_both(struct fuzz *f)
{
	fuzz_ask(&f->client);
	stage_server_got(stage, 0);
	stage_server_sends(stage, 0, ANSWER);
	f->server.wire = stage->servers[0].wire;
	fuzz_opened(&f->client);
}

/* Both take all there is, and what they wait for does not come. */
static void run_to_the_end(struct fuzz *f)
{
	for (unsigned i = 0; i < 8; i++) {
		fuzz_take(&f->client, STAGE_ROOM);
		fuzz_take(&f->server, STAGE_ROOM);
		fuzz_turn();
	}
	if (socket_now()) {
		socket_close(socket_now(), CLOSE_NORMAL, SLICE("enough"), CLOSE_NORMAL, "enough");
		socket_run(socket_now());
	}
	for (unsigned i = 0; i < 20 && socket_now(); i++) {
		pass();
		fuzz_turn();
		fuzz_take(&f->client, STAGE_ROOM);
		fuzz_take(&f->server, STAGE_ROOM);
	}
	MUST(!socket_now());
	while (http1_part(stage->worker)->downstreams)
		downstream_close(http1_part(stage->worker)->downstreams, "the end");
	fuzz_turn();
	fuzz_take(&f->client, STAGE_ROOM);
	fuzz_take(&f->server, STAGE_ROOM);
	MUST(exchange_part(stage->worker)->count == 0);
	MUST(websockets_of(stage->worker)->count == 0);
}

static void close_both(struct fuzz *f)
{
	struct queue_counts counts;

	memory_peer_close(f->client.wire);
	for (unsigned i = 0; i < stage->server_count; i++)
		memory_peer_close(stage->servers[i].wire);
	stage->server_count = 0;
	fuzz_turn();
	queue_count(stage->daemon.node.queue, &counts);
	const uint32_t *told = f->sends.told;
	MUST(told[SEND_WRITTEN] + told[SEND_DROPPED] + told[SEND_GONE] == f->sends.made);
	MUST(stage->worker->node->sends.bytes == 0);
	MUST(counts.queued == 0 && counts.in_flight == 0 && counts.detached == 0);
	fuzz_free(&f->client);
	fuzz_free(&f->server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (memmem(data, size, OURS, strlen(OURS)))
		return 0; /* a peer's message would pass for ours: a fuzzer finds the mark */
	if (!stage)
		stage = stage_begin(&conf);
	struct fuzz f = {.input = {data, data + size}};

	open_both(&f);
	while (f.input.at < f.input.end && socket_now())
		step(&f);
	run_to_the_end(&f);
	assert_passed_on(&f.client, &f.server, MESSAGE_MOST, false);
	assert_passed_on(&f.server, &f.client, 0, true);
	close_both(&f);
	return 0;
}
