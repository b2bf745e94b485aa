#include "websocket/send.h"

#include <stdlib.h>

#include "record/account.h"
#include "stats/metrics.h"
#include "websocket/close.h"

/* There while something waits. */
struct socket_sends {
	struct send_queue queue;
	size_t servers; /* bytes that the server may pass before it is the queue's turn */
	uint64_t turn_ns;
	unsigned writes; /* in that turn */
};

_Static_assert((int)SEND_WRITTEN == (int)STATS_SEND_WRITTEN &&
		       (int)SEND_DROPPED == (int)STATS_SEND_DROPPED &&
		       (int)SEND_GONE == (int)STATS_SEND_GONE,
	"they are counted by their numbers");

static struct stream *client_stream(const struct websocket *socket)
{
	return socket->passage->down.sink;
}

/* ---- what waits ------------------------------------------------------------------------------ */

uint64_t socket_queued_messages(const struct websocket *socket)
{
	return socket->sends ? socket->sends->queue.messages : 0;
}

uint64_t socket_queued_bytes(const struct websocket *socket)
{
	return socket->sends ? socket->sends->queue.bytes : 0;
}

bool socket_is_within_send(const struct websocket *socket)
{
	return socket->sends && send_queue_is_within(&socket->sends->queue);
}

/* Between two messages of the server's? */
static bool is_between(const struct websocket *socket)
{
	return !socket->to_client.context && !socket->from_server.opcode;
}

bool socket_sends_go_first(const struct websocket *socket)
{
	const struct socket_sends *sends = socket->sends;

	return sends &&
	       (send_queue_is_within(&sends->queue) || (sends->servers == 0 && is_between(socket)));
}

bool socket_may_still_send(const struct websocket *socket)
{
	return socket->sends && (socket_is_within_send(socket) || is_between(socket) ||
					!socket->closing.server.done);
}

void socket_note_passed(struct websocket *socket, size_t bytes)
{
	struct socket_sends *sends = socket->sends;

	if (sends)
		sends->servers -= bytes < sends->servers ? bytes : sends->servers;
}

/* `current` not, of which bytes are on their way. */
static uint64_t waiting(const struct websocket *socket)
{
	const struct send_queue *queue = &socket->sends->queue;

	return queue->messages - send_queue_is_within(queue);
}

static void free_if_empty(struct websocket *socket)
{
	if (!socket->sends || !send_queue_is_empty(&socket->sends->queue))
		return;
	free(socket->sends);
	socket->sends = NULL;
}

void socket_clear_sends(struct websocket *socket)
{
	if (!socket->sends)
		return;
	passage_count(socket->passage, STATS_SENDS + STATS_SEND_GONE, waiting(socket));
	send_queue_clear(&socket->sends->queue);
	free_if_empty(socket);
}

void socket_end_sends(struct websocket *socket)
{
	if (!socket->sends)
		return;
	passage_count(
		socket->passage, STATS_SENDS + STATS_SEND_GONE, socket->sends->queue.messages);
	send_queue_end(&socket->sends->queue);
	free_if_empty(socket);
}

/* ---- into the queue -------------------------------------------------------------------------- */

static bool takes_answers(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;

	return !socket_has_ended(socket) && !closing->client.told && !closing->client.due;
}

bool socket_takes_sends(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;

	return takes_answers(socket) && !closing->client.done &&
	       (!closing->begun || closing->finishes);
}

static bool acquire(struct websocket *socket)
{
	if (socket->sends)
		return true;
	socket->sends = calloc(1, sizeof(*socket->sends));
	if (socket->sends)
		send_queue_init(&socket->sends->queue);
	return socket->sends;
}

/* Drops others only where there is room for it then. */
static bool make_room(struct websocket *socket, const struct send_bounds *bounds, size_t bytes)
{
	struct send_queue *queue = &socket->sends->queue;
	bool drops = socket_conf(socket)->on_queue_full == CONF_QUEUE_FULL_DROP &&
		     send_queue_can_fit(queue, bounds, bytes);

	while (!send_queue_fits(queue, bounds, bytes)) {
		if (!drops || !send_queue_drop_oldest(queue))
			return false;
		passage_count(socket->passage, STATS_SENDS + STATS_SEND_DROPPED, 1);
	}
	return true;
}

static bool enqueue(struct websocket *socket, enum send_lane lane, struct shared_frame *frame,
	struct send_report *report)
{
	const struct conf_websocket *conf = socket_conf(socket);
	const struct send_bounds bounds = {conf->queue_bytes, conf->queue_messages};
	bool is_queued = acquire(socket) && make_room(socket, &bounds, frame->bytes) &&
			 send_queue_add(&socket->sends->queue, lane, frame, report);

	free_if_empty(socket);
	return is_queued;
}

static void tell(struct send_report *report, enum send_result result)
{
	if (report)
		report->tell(report, result);
}

/* Unless messages to it are dropped. */
static void close_slow(struct websocket *socket)
{
	if (socket_conf(socket)->on_queue_full == CONF_QUEUE_FULL_DROP)
		return;
	passage_count(socket->passage, STATS_SOCKETS_SLOW, 1);
	socket_close_failed(socket, CLOSE_TRY_AGAIN, SLICE("slow reader"), "slow reader");
}

static void count_gone(struct websocket *socket)
{
	if (!socket_has_ended(socket))
		passage_count(socket->passage, STATS_SENDS + STATS_SEND_GONE, 1);
}

static void drop(struct websocket *socket, const struct shared_frame *frame)
{
	passage_count(socket->passage, STATS_SENDS + STATS_SEND_DROPPED, 1);
	if (!socket->closing.begun && frame->bytes <= socket_conf(socket)->queue_bytes)
		close_slow(socket);
}

bool socket_send(struct websocket *socket, enum send_lane lane, struct shared_frame *frame,
	struct send_report *report)
{
	if (!socket_takes_sends(socket)) {
		count_gone(socket);
		tell(report, SEND_GONE);
		return false;
	}
	bool is_queued = enqueue(socket, lane, frame, report);
	if (!is_queued) {
		drop(socket, frame);
		tell(report, SEND_DROPPED);
	}
	stream_wake(client_stream(socket));
	return is_queued;
}

bool socket_send_copy(
	struct websocket *socket, enum send_lane lane, uint8_t opcode, struct slice payload)
{
	if (!takes_answers(socket)) {
		count_gone(socket);
		return false;
	}
	struct shared_frame *frame =
		shared_frame_new(&socket->worker->node->sends, opcode, payload);
	bool is_queued = frame && enqueue(socket, lane, frame, NULL);

	if (!is_queued) {
		passage_count(socket->passage, STATS_SENDS + STATS_SEND_DROPPED, 1);
		close_slow(socket);
	}
	stream_wake(client_stream(socket));
	shared_frame_release(frame);
	return is_queued;
}

/* ---- out of it ------------------------------------------------------------------------------- */

static bool may_write(struct websocket *socket)
{
	struct socket_sends *sends = socket->sends;
	uint64_t now_ns = worker_now_ns(socket->worker);

	if (sends->turn_ns != now_ns) {
		sends->turn_ns = now_ns;
		sends->writes = 0;
	}
	if (++sends->writes <= SEND_TURN_WRITES)
		return true;
	stream_yield(client_stream(socket));
	return false;
}

static void note_written(struct websocket *socket, struct send_taken taken, size_t bytes)
{
	socket->passage->down.written += bytes;
	socket->sent.messages += taken.messages;
	socket->sent.bytes += taken.payload_bytes;
	socket->active_ms = socket_now_ms(socket);
	passage_count(socket->passage, STATS_SENDS + STATS_SEND_WRITTEN, taken.messages);
}

enum stream_result socket_write_sends(struct websocket *socket)
{
	struct stream *stream = client_stream(socket);
	enum stream_result result = STREAM_OK;
	struct iovec pieces[SEND_WRITE_ITEMS];

	while (result == STREAM_OK && socket->sends && stream->writable &&
		(is_between(socket) || socket_is_within_send(socket)) && may_write(socket)) {
		struct send_queue *queue = &socket->sends->queue;
		uint32_t high_burst = socket->passage->account.route->sessions.high_burst;
		int count = send_queue_peek(
			queue, high_burst, pieces, SEND_WRITE_ITEMS, SEND_WRITE_BYTES);
		size_t written;
		result = stream_write(stream, pieces, count, &written);
		note_written(socket, send_queue_took(queue, high_burst, written), written);
		socket->sends->servers = SOCKET_AHEAD_BYTES;
		socket->again |= !send_queue_is_within(queue); /* others may be due */
		free_if_empty(socket);
	}
	return result == STREAM_FAILED ? STREAM_FAILED : STREAM_OK;
}
