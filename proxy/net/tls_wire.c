#include "net/tls_wire.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

void tls_wire_discard(struct tls_wire *wire)
{
	free(wire->pending);
	wire->pending = NULL;
	wire->start = wire->end = wire->room = 0;
}

bool tls_wire_put(struct tls_wire *wire, const char *at, size_t len)
{
	if (len == 0)
		return true; /* there may be no memory to copy to */
	if (wire->room - wire->end < len && wire->start > 0) {
		memmove(wire->pending, wire->pending + wire->start, wire->end - wire->start);
		wire->end -= wire->start;
		wire->start = 0;
	}
	if (wire->room - wire->end < len) {
		size_t room = wire->end + len;
		char *larger = realloc(wire->pending, room);
		if (!larger)
			return false;
		wire->pending = larger;
		wire->room = room;
	}
	memcpy(wire->pending + wire->end, at, len);
	wire->end += len;
	return true;
}

bool tls_wire_flush(struct tls_wire *wire)
{
	size_t written = 0;

	while (tls_wire_has_pending(wire)) {
		struct iovec piece = {wire->pending + wire->start, wire->end - wire->start};
		enum stream_result result = stream_write(&wire->under, &piece, 1, &written);
		wire->start += written;
		if (result != STREAM_OK)
			return false;
	}
	tls_wire_discard(wire);
	if (wire->ends_output && !wire->has_ended_output) {
		wire->has_ended_output = true;
		stream_end_output(&wire->under);
	}
	return true;
}

static int bio_write(BIO *bio, const char *at, int len)
{
	struct tls_wire *wire = BIO_get_data(bio);
	struct iovec piece = {(void *)(uintptr_t)at, (size_t)len};
	size_t written = 0;

	BIO_clear_retry_flags(bio);
	if (wire->is_plain)
		return len;
	if (!wire->gathers && !tls_wire_has_pending(wire) &&
		stream_write(&wire->under, &piece, 1, &written) == STREAM_FAILED)
		return -1;
	return tls_wire_put(wire, at + written, (size_t)len - written) ? len : -1;
}

static int bio_read(BIO *bio, char *at, int room)
{
	struct tls_wire *wire = BIO_get_data(bio);
	struct buffer buffer = {.at = at, .capacity = (uint32_t)room};

	BIO_clear_retry_flags(bio);
	wire->is_stopped = wire->may_read == 0;
	if (wire->is_stopped || wire->end - wire->start > TLS_WIRE_PENDING_BYTES) {
		BIO_set_retry_read(bio);
		return -1;
	}
	switch (stream_read(&wire->under, &buffer)) {
	case STREAM_OK:
		wire->may_read -= buffer.end < wire->may_read ? buffer.end : wire->may_read;
		if (!wire->has_first)
			wire->is_plain = at[0] >= 'A' && at[0] <= 'Z';
		wire->has_first = true;
		return (int)buffer.end;
	case STREAM_AGAIN:
		BIO_set_retry_read(bio);
		return -1;
	case STREAM_END:
		return 0;
	case STREAM_FAILED:
		break;
	}
	return -1;
}

static long bio_control(BIO *bio, int command, long number, void *at)
{
	const struct tls_wire *wire = BIO_get_data(bio);

	(void)number;
	(void)at;
	if (command == BIO_CTRL_EOF)
		return wire->under.read_ended;
	return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_wire_method_new(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");

	if (!method)
		return NULL;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_control);
	return method;
}

bool tls_wire_attach(struct tls_wire *wire, SSL *ssl, const BIO_METHOD *method)
{
	BIO *bio = BIO_new(method);

	if (!bio)
		return false;
	BIO_set_data(bio, wire);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	return true;
}

void tls_wire_move(struct tls_wire *wire, SSL *ssl)
{
	BIO_set_data(SSL_get_rbio(ssl), wire);
}
