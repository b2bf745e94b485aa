#include "upstream/server.h"

#include "upstream/server_inside.h"

/* ---- time ------------------------------------------------------------------------------------ */

void server_await(struct server_connection *connection, enum wait_reason reason, uint64_t progress,
	uint64_t timeout_ms)
{
	uint64_t now_ms = worker_now_ms(connection->worker);

	wait_for(&connection->wait, reason, progress, now_ms + timeout_ms, now_ms);
}

void server_await_nothing(struct server_connection *connection)
{
	wait_none(&connection->wait);
}

enum wait_reason server_awaited(const struct server_connection *connection)
{
	return connection->wait.reason;
}

/* ---- the round's requests -------------------------------------------------------------------- */

void server_send_later(struct server_connection *connection)
{
	struct worker *worker = connection->worker;

	if (connection->unsent)
		return;
	connection->unsent = true;
	connection->next_unsent = NULL;
	*upstream_part(worker)->unsent_end = connection;
	upstream_part(worker)->unsent_end = &connection->next_unsent;
}

bool server_sends_later(const struct server_connection *connection)
{
	return connection->unsent;
}

void server_send_all(struct worker *worker)
{
	while (upstream_part(worker)->unsent) {
		struct server_connection *connection = upstream_part(worker)->unsent;
		upstream_part(worker)->unsent = connection->next_unsent;
		if (!upstream_part(worker)->unsent)
			upstream_part(worker)->unsent_end = &upstream_part(worker)->unsent;
		connection->unsent = false;
		/* Else it was cut meanwhile. */
		if (connection->state == SERVER_CONNECTION_BUSY)
			connection->events->send_request(connection->exchange);
	}
}

/* ---- what its protocol does ------------------------------------------------------------------ */

struct body_sink *server_open_request(
	struct server_connection *connection, struct http_head *response)
{
	connection->awaits_head = response != NULL;
	return connection->calls->open_request(connection, response);
}

void server_stop_request(struct server_connection *connection)
{
	connection->calls->stop_request(connection);
}

bool server_write_request(struct server_connection *connection, struct exchange *exchange)
{
	return connection->calls->write_request(connection, exchange);
}

void server_spoil_request(struct server_connection *connection)
{
	connection->calls->spoil_request(connection);
}

uint64_t server_bytes_taken(const struct server_connection *connection)
{
	return connection->calls->bytes_taken(connection);
}

void server_expect_head(struct server_connection *connection, struct http_head *response)
{
	connection->awaits_head = true;
	connection->calls->expect_head(connection, response);
}

enum server_head server_read_head(struct server_connection *connection)
{
	enum server_head result = connection->calls->read_head(connection);

	connection->awaits_head = result != SERVER_HEAD_READ;
	return result;
}

bool server_frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	return connection->calls->frame_response(connection, response, method, framing);
}

bool server_has_bytes(const struct server_connection *connection)
{
	return connection->calls->has_bytes(connection);
}

struct body_source *server_open_response(
	struct server_connection *connection, const struct http_framing *framing)
{
	return connection->calls->open_response(connection, framing);
}

uint64_t server_bytes_sent(const struct server_connection *connection)
{
	return connection->calls->bytes_sent(connection);
}

void server_read_again(struct server_connection *connection)
{
	connection->calls->read_again(connection);
}

void server_read_next_turn(struct server_connection *connection)
{
	connection->calls->read_next_turn(connection);
}

void server_expect_input(struct server_connection *connection)
{
	connection->calls->expect_input(connection);
}

bool server_finish(struct server_connection *connection, struct buffer *kept)
{
	return connection->calls->finish(connection, kept);
}
