/*
 * A whole WebSocket whose server speaks HTTP, from its handshake to its end: the client's
 * connection and those to the server are streams in memory, the input says what the client sends
 * and takes, what the server answers and when its connections end, and how time passes. What must
 * hold:
 *
 *   - the server gets well-formed requests of one Connection-Id, one at a time: OPEN, then the
 *     client's messages, whole and in order; what it has accepted does not come again, and nothing
 *     comes behind an end that it has accepted
 *   - the client gets frames that RFC 6455 read plainly has no fault with, none behind a close
 *     frame, and of messages those of the answers, in order
 *   - each turn leaves a deadline for all that waits, and when it is over, nothing is left of it
 */
#include "fuzz_peers.h"

#include "queue/queue.h"
#include "websocket/close.h"
#include "gateway/gateway.h"
#include "gateway/gateway_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MOST 4096
#define REQUESTS     400 /* that an input leads to at most */

static const struct stage_conf conf = {
	.more = "[limit l]\nkey = ip\nrate = 5 per 1s\n",
	.route = "websocket = gateway\nmessage_limits = l\nmax_message_size = 4k\nsession = ip\n"
		 "ordering = strict\nclose_timeout = 2s\nmessage_timeout = 3s\nping_interval = "
		 "20s\nsocket_queue_messages = 6\nsocket_queue_bytes = 40k\ngateway_batch = 3\n",
};

/* What a request was answered. */
enum answered { NOT_ANSWERED, ACCEPTED, UNKNOWN };

/* That the server got. */
struct request {
	struct oracle_log content;
	enum answered answered;
};

struct connection {
	struct oracle_log bytes; /* since the last request */
	bool asked, over;
};

struct fuzz {
	struct fuzz_peer client;
	struct fuzz_input input;
	struct connection connections[STAGE_SERVERS];
	struct request requests[REQUESTS];
	unsigned request_count, asked; /* the connection with the newest request */
	struct oracle_log answers;     /* messages that the server has sent: kind, length, bytes */
	bool surmised;                 /* what sluice made of an answer is not known */
	char id[100];                  /* Connection-Id */
};

static struct websocket *socket_now(void)
{
	return websockets_of(stage->worker)->first;
}

/* ---- the server: what it gets ---------------------------------------------------------------- */

static void check_id(struct fuzz *f, const char *head)
{
	char id[sizeof(f->id)];
	const char *field = strstr(head, "\r\nConnection-Id: ");

	MUST(field && sscanf(field, "\r\nConnection-Id: %99[^\r]", id) == 1);
	MUST(f->request_count == 0 || strcmp(id, f->id) == 0);
	strcpy(f->id, id);
	MUST(!strstr(field + 2, "\r\nConnection-Id: "));
}

/* A whole request, if there is one. */
static void read_request(struct fuzz *f, unsigned n)
{
	struct connection *c = &f->connections[n];
	struct oracle_log *bytes = &c->bytes;
	unsigned length;

	oracle_note(bytes, "", 1); /* an end for the functions of strings */
	bytes->len--;
	char *body = bytes->len > 0 ? strstr(bytes->text, "\r\n\r\n") : NULL;
	if (!body)
		return;
	body += 4;
	MUST(memcmp(bytes->text, "POST /chat HTTP/1.1\r\n", 21) == 0);
	const char *field = strstr(bytes->text, "\r\nContent-Length: ");
	MUST(field && field < body && sscanf(field, "\r\nContent-Length: %u", &length) == 1);
	if (bytes->len - (size_t)(body - bytes->text) < length)
		return;
	MUST(bytes->len - (size_t)(body - bytes->text) == length);
	MUST(!c->asked && f->request_count < REQUESTS);
	check_id(f, bytes->text);
	oracle_note(&f->requests[f->request_count].content, body, length);
	f->request_count++;
	f->asked = n;
	c->asked = true;
	bytes->len = 0;
}

static void serve(struct fuzz *f)
{
	for (unsigned i = 0; i < stage->server_count; i++) {
		static char bytes[STAGE_ROOM];
		long n = memory_peer_receive(stage->servers[i].wire, bytes, sizeof(bytes));
		if (n <= 0)
			continue;
		oracle_note(&f->connections[i].bytes, bytes, (size_t)n);
		read_request(f, i);
	}
	/* No more connections than the stage has. */
	stage->connect_error = stage->server_count + 1 < STAGE_SERVERS ? 0 : ECONNREFUSED;
}

static void turn(struct fuzz *f)
{
	fuzz_turn();
	serve(f);
}

static struct request *request_asked(struct fuzz *f)
{
	return f->connections[f->asked].asked ? &f->requests[f->request_count - 1] : NULL;
}

/* ---- the server: what it answers ------------------------------------------------------------- */

static void server_sends(struct fuzz *f, const void *bytes, size_t len)
{
	if (!f->connections[f->asked].over)
		memory_peer_send(stage->servers[f->asked].wire, bytes, len);
}

static void server_leaves(struct fuzz *f, bool resets)
{
	struct connection *c = &f->connections[f->asked];

	if (c->over)
		return;
	c->over = true;
	c->asked = false;
	if (resets)
		memory_peer_reset(stage->servers[f->asked].wire);
	else
		memory_peer_end_output(stage->servers[f->asked].wire);
}

static void answer_with(struct fuzz *f, const char *status, const struct oracle_log *events)
{
	char head[300];

	snprintf(head, sizeof(head),
		"HTTP/1.1 %s\r\nContent-Type: application/websocket-events\r\nContent-Length: "
		"%zu\r\n\r\n",
		status, events->len);
	server_sends(f, head, strlen(head));
	server_sends(f, events->text, events->len);
	f->connections[f->asked].asked = false;
}

static void write_event(struct fuzz *f, struct oracle_log *events)
{
	static const char *const names[] = {
		"TEXT", "BINARY", "PING", "PONG", "CLOSE", "X-OTHER", "DISCONNECT", "BINARY"};
	uint8_t what = fuzz_byte(&f->input), len = fuzz_byte(&f->input) & 127;
	char content[128], head[40];

	for (unsigned i = 0; i < len; i++)
		content[i] = (char)(fuzz_byte(&f->input) & ((what & 7) == 0 ? 127 : 255));
	if (len > FRAME_CONTROL_BYTES)
		len = FRAME_CONTROL_BYTES;
	snprintf(head, sizeof(head), "%s %x\r\n", names[what & 7], len);
	oracle_note(events, head, strlen(head));
	oracle_note(events, content, len);
	oracle_note(events, "\r\n", 2);
	if ((what & 7) > 1 && (what & 7) != 7)
		return;
	oracle_note_event(&f->answers, "data", 8u * ((what & 7) == 0 ? 1 : 2), content, len);
}

static void answer(struct fuzz *f)
{
	struct oracle_log events = {0};
	struct request *request = request_asked(f);
	uint8_t what = fuzz_byte(&f->input);

	if (!request)
		return;
	for (unsigned i = what & 7; i > 0; i--)
		write_event(f, &events);
	request->answered = ACCEPTED;
	answer_with(f, what & 8 ? "202 Fine" : "200 OK", &events);
	free(events.text);
}

static void answer_badly(struct fuzz *f)
{
	static const struct oracle_log none;
	struct request *request = request_asked(f);

	if (!request)
		return;
	answer_with(f, "500 No", &none);
}

/* Bytes of the input, as they are. */
static void answer_raw(struct fuzz *f)
{
	size_t len = fuzz_byte(&f->input), here = (size_t)(f->input.end - f->input.at);
	struct request *request = request_asked(f);

	len = len < here ? len : here;
	if (request) {
		request->answered = UNKNOWN;
		f->surmised = true;
		server_sends(f, f->input.at, len);
	}
	f->input.at += len;
}

/* The beginning of an answer, and its connection's end. */
static void answer_in_part(struct fuzz *f)
{
	static const char part[] =
		"HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\n"
		"Content-Length: 20\r\n\r\nTEXT 1\r\nx\r\nTEXT";
	size_t len = fuzz_byte(&f->input);

	if (request_asked(f))
		server_sends(f, part, len < sizeof(part) - 1 ? len : sizeof(part) - 1);
	server_leaves(f, len & 1);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The next deadline passes, its message's or its own. */
static void pass(void)
{
	struct gateway *gateway = gateways_of(stage->worker)->first;
	struct websocket *socket = socket_now();
	struct deadline *deadline = socket ? &socket->passage->wait.deadline : NULL;
	struct exchange *message = gateway ? gateway->client.first : NULL;

	if (message && message->turn.has_deadline &&
		(!deadline || message->turn.deadline.at_ms < deadline->at_ms))
		deadline = &message->turn.deadline;
	if (deadline)
		stage_pass(stage, deadline);
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

	switch (what & 15) {
	case 0:
		fuzz_send_raw(&f->input, &f->client);
		break;
	case 1:
	case 2:
	case 3:
		fuzz_send_frame(&f->input, &f->client);
		break;
	case 4:
		fuzz_take(&f->client, 1u + 256u * fuzz_byte(&f->input));
		break;
	case 5:
	case 6:
	case 7:
		answer(f);
		break;
	case 8:
		answer_badly(f);
		break;
	case 9:
		answer_raw(f);
		break;
	case 10:
		answer_in_part(f);
		break;
	case 11:
		server_leaves(f, what & 16);
		break;
	case 12:
		pass();
		break;
	case 13:
		fuzz_later(16u * fuzz_byte(&f->input));
		break;
	case 14:
		if (what & 16)
			fuzz_leave(&f->client, what & 32);
		break;
	case 15:
		if (what & 16)
			end_session(fuzz_byte(&f->input));
		else if (socket_now())
			socket_finish(socket_now(), CLOSE_GOING_AWAY, SLICE("over"), "over");
		break;
	}
	turn(f);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static struct oracle_log data_of(const struct oracle_log *log, bool *faulty)
{
	struct oracle_log data = {0};

	*faulty = false;
	for (size_t at = 0; at < log->len;) {
		struct fuzz_event event = fuzz_event_at(log, at);
		if (event.kind == 'd')
			oracle_note(&data, log->text + at, event.bytes);
		*faulty |= event.kind == 'b';
		at += event.bytes;
	}
	return data;
}

/* The messages of a request from `at` of the client's; returns where the next one is. */
static size_t check_messages(
	const struct request *request, const struct oracle_log *messages, size_t at, bool *ends)
{
	struct slice rest = {request->content.text, request->content.len};
	struct gateway_event event;
	enum gateway_event_result result;

	while ((result = gateway_event_read(&rest, &event)) == GATEWAY_EVENT_READ) {
		MUST(!*ends);
		if (event.kind == GATEWAY_EVENT_CLOSE || event.kind == GATEWAY_EVENT_DISCONNECT)
			*ends = true;
		if (event.kind != GATEWAY_EVENT_TEXT && event.kind != GATEWAY_EVENT_BINARY)
			continue;
		MUST(at < messages->len);
		struct fuzz_event sent = fuzz_event_at(messages, at);
		MUST(sent.number / 8 == (event.kind == GATEWAY_EVENT_TEXT ? 1 : 2));
		MUST(sent.len == event.content.len);
		MUST(sent.len == 0 || memcmp(sent.payload, event.content.at, sent.len) == 0);
		at += sent.bytes;
	}
	MUST(result == GATEWAY_EVENT_NONE);
	return at;
}

static void check_server(const struct fuzz *f)
{
	static const struct oracle_rules rules = {true, false, MESSAGE_MOST, false};
	struct oracle_log sent = {0};
	bool faulty, over = false;
	size_t next = 0;

	oracle_read(&rules, (const uint8_t *)f->client.sent.text, f->client.sent.len, &sent);
	struct oracle_log messages = data_of(&sent, &faulty);
	for (unsigned i = 0; i < f->request_count; i++) {
		bool ends = false;
		MUST(!over);
		size_t behind = check_messages(&f->requests[i], &messages, next, &ends);
		if (f->requests[i].answered == UNKNOWN)
			break;
		if (f->requests[i].answered == ACCEPTED) {
			next = behind;
			over = ends;
		}
	}
	free(messages.text);
	free(sent.text);
}

static void check_client(const struct fuzz *f)
{
	static const struct oracle_rules rules = {false, false, 0, false};
	struct oracle_log got = {0};
	bool faulty;

	oracle_read(&rules, (const uint8_t *)f->client.got.text, f->client.got.len, &got);
	struct oracle_log found = data_of(&got, &faulty);
	MUST(!faulty);
	fuzz_ends_with_close(&f->client.got);
	if (!f->surmised) {
		MUST(found.len <= f->answers.len);
		MUST(found.len == 0 || memcmp(found.text, f->answers.text, found.len) == 0);
	}
	free(found.text);
	free(got.text);
}

/* ---- one input ------------------------------------------------------------------------------- */

static void open_both(struct fuzz *f)
{
	struct oracle_log opens = {0};

	fuzz_ask(&f->client);
	serve(f);
	MUST(f->request_count == 1 && f->requests[0].content.len == 6);
	MUST(memcmp(f->requests[0].content.text, "OPEN\r\n", 6) == 0);
	oracle_note(&opens, "OPEN\r\n", 6);
	f->requests[0].answered = ACCEPTED;
	answer_with(f, "200 OK", &opens);
	free(opens.text);
	turn(f);
	fuzz_opened(&f->client);
}

/* All is taken and answered, and what is waited for does not come. */
static void run_to_the_end(struct fuzz *f)
{
	static const struct oracle_log none;

	if (socket_now())
		socket_finish(socket_now(), CLOSE_NORMAL, SLICE("enough"), "enough");
	for (unsigned i = 0; i < 60 && gateways_of(stage->worker)->first; i++) {
		turn(f);
		struct request *request = request_asked(f);
		if (request && request->answered == UNKNOWN) {
			server_leaves(f, true);
		} else if (request) {
			request->answered = ACCEPTED;
			answer_with(f, "200 OK", &none);
		}
		turn(f);
		fuzz_take(&f->client, STAGE_ROOM);
		pass();
	}
	MUST(!socket_now() && !gateways_of(stage->worker)->first);
	while (http1_part(stage->worker)->downstreams)
		downstream_close(http1_part(stage->worker)->downstreams, "the end");
	turn(f);
	fuzz_take(&f->client, STAGE_ROOM);
	MUST(exchange_part(stage->worker)->count == 0);
	MUST(websockets_of(stage->worker)->count == 0);
}

static void close_all(struct fuzz *f)
{
	struct queue_counts counts;

	memory_peer_close(f->client.wire);
	for (unsigned i = 0; i < stage->server_count; i++) {
		memory_peer_close(stage->servers[i].wire);
		free(f->connections[i].bytes.text);
	}
	stage->server_count = 0;
	fuzz_turn();
	queue_count(stage->daemon.node.queue, &counts);
	MUST(stage->worker->node->sends.bytes == 0);
	MUST(counts.queued == 0 && counts.in_flight == 0 && counts.detached == 0);
	for (unsigned i = 0; i < f->request_count; i++)
		free(f->requests[i].content.text);
	free(f->answers.text);
	fuzz_free(&f->client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fuzz f;

	if (!stage) {
		stage = stage_begin(&conf);
		stage->listener.use =
			site_part(stage->worker)->use; /* its gateways outlive their connections */
	}
	memset(&f, 0, sizeof(f));
	f.input = (struct fuzz_input){data, data + size};
	open_both(&f);
	while (f.input.at < f.input.end && gateways_of(stage->worker)->first &&
		f.request_count < REQUESTS - 100)
		step(&f);
	run_to_the_end(&f);
	check_server(&f);
	check_client(&f);
	close_all(&f);
	return 0;
}
