#include "net/tls_tickets.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/digest.h"

#define CHAIN_BYTES 32
#define IV_BYTES    16 /* of AES */

struct tls_tickets {
	pthread_mutex_t lock;
	unsigned char chain[CHAIN_BYTES]; /* of `epoch`, where there is no secret */
	uint64_t epoch;
	bool has_previous;
	struct tls_ticket_key previous; /* of the epoch before, likewise */
	unsigned char *secret;          /* of the fleet; NULL: none */
	size_t secret_len;
};

static bool derive(const unsigned char *key, size_t key_len, const char *label, uint64_t number,
	void *out, size_t len)
{
	char info[64];
	int info_len = snprintf(info, sizeof(info), "sluice %s %" PRIu64, label, number);

	return digest_derive((struct slice){(const char *)key, key_len},
		(struct slice){info, (size_t)info_len}, out, len);
}

struct tls_tickets *tls_tickets_new(uint64_t now_s)
{
	struct tls_tickets *tickets = calloc(1, sizeof(*tickets));

	if (!tickets || getrandom(tickets->chain, CHAIN_BYTES, 0) != CHAIN_BYTES) {
		free(tickets);
		return NULL;
	}
	tickets->epoch = now_s / TLS_TICKET_S;
	pthread_mutex_init(&tickets->lock, NULL);
	return tickets;
}

void tls_tickets_free(struct tls_tickets *tickets)
{
	if (!tickets)
		return;
	tls_tickets_set_secret(tickets, NULL, 0);
	pthread_mutex_destroy(&tickets->lock);
	OPENSSL_clear_free(tickets->secret, tickets->secret_len);
	OPENSSL_cleanse(tickets, sizeof(*tickets));
	free(tickets);
}

void tls_tickets_set_secret(struct tls_tickets *tickets, const void *secret, size_t len)
{
	unsigned char *copy = len > 0 ? OPENSSL_memdup(secret, len) : NULL;

	pthread_mutex_lock(&tickets->lock);
	OPENSSL_clear_free(tickets->secret, tickets->secret_len);
	tickets->secret = copy;
	tickets->secret_len = copy ? len : 0;
	pthread_mutex_unlock(&tickets->lock);
}

void tls_tickets_write(struct tls_tickets *tickets, char out[static TLS_TICKETS_TEXT])
{
	pthread_mutex_lock(&tickets->lock);
	int used = snprintf(out, TLS_TICKETS_TEXT, "%" PRIu64 " ", tickets->epoch);
	for (size_t i = 0; i < CHAIN_BYTES; i++)
		used += snprintf(
			out + used, TLS_TICKETS_TEXT - (size_t)used, "%02x", tickets->chain[i]);
	pthread_mutex_unlock(&tickets->lock);
}

bool tls_tickets_read(struct tls_tickets *tickets, const char *text)
{
	unsigned char chain[CHAIN_BYTES];
	size_t len = 0;
	char *end;
	uint64_t epoch = strtoull(text, &end, 10);

	if (*end != ' ' || OPENSSL_hexstr2buf_ex(chain, sizeof(chain), &len, end + 1, '\0') != 1 ||
		len != CHAIN_BYTES)
		return false;
	pthread_mutex_lock(&tickets->lock);
	memcpy(tickets->chain, chain, CHAIN_BYTES);
	tickets->epoch = epoch;
	tickets->has_previous = false;
	pthread_mutex_unlock(&tickets->lock);
	OPENSSL_cleanse(chain, sizeof(chain));
	return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* With the lock. A clock that was set back keeps the newest epoch. */
static bool advance(struct tls_tickets *tickets, uint64_t epoch)
{
	unsigned char next[CHAIN_BYTES];
	bool good = true;

	while (good && tickets->epoch < epoch) {
		good = derive(tickets->chain, CHAIN_BYTES, "ticket", 0, &tickets->previous,
			       sizeof(tickets->previous)) &&
		       derive(tickets->chain, CHAIN_BYTES, "chain", 0, next, sizeof(next));
		if (good)
			memcpy(tickets->chain, next, CHAIN_BYTES);
		tickets->has_previous = good;
		tickets->epoch += good;
	}
	OPENSSL_cleanse(next, sizeof(next));
	return good;
}

static bool matches(const struct tls_ticket_key *key, const unsigned char *name)
{
	return memcmp(key->name, name, sizeof(key->name)) == 0;
}

/* With the lock. */
static bool find_own(struct tls_tickets *tickets, uint64_t epoch, const unsigned char *name,
	struct tls_ticket_key *key, bool *is_old)
{
	if (!advance(tickets, epoch) ||
		!derive(tickets->chain, CHAIN_BYTES, "ticket", 0, key, sizeof(*key)))
		return false;
	if (!name || matches(key, name))
		return true;
	*is_old = true;
	*key = tickets->previous;
	return tickets->has_previous && matches(key, name);
}

/* With the lock. */
static bool find_shared(struct tls_tickets *tickets, uint64_t epoch, const unsigned char *name,
	struct tls_ticket_key *key, bool *is_old)
{
	const uint64_t epochs[] = {epoch, epoch - 1, epoch + 1};

	for (size_t i = 0; i < (name ? 3 : 1); i++) {
		*is_old = i == 1;
		if (!derive(tickets->secret, tickets->secret_len, "ticket of epoch", epochs[i], key,
			    sizeof(*key)))
			return false;
		if (!name || matches(key, name))
			return true;
	}
	return false;
}

bool tls_tickets_find(struct tls_tickets *tickets, uint64_t now_s, const unsigned char *name,
	struct tls_ticket_key *key, bool *is_old)
{
	uint64_t epoch = now_s / TLS_TICKET_S;

	*is_old = false;
	pthread_mutex_lock(&tickets->lock);
	bool found = tickets->secret ? find_shared(tickets, epoch, name, key, is_old)
				     : find_own(tickets, epoch, name, key, is_old);
	pthread_mutex_unlock(&tickets->lock);
	return found;
}

/* ---- OpenSSL --------------------------------------------------------------------------------- */

static bool set_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *key)
{
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* 0: the ticket is none of ours, and a whole handshake follows; 2: the client gets another one,
 * which it does in TLS 1.3 always, as a ticket is used once there. */
static int on_ticket(SSL *ssl, unsigned char name[16], unsigned char iv[EVP_MAX_IV_LENGTH],
	EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int makes)
{
	struct tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct tls_ticket_key key;
	bool is_old;

	if (!tls_tickets_find(
		    tickets, clock_wall_ns() / CLOCK_NS_PER_S, makes ? NULL : name, &key, &is_old))
		return 0;
	if (makes)
		memcpy(name, key.name, sizeof(key.name));
	bool good =
		(!makes || getrandom(iv, IV_BYTES, 0) == IV_BYTES) &&
		EVP_CipherInit_ex2(cipher, EVP_aes_256_cbc(), key.cipher, iv, makes, NULL) == 1 &&
		set_mac(mac, &key);
	OPENSSL_cleanse(&key, sizeof(key));
	if (!good)
		return -1;
	return !makes && (is_old || SSL_version(ssl) >= TLS1_3_VERSION) ? 2 : 1;
}

void tls_tickets_use(struct tls_tickets *tickets, struct ssl_ctx_st *context)
{
	SSL_CTX_set_app_data(context, tickets);
	SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
	SSL_CTX_set_timeout(context, TLS_TICKET_S);
}
