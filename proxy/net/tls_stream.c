#include "net/tls_stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "net/tls_facts.h"
#include "net/socket_stream.h"
#include "net/tls_client.h"
#include "net/tls_marks.h"
#include "net/tls_server.h"
#include "net/tls_wire.h"

#define RECORD_BYTES 16384 /* the most that one record carries: RFC 8446 section 5.1 */

/* Until a client has got so much, each record fits a segment of TCP, so that it can be read when
 * that has arrived. Begins again after a pause, when TCP does so, too. */
#define SMALL_RECORD_BYTES  1369
#define SMALL_RECORDS_BYTES (10 * SMALL_RECORD_BYTES)
#define SMALL_AGAIN_MS      1000

/* A connection that is exported is in the memory that it had on its loop, which a round of that
 * may still look at: so it gets other memory on its next loop. */
struct tls {
	atomic_uint holders;  /* of this memory: its loop, and each owner of an export; first */
	struct tls_wire wire; /* when it is on a loop */
	struct stream *over;  /* NULL: on no loop, or its owner has closed it */
	struct stream_export carried; /* when it is on none */
	struct tls_server *server;    /* a role: that of a server, */
	struct tls_client *client;    /* or of a client; held, the other is NULL */
	SSL *ssl;
	struct tls_facts facts;
	struct tls_marks marks;
	bool was_on_loop;
	bool is_shaken; /* the handshake is over */
	bool is_plain;  /* the peer speaks no TLS, and is answered without it */
	bool resets;    /* at its close */
	char protocol[16];
	char why[128];
	struct tls *next_leaving, **leaving_at;
	struct deadline leaves;
	uint64_t left_bytes; /* when the deadline was set */
	uint64_t burst_from,
		wrote_ms; /* `sent` after the last pause, and when it was written last */
	struct deferred_free deferred;
};

static struct tls *tls_of(const struct stream *stream)
{
	struct tls *tls;

	memcpy(&tls, stream->end.bytes, sizeof(tls));
	return tls;
}

static struct tls *carried_of(const struct transport_carried *carried)
{
	struct tls *tls;

	memcpy(&tls, carried->bytes, sizeof(tls));
	return tls;
}

/* ---- what OpenSSL says ----------------------------------------------------------------------- */

static const char *reason(struct tls *tls)
{
	unsigned long error = ERR_peek_last_error();
	const char *text = ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED
				   ? X509_verify_cert_error_string(SSL_get_verify_result(tls->ssl))
				   : ERR_reason_error_string(error);

	if (tls->client && tls_client_explain(tls->client, tls->ssl, tls->why, sizeof(tls->why)))
		return tls->why;
	if (tls->wire.under.failed)
		text = "the connection was reset";
	else if (tls->wire.under.read_ended)
		text = "the connection ended";
	snprintf(tls->why, sizeof(tls->why), "%s", text ? text : "unknown error");
	return tls->why;
}

static void note_writable(struct stream *stream, struct tls *tls)
{
	stream->writable = tls->wire.under.writable && !tls_wire_has_pending(&tls->wire) &&
			   !tls->wire.ends_output;
	stream->failed |= tls->wire.under.failed;
}

/* As far as is known of the stream below, and of what was decrypted already. */
static void note_state(struct stream *stream, struct tls *tls)
{
	stream->readable = tls->wire.under.readable || SSL_has_pending(tls->ssl);
	stream->unsure = 0;
	stream->peer_closed = tls->wire.under.peer_closed;
	note_writable(stream, tls);
}

/* OpenSSL lacks bytes. What it holds is a part of a record, and what is still to be read waits for
 * the next turn, or until answers have left: each of these wakes the stream. */
static enum stream_result lacks_input(struct stream *stream, struct tls *tls)
{
	note_state(stream, tls);
	stream->readable = false;
	if (tls->wire.is_stopped)
		stream_yield(stream);
	return STREAM_AGAIN;
}

/* ---- the handshake --------------------------------------------------------------------------- */

static void note_protocol(struct tls *tls)
{
	const unsigned char *name = NULL;
	unsigned len = 0;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	if (len > 0 && len < sizeof(tls->protocol))
		memcpy(tls->protocol, name, len);
}

static enum stream_result tls_handshake(struct stream *stream, const char **why)
{
	struct tls *tls = tls_of(stream);

	*why = "it ended";
	if (tls->client && !tls->wire.under.writable && tls->wire.under.sent == 0)
		return STREAM_AGAIN; /* not connected yet */
	if (tls_wire_has_pending(&tls->wire) && !tls_wire_flush(&tls->wire) &&
		tls->wire.under.failed)
		return STREAM_FAILED;
	ERR_clear_error();
	tls_wire_permit(&tls->wire);
	int result = SSL_do_handshake(tls->ssl);
	int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, result);
	note_state(stream, tls);
	if (result == 1) {
		if (tls->client && !tls->is_shaken)
			tls_client_note_handshake(tls->client, tls->ssl);
		tls->is_shaken = true;
		note_protocol(tls);
		return STREAM_OK;
	}
	if (error == SSL_ERROR_WANT_READ)
		return lacks_input(stream, tls);
	*why = reason(tls);
	if (!tls->wire.is_plain || tls->wire.under.failed || tls->client)
		return STREAM_FAILED;
	tls->is_plain = true;
	stream->writable = tls->wire.under.writable;
	return STREAM_END;
}

static const char *tls_why(const struct stream *stream)
{
	return tls_of(stream)->why[0] ? tls_of(stream)->why : NULL;
}

static const char *tls_protocol(const struct stream *stream)
{
	return tls_of(stream)->protocol[0] ? tls_of(stream)->protocol : NULL;
}

static struct tls_facts *tls_facts(const struct stream *stream)
{
	return &tls_of(stream)->facts;
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* Translates a call's `result`: AGAIN, or an end, which is noted. */
static enum stream_result ended_or_again(struct stream *stream, struct tls *tls, int result)
{
	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return lacks_input(stream, tls);
	case SSL_ERROR_ZERO_RETURN:
		return stream_note_end(stream, 0);
	case SSL_ERROR_SSL:
		if (!tls->wire.under.read_ended && !tls->wire.under.failed)
			reason(tls);
		return stream_note_end(stream, ECONNRESET);
	default:
		return stream_note_end(stream, ECONNRESET);
	}
}

static enum stream_result tls_read(struct stream *stream, struct buffer *buffer)
{
	struct tls *tls = tls_of(stream);
	size_t got = 0;

	if (tls->is_plain)
		return stream_read(&tls->wire.under, buffer);
	ERR_clear_error();
	tls_wire_permit(&tls->wire);
	int result = SSL_read_ex(tls->ssl, buffer->at + buffer->end, buffer_room(buffer), &got);
	if (result != 1)
		return ended_or_again(stream, tls, result);
	buffer->end += (uint32_t)got;
	stream->received += got;
	note_state(stream, tls);
	if (!stream->readable && tls->wire.under.unsure)
		stream_note_short(stream);
	return STREAM_OK;
}

/* Runs of bytes that are written as records. */
struct run {
	const struct iovec *pieces;
	int count;
	size_t at; /* in the first piece */
};

/* The next record's bytes, `most` at most: of one piece, or small ones together in `joined`. */
static size_t next_record(
	struct run *run, size_t most, char joined[static RECORD_BYTES], const char **bytes)
{
	size_t len = 0;

	*bytes = joined;
	while (run->count > 0 && len < most) {
		const char *from = (const char *)run->pieces->iov_base + run->at;
		size_t left = run->pieces->iov_len - run->at, room = most - len;
		size_t part = left < room ? left : room;
		if (len == 0 && (part == most || run->count == 1)) {
			*bytes = from;
			len = part;
		} else {
			memcpy(joined + len, from, part);
			len += part;
		}
		run->at += part;
		if (run->at == run->pieces->iov_len) {
			run->pieces++;
			run->count--;
			run->at = 0;
		}
		if (*bytes == from)
			break;
	}
	return len;
}

static enum stream_result fail_write(struct stream *stream)
{
	stream->failed = true;
	return STREAM_FAILED;
}

/* Is it the beginning of a burst? */
static bool is_small(const struct stream *stream, const struct tls *tls)
{
	return stream->sent - tls->burst_from < SMALL_RECORDS_BYTES;
}

static bool write_record(
	struct stream *stream, struct tls *tls, struct run *run, size_t most, size_t *written)
{
	char joined[RECORD_BYTES];
	const char *bytes = NULL;
	size_t len = next_record(run, most, joined, &bytes), done = 0;

	ERR_clear_error();
	if (len > 0 && SSL_write_ex(tls->ssl, bytes, len, &done) != 1)
		return false;
	*written += len;
	stream->sent += len;
	tls_marks_add(&tls->marks, stream->sent, tls_wire_sent(&tls->wire));
	return true;
}

/* Small records leave in one piece, unless there is but one. False: it has failed. */
static bool write_small_records(
	struct stream *stream, struct tls *tls, struct run *run, size_t *written)
{
	bool good = true;

	tls->wire.gathers = run->count > 1 || run->pieces->iov_len - run->at > SMALL_RECORD_BYTES;
	while (good && run->count > 0 && is_small(stream, tls))
		good = write_record(stream, tls, run, SMALL_RECORD_BYTES, written);
	tls->wire.gathers = false;
	if (tls_wire_has_pending(&tls->wire))
		tls_wire_flush(&tls->wire);
	return good && !tls->wire.under.failed;
}

static enum stream_result write_records(
	struct stream *stream, struct tls *tls, struct run *run, size_t *written)
{
	uint64_t now_ms = loop_now_ms(stream->loop->loop);

	if (now_ms > tls->wrote_ms + SMALL_AGAIN_MS)
		tls->burst_from = stream->sent;
	tls->wrote_ms = now_ms;
	if (is_small(stream, tls) && !write_small_records(stream, tls, run, written))
		return fail_write(stream);
	while (run->count > 0 && !tls_wire_has_pending(&tls->wire)) {
		if (!write_record(stream, tls, run, RECORD_BYTES, written))
			return fail_write(stream);
	}
	note_writable(stream, tls);
	return run->count > 0 ? STREAM_AGAIN : STREAM_OK;
}

static enum stream_result tls_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	struct tls *tls = tls_of(stream);
	struct run run = {pieces, count, 0};

	*written = 0;
	if (tls->is_plain)
		return stream_write(&tls->wire.under, pieces, count, written);
	if (stream->failed || tls->wire.under.failed || tls->wire.ends_output)
		return fail_write(stream);
	if (tls_wire_has_pending(&tls->wire) && !tls_wire_flush(&tls->wire)) {
		if (tls->wire.under.failed)
			return fail_write(stream);
		stream->writable = false;
		return STREAM_AGAIN;
	}
	while (run.count > 0 && run.pieces->iov_len == 0) {
		run.pieces++;
		run.count--;
	}
	return write_records(stream, tls, &run, written);
}

static void send_close_notify(struct tls *tls)
{
	if (!tls->is_shaken || tls->wire.ends_output || tls->wire.under.failed)
		return;
	ERR_clear_error();
	SSL_shutdown(tls->ssl);
}

static void tls_end_output(struct stream *stream)
{
	struct tls *tls = tls_of(stream);

	if (tls->wire.ends_output)
		return;
	if (!tls->is_plain)
		send_close_notify(tls);
	tls->wire.ends_output = true;
	tls_wire_flush(&tls->wire);
	stream->writable = false;
}

static void tls_sift(struct stream *stream)
{
	struct tls *tls = tls_of(stream);
	char byte;

	ERR_clear_error();
	tls_wire_permit(&tls->wire);
	int result = SSL_peek(tls->ssl, &byte, 1);
	bool rests = result <= 0 && SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ;
	note_state(stream, tls);
	stream->readable = !rests || tls->wire.under.readable;
}

static void tls_reset_at_close(struct stream *stream)
{
	tls_of(stream)->resets = true;
	stream_reset_at_close(&tls_of(stream)->wire.under);
}

static void tls_reset_at_death(struct stream *stream)
{
	stream_reset_at_death(&tls_of(stream)->wire.under);
}

static void tls_limit_unsent(struct stream *stream, unsigned bytes)
{
	stream_limit_unsent(&tls_of(stream)->wire.under, bytes);
}

static void tls_keep_alive(struct stream *stream)
{
	stream_keep_alive(&tls_of(stream)->wire.under);
}

/* ---- state ----------------------------------------------------------------------------------- */

static socklen_t tls_local(const struct stream *stream, struct sockaddr_storage *address)
{
	return stream_local(&tls_of(stream)->wire.under, address);
}

/* Once something was sent, the handshake knows more: an alert, say, that came before a reset. */
static int tls_error(const struct stream *stream)
{
	struct tls *tls = tls_of(stream);

	return tls->client && tls->wire.under.sent > 0 ? 0 : stream_error(&tls->wire.under);
}

static bool tls_is_cut(const struct stream *stream)
{
	return stream_is_cut(&tls_of(stream)->wire.under);
}

static bool tls_has_input(const struct stream *stream)
{
	struct tls *tls = tls_of(stream);

	return SSL_has_pending(tls->ssl) || stream_has_input(&tls->wire.under);
}

static size_t tls_untaken(const struct stream *stream)
{
	struct tls *tls = tls_of(stream);

	return (size_t)(stream->sent - tls_marks_take(&tls->marks, stream_taken(&tls->wire.under)));
}

/* ---- life ------------------------------------------------------------------------------------ */

static void drop(struct tls *tls)
{
	/* acq_rel: pairs with itself, so the last holder sees what the other did */
	if (atomic_fetch_sub_explicit(&tls->holders, 1, memory_order_acq_rel) == 1)
		free(tls);
}

static void drop_later(struct deferred_free *item)
{
	drop(CONTAINER_OF(item, struct tls, deferred));
}

/* All of it but the memory, and the stream below. */
static void release(struct tls *tls)
{
	tls_facts_clear(&tls->facts);
	SSL_free(tls->ssl);
	tls_server_release(tls->server);
	tls_client_release(tls->client);
	tls_wire_discard(&tls->wire);
	OPENSSL_cleanse(&tls->marks, sizeof(tls->marks));
}

static void end(struct tls *tls)
{
	struct loop *loop = tls->wire.under.loop->loop;

	stream_close(&tls->wire.under);
	release(tls);
	loop_free_later(loop, &tls->deferred, drop_later);
}

static void stop_leaving(struct tls *tls)
{
	*tls->leaving_at = tls->next_leaving;
	if (tls->next_leaving)
		tls->next_leaving->leaving_at = tls->leaving_at;
	tls->wire.under.loop->leaving_count--;
	deadline_end(&tls->leaves);
	if (tls_wire_has_pending(&tls->wire))
		stream_reset_at_close(
			&tls->wire.under); /* the peer is to see that something lacks */
	end(tls);
}

static void watch_leaving(struct tls *tls)
{
	uint64_t now_ms = loop_now_ms(tls->wire.under.loop->loop);

	tls->left_bytes = stream_taken(&tls->wire.under);
	deadline_set(&tls->leaves, now_ms + TLS_LEAVE_MS, now_ms);
}

static void on_leave_deadline(struct deadline *deadline)
{
	struct tls *tls = CONTAINER_OF(deadline, struct tls, leaves);

	if (stream_taken(&tls->wire.under) > tls->left_bytes)
		watch_leaving(tls);
	else
		stop_leaving(tls);
}

static void begin_leaving(struct tls *tls)
{
	struct stream_loop *loop = tls->wire.under.loop;

	tls->next_leaving = loop->leaving;
	if (tls->next_leaving)
		tls->next_leaving->leaving_at = &tls->next_leaving;
	tls->leaving_at = &loop->leaving;
	loop->leaving = tls;
	loop->leaving_count++;
	deadline_init(&tls->leaves, loop->loop->base, on_leave_deadline);
	watch_leaving(tls);
}

void tls_end_leaving(struct stream_loop *loop)
{
	while (loop->leaving)
		stop_leaving(loop->leaving);
}

static void on_under(struct stream *under)
{
	struct tls *tls = CONTAINER_OF(under, struct tls, wire.under);
	/* That it is connected is for the handshake to see: a write would take the error away. */
	bool is_connecting = tls->over && tls->client && !tls->is_shaken && under->sent == 0;
	bool is_flushed =
		is_connecting ? !tls_wire_has_pending(&tls->wire) : tls_wire_flush(&tls->wire);

	if (!tls->over) {
		if (is_flushed || under->failed || stream_is_cut(under))
			stop_leaving(tls);
		return;
	}
	tls->over->readable |= under->readable;
	tls->over->peer_closed |= under->peer_closed;
	tls->over->writable |= is_flushed && under->writable && !tls->wire.ends_output;
	stream_wake(tls->over);
}

static const struct stream_calls under_calls = {NULL, on_under};

static void tls_close(struct stream *stream)
{
	struct tls *tls = tls_of(stream);

	tls->over = NULL;
	if (!tls->resets && !tls->is_plain)
		send_close_notify(tls);
	if (tls_wire_has_pending(&tls->wire) && !tls->resets && !tls->wire.under.failed &&
		!tls_wire_flush(&tls->wire) && !tls->wire.under.failed &&
		stream->loop->leaving_count < TLS_LEAVING_MOST) {
		begin_leaving(tls);
		return;
	}
	if (tls_wire_has_pending(&tls->wire))
		stream_reset_at_close(&tls->wire.under);
	end(tls);
}

static struct transport_carried tls_export(struct stream *stream)
{
	struct transport_carried carried = {{0}};
	struct tls *tls = tls_of(stream);

	tls->over = NULL;
	tls->carried = stream_export(&tls->wire.under);
	/* relaxed: the other holder gets it by a message or a lock */
	atomic_fetch_add_explicit(&tls->holders, 1, memory_order_relaxed);
	loop_free_later(stream->loop->loop, &tls->deferred, drop_later);
	memcpy(carried.bytes, &tls, sizeof(tls));
	return carried;
}

/* Keys and counters of records are in this process's memory, of one owner. */
static bool tls_copy(struct stream *stream, struct transport_carried *copy)
{
	(void)stream;
	(void)copy;
	return false;
}

static void tls_cut(const struct stream *stream)
{
	stream_cut(&tls_of(stream)->wire.under);
}

static const struct transport transport;

/* The loop that it leaves may drop its hold meanwhile: the number of holders is not copied. */
enum { MOVED_FROM = offsetof(struct tls, wire) };

/* Its memory for the next loop: other than before, unless it was on none yet. NULL without. */
static struct tls *move(struct tls *old)
{
	struct tls *tls = old;

	if (old->was_on_loop) {
		tls = malloc(sizeof(*tls));
		if (!tls)
			return NULL;
		atomic_init(&tls->holders, 1);
		memcpy((char *)tls + MOVED_FROM, (const char *)old + MOVED_FROM,
			sizeof(*tls) - MOVED_FROM);
		tls_wire_move(&tls->wire, tls->ssl);
		drop(old);
	}
	tls->was_on_loop = true;
	return tls;
}

static bool tls_import(struct stream *stream, struct stream_loop *loop,
	struct transport_carried *from, const struct stream_calls *calls)
{
	struct tls *old = carried_of(from), *tls = move(old);

	if (!tls || !stream_import(&tls->wire.under, loop, &tls->carried, &under_calls)) {
		if (!tls)
			stream_export_close(&old->carried);
		release(tls ? tls : old);
		drop(tls ? tls : old);
		return false;
	}
	stream_begin(stream, &transport, loop, true, calls);
	memcpy(stream->end.bytes, &tls, sizeof(tls));
	tls->over = stream;
	note_state(stream, tls);
	if (stream->readable || tls_wire_has_pending(&tls->wire))
		stream_wake(stream);
	return true;
}

static bool tls_is_silent(const struct transport_carried *from)
{
	struct tls *tls = carried_of(from);

	return !SSL_has_pending(tls->ssl) && stream_export_is_silent(&tls->carried);
}

static void tls_discard(struct transport_carried *from)
{
	struct tls *tls = carried_of(from);

	stream_export_close(&tls->carried);
	release(tls);
	drop(tls);
}

static const struct transport transport = {
	.name = "TLS",
	.is_encrypted = true,
	.handshake = tls_handshake,
	.why = tls_why,
	.protocol = tls_protocol,
	.facts = tls_facts,
	.read = tls_read,
	.write = tls_write,
	.sift = tls_sift,
	.end_output = tls_end_output,
	.reset_at_close = tls_reset_at_close,
	.limit_unsent = tls_limit_unsent,
	.keep_alive = tls_keep_alive,
	.reset_at_death = tls_reset_at_death,
	.local = tls_local,
	.error = tls_error,
	.is_cut = tls_is_cut,
	.has_input = tls_has_input,
	.untaken = tls_untaken,
	.close = tls_close,
	.export = tls_export,
	.copy = tls_copy,
	.cut = tls_cut,
	.import = tls_import,
	.is_silent = tls_is_silent,
	.discard = tls_discard,
};

/* ---- making one ------------------------------------------------------------------------------ */

bool tls_accept(struct tls_server *server, struct stream_export *connection)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (tls && (tls->ssl = tls_server_accept(server, &tls->wire)) != NULL) {
		atomic_init(&tls->holders, 1);
		tls->server = tls_server_hold(server);
		tls->facts = (struct tls_facts){.ssl = tls->ssl, .server = server};
		tls->carried = *connection;
		*connection = (struct stream_export){.transport = &transport};
		memcpy(connection->carried.bytes, &tls, sizeof(tls));
		return true;
	}
	free(tls);
	stream_export_close(connection);
	return false;
}

static struct tls *client_new(struct tls_client *client)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (tls && (tls->ssl = tls_client_connect(client, &tls->wire)) != NULL) {
		atomic_init(&tls->holders, 1);
		tls->was_on_loop = true;
		tls->client = tls_client_hold(client);
		return tls;
	}
	free(tls);
	return NULL;
}

/* The stream below is open. */
static void open_client(struct stream *stream, struct tls *tls, struct stream_loop *loop,
	const struct stream_calls *calls)
{
	stream_begin(stream, &transport, loop, tls->wire.under.writable, calls);
	memcpy(stream->end.bytes, &tls, sizeof(tls));
	tls->over = stream;
	if (stream->writable)
		stream_wake(stream);
}

int tls_connect(struct stream *stream, struct stream_loop *loop, struct tls_client *client,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls)
{
	struct tls *tls = client_new(client);
	int error = ENOMEM;

	stream->open = false;
	if (tls)
		error = socket_stream_connect(&tls->wire.under, loop, address, len, &under_calls);
	if (error == 0) {
		open_client(stream, tls, loop, calls);
	} else if (tls) {
		release(tls);
		free(tls);
	}
	return error;
}

bool tls_send_first(struct stream *stream, const char *bytes, size_t len)
{
	return tls_wire_put(&tls_of(stream)->wire, bytes, len);
}

bool tls_connect_socket(struct stream *stream, struct stream_loop *loop, struct tls_client *client,
	int fd, const struct stream_calls *calls)
{
	struct tls *tls = client_new(client);

	stream->open = false;
	if (!tls) {
		close(fd);
		return false;
	}
	if (!socket_stream_open(&tls->wire.under, loop, fd, false, &under_calls)) {
		release(tls);
		free(tls);
		return false;
	}
	open_client(stream, tls, loop, calls);
	return true;
}
