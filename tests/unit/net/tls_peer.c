#include "tls_peer.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

struct tls_peer {
	SSL_CTX *context;
	SSL *ssl;
	BIO *in, *out;
	const char *failure;
};

struct tls_peer *tls_peer_new(const char *name, const char *offers, const char *ciphers)
{
	struct tls_peer *peer = calloc(1, sizeof(*peer));

	assert(peer);
	peer->context = SSL_CTX_new(TLS_client_method());
	assert(peer->context);
	if (ciphers) {
		SSL_CTX_set_max_proto_version(peer->context, TLS1_2_VERSION);
		assert(SSL_CTX_set_cipher_list(peer->context, ciphers) == 1);
	}
	peer->ssl = SSL_new(peer->context);
	peer->in = BIO_new(BIO_s_mem());
	peer->out = BIO_new(BIO_s_mem());
	assert(peer->ssl && peer->in && peer->out);
	BIO_set_mem_eof_return(peer->in, -1);
	SSL_set_bio(peer->ssl, peer->in, peer->out);
	SSL_set_connect_state(peer->ssl);
	if (name)
		SSL_set_tlsext_host_name(peer->ssl, name);
	if (offers)
		SSL_set_alpn_protos(
			peer->ssl, (const unsigned char *)offers, (unsigned)strlen(offers));
	return peer;
}

void tls_peer_free(struct tls_peer *peer)
{
	SSL_free(peer->ssl);
	SSL_CTX_free(peer->context);
	free(peer);
}

bool tls_peer_shakes(struct tls_peer *peer)
{
	ERR_clear_error();
	int result = SSL_do_handshake(peer->ssl);

	if (result != 1 && SSL_get_error(peer->ssl, result) != SSL_ERROR_WANT_READ)
		peer->failure = ERR_reason_error_string(ERR_peek_last_error());
	return result == 1;
}

const char *tls_peer_failure(const struct tls_peer *peer)
{
	return peer->failure;
}

size_t tls_peer_take(struct tls_peer *peer, void *bytes, size_t room)
{
	int n = BIO_read(peer->out, bytes, (int)room);

	return n > 0 ? (size_t)n : 0;
}

void tls_peer_give(struct tls_peer *peer, const void *bytes, size_t len)
{
	assert(BIO_write(peer->in, bytes, (int)len) == (int)len);
}

void tls_peer_write(struct tls_peer *peer, const void *bytes, size_t len)
{
	ERR_clear_error();
	assert(SSL_write(peer->ssl, bytes, (int)len) == (int)len);
}

long tls_peer_read(struct tls_peer *peer, void *bytes, size_t room)
{
	ERR_clear_error();
	int n = SSL_read(peer->ssl, bytes, (int)room);

	if (n > 0)
		return n;
	return SSL_get_error(peer->ssl, n) == SSL_ERROR_ZERO_RETURN ? -1 : -3;
}

void tls_peer_end(struct tls_peer *peer)
{
	SSL_shutdown(peer->ssl);
}

void tls_peer_update_key(struct tls_peer *peer, bool asks)
{
	int type = asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;

	assert(SSL_key_update(peer->ssl, type) == 1);
	assert(SSL_do_handshake(peer->ssl) == 1);
}

SSL *tls_peer_ssl(struct tls_peer *peer)
{
	return peer->ssl;
}
