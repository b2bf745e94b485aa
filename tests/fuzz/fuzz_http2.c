/*
 * Whole connections of HTTP/2 in memory: a client that sends any bytes, a server that answers, is
 * silent or leaves, and time that passes. Each turn, all that waits must have a deadline, and
 * nothing may be left behind an input.
 *
 *   input: an operation, its length, its bytes, ...
 */
#include "fuzz_message.h"

#include "../unit/http2/h2_wire.h"
#include "daemon/wait_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const answers[] = {
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\nnot all of it",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"nonsense\r\n\r\n",
};

static void turn(struct h2_wire *w)
{
	char bytes[4096];

	w->stage->worker->wall.turn_ns = ++w->stage->worker->loop.now_ns;
	stage_turn(w->stage);
	wait_check(w->stage->worker);
	while (memory_peer_receive(w->peer, bytes, sizeof(bytes)) > 0)
		stage_turn(w->stage);
	lines_clear();
}

static void serve(struct h2_wire *w, uint8_t which)
{
	unsigned count = w->stage->server_count;

	if (count == 0)
		return;
	struct stage_server *server = &w->stage->servers[which % count];
	const char *answer = answers[which % (sizeof(answers) / sizeof(answers[0]))];
	if (which == 255)
		memory_peer_end_output(server->wire);
	else
		memory_peer_send(server->wire, answer, strlen(answer));
}

static void operate(struct h2_wire *w, uint8_t operation, const uint8_t *bytes, size_t len)
{
	switch (operation % 8) {
	case 5:
		serve(w, len > 0 ? bytes[0] : 0);
		break;
	case 6:
		stage_at(
			w->stage, worker_now_ms(w->stage->worker) - STAGE_START_MS + 1 + len * 400);
		break;
	case 7:
		if (operation > 250 && h2_part(w->stage->worker)->connections) {
			w->stage->worker->draining = true;
			h2_connection_drain(h2_part(w->stage->worker)->connections);
		}
		break;
	default:
		memory_peer_send(w->peer, bytes, len);
		break;
	}
	turn(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct stage_conf conf = {.listener = "protocols = h2, http/1.1"};
	const uint8_t *end = data + size;
	struct h2_wire w;
	bool is_plain = size > 0 && (*data & 1);

	h2_wire_open(&w, &conf, is_plain);
	if (size > 0 && !(*data++ & 2))
		memory_peer_send(w.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	while (end - data >= 2) {
		uint8_t operation = *data++;
		size_t len = *data++;
		if (len > (size_t)(end - data))
			len = (size_t)(end - data);
		operate(&w, operation, data, len);
		data += len;
	}
	while (http1_part(w.stage->worker)->downstreams)
		downstream_close(http1_part(w.stage->worker)->downstreams, "the end");
	h2_wire_end(&w);
	return 0;
}
