/* A client of TLS for tests, which has its encrypted bytes in memory: the test carries them. */
#ifndef UNIT_NET_TLS_PEER_H
#define UNIT_NET_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct tls_peer;

/* It asks for `name` (NULL: for none); `offers` are protocols as in ALPN, each behind its length
 * (NULL: none); `ciphers` of TLS 1.2 (NULL: TLS 1.3). */
struct tls_peer *tls_peer_new(const char *name, const char *offers, const char *ciphers);
void tls_peer_free(struct tls_peer *peer);

/* The handshake's next step: true when it is over. */
bool tls_peer_shakes(struct tls_peer *peer);
/* The reason of a failed one, or NULL. */
const char *tls_peer_failure(const struct tls_peer *peer);

/* Encrypted bytes: what it wants to send, and what has come. */
size_t tls_peer_take(struct tls_peer *peer, void *bytes, size_t room);
void tls_peer_give(struct tls_peer *peer, const void *bytes, size_t len);

/* Plain bytes. The second returns -1 at a close_notify, -3 while there are none. */
void tls_peer_write(struct tls_peer *peer, const void *bytes, size_t len);
long tls_peer_read(struct tls_peer *peer, void *bytes, size_t room);
void tls_peer_end(struct tls_peer *peer);
/* New keys for what it sends, and if it asks for them, for what it receives: bytes that are no
 * data. */
void tls_peer_update_key(struct tls_peer *peer, bool asks);

struct ssl_st *tls_peer_ssl(struct tls_peer *peer);

#endif
