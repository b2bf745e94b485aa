#include "net/tls_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "net/tls_pair.h"
#include "net/tls_wire.h"

#define DAY_S       86400
#define PIECE_BYTES 4096

/* A digest of the settings and files, which shows a change of any. */
struct digest {
	unsigned char bytes[DIGEST_BYTES];
};

struct tls_client {
	atomic_uint holders;
	struct digest digest;
	SSL_CTX *context; /* a reference */
	BIO_METHOD *method;
	char *name;    /* NULL: none */
	bool is_ip;    /* the name is an address: not for SNI (RFC 6066 section 3) */
	bool verifies; /* the name, too */
	_Atomic int64_t expires_s, warned_s; /* relaxed: to be shown */
	pthread_mutex_t lock;
	SSL_SESSION *session; /* guarded; nobody's but ours: handshakes change theirs */
};

/* ---- what has changed ------------------------------------------------------------------------ */

/* The digest is that of itself and the bytes. */
static void add(struct digest *digest, const void *at, size_t len)
{
	char bytes[DIGEST_BYTES + PIECE_BYTES];

	memcpy(bytes, digest->bytes, DIGEST_BYTES);
	memcpy(bytes + DIGEST_BYTES, at, len);
	digest_make((struct slice){bytes, DIGEST_BYTES + len}, digest->bytes);
}

static void add_file(struct digest *digest, const char *path)
{
	char bytes[PIECE_BYTES];
	size_t len;
	FILE *file = path ? tls_open(path) : NULL;

	while (file && (len = fread(bytes, 1, sizeof(bytes), file)) > 0)
		add(digest, bytes, len);
	if (file)
		fclose(file);
	add(digest, path ? "f" : "-", 1); /* an empty file is not no file */
}

/* The system's store is large, and is replaced as a whole. */
static void add_store(struct digest *digest)
{
	const char *const variables[] = {
		X509_get_default_cert_file_env(), X509_get_default_cert_dir_env()};
	const char *const defaults[] = {X509_get_default_cert_file(), X509_get_default_cert_dir()};

	for (size_t i = 0; i < 2; i++) {
		const char *path = getenv(variables[i]);
		struct stat found;
		if (stat(path ? path : defaults[i], &found) == 0)
			add(digest, &found.st_mtim, sizeof(found.st_mtim));
	}
}

static struct digest digest_of(const struct tls_client_settings *settings)
{
	const char flags[] = {settings->verifies, settings->tls12, settings->tls13};
	struct digest digest = {{0}};

	add(&digest, flags, sizeof(flags));
	if (settings->protocol)
		add(&digest, settings->protocol, strlen(settings->protocol));
	if (!settings->ca)
		add_store(&digest);
	add_file(&digest, settings->ca);
	add_file(&digest, settings->crl);
	add_file(&digest, settings->certificate);
	add_file(&digest, settings->key);
	return digest;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static bool use_ca(
	SSL_CTX *context, const struct tls_client_settings *settings, char *why, size_t size)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);

	if (!settings->verifies)
		return true;
	if (!tls_check_file(settings->ca, why, size) || !tls_check_file(settings->crl, why, size))
		return false;
	if (!settings->ca) {
		if (SSL_CTX_set_default_verify_paths(context) != 1)
			return tls_report(why, size, "the system's authorities",
				"can't read the certificates");
	} else if (X509_STORE_load_file(store, settings->ca) != 1) {
		return tls_report(why, size, settings->ca, "can't read the certificates");
	}
	/* A certificate that is not its own issuer's may be listed alone. */
	X509_STORE_set_flags(store, settings->ca ? X509_V_FLAG_PARTIAL_CHAIN : 0);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (!settings->crl)
		return true;
	X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
	if (!lookup || X509_load_crl_file(lookup, settings->crl, X509_FILETYPE_PEM) < 1)
		return tls_report(why, size, settings->crl, "can't read the revocations");
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	return true;
}

/* A session is kept as a copy: OpenSSL marks that of a connection that is cut as not to be resumed,
 * and changes it in handshakes. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct tls_client *client = SSL_get_app_data(ssl);
	SSL_SESSION *copy = SSL_SESSION_dup(session);

	if (!copy)
		return 0;
	pthread_mutex_lock(&client->lock);
	SSL_SESSION *old = client->session;
	client->session = copy;
	pthread_mutex_unlock(&client->lock);
	SSL_SESSION_free(old);
	return 0;
}

static bool offer(SSL_CTX *context, const char *protocol)
{
	unsigned char list[64];
	size_t len = protocol ? strlen(protocol) : 0;

	if (len == 0 || len >= sizeof(list))
		return len == 0;
	list[0] = (unsigned char)len;
	memcpy(list + 1, protocol, len);
	return SSL_CTX_set_alpn_protos(context, list, (unsigned)len + 1) == 0;
}

/* The settings that all kinds of contexts have in common. */
static bool set_up(
	SSL_CTX *context, const struct tls_client_settings *settings, char *why, size_t size)
{
	struct tls_pair pair = {.certificate = settings->certificate, .key = settings->key};

	ERR_clear_error();
	SSL_CTX_set_min_proto_version(context, settings->tls12 ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(context, settings->tls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	if (settings->certificate)
		SSL_CTX_set_post_handshake_auth(context, 1);
	return use_ca(context, settings, why, size) &&
	       (!settings->certificate || tls_pair_use(context, &pair, why, size));
}

static SSL_CTX *context_new(const struct tls_client_settings *settings, char *why, size_t size)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	snprintf(why, size, "no memory");
	if (!context)
		return NULL;
	/* As net/tls_server.c has it. */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_new_session);
	if (offer(context, settings->protocol) && set_up(context, settings, why, size))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* ---- its life -------------------------------------------------------------------------------- */

static bool is_address(const char *name)
{
	unsigned char address[16];

	return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* Takes the reference to the context over, if it succeeds. NULL without memory. */
static struct tls_client *client_new(
	SSL_CTX *context, const struct digest *digest, const char *name, bool verifies)
{
	struct tls_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	atomic_init(&client->holders, 1);
	client->digest = *digest;
	client->method = tls_wire_method_new();
	client->name = name ? strdup(name) : NULL;
	if (!client->method || (name && !client->name)) {
		BIO_meth_free(client->method);
		free(client->name);
		free(client);
		return NULL;
	}
	size_t len = name ? strlen(name) : 0;
	if (len > 1 && name[len - 1] == '.') /* of the root: not part of the name here */
		client->name[len - 1] = '\0';
	client->is_ip = name && is_address(name);
	client->verifies = verifies;
	client->context = context;
	pthread_mutex_init(&client->lock, NULL);
	return client;
}

static bool is_named(const struct tls_client *client, const char *name)
{
	size_t len = client->name ? strlen(client->name) : 0;

	if (!client->name || !name)
		return client->name == name;
	return strncmp(client->name, name, len) == 0 &&
	       (name[len] == '\0' || (name[len] == '.' && name[len + 1] == '\0'));
}

struct tls_client *tls_client_new(const struct tls_client_settings *settings,
	struct tls_client *before, char *why, size_t size)
{
	const struct digest digest = digest_of(settings);

	if (before && memcmp(&before->digest, &digest, sizeof(digest)) == 0)
		return tls_client_for(before, settings->name, before);
	SSL_CTX *context = context_new(settings, why, size);
	struct tls_client *client =
		context ? client_new(context, &digest, settings->name, settings->verifies) : NULL;
	if (!client)
		SSL_CTX_free(context);
	return client;
}

struct tls_client *tls_client_for(
	const struct tls_client *like, const char *name, struct tls_client *before)
{
	if (before && is_named(before, name) &&
		memcmp(&before->digest, &like->digest, sizeof(like->digest)) == 0)
		return tls_client_hold(before);
	struct tls_client *client = client_new(like->context, &like->digest, name, like->verifies);
	if (client)
		SSL_CTX_up_ref(client->context);
	return client;
}

struct tls_client *tls_client_hold(struct tls_client *client)
{
	/* relaxed: a holder may pass it on */
	atomic_fetch_add_explicit(&client->holders, 1, memory_order_relaxed);
	return client;
}

void tls_client_release(struct tls_client *client)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (!client || atomic_fetch_sub_explicit(&client->holders, 1, memory_order_acq_rel) != 1)
		return;
	SSL_SESSION_free(client->session);
	SSL_CTX_free(client->context);
	BIO_meth_free(client->method);
	pthread_mutex_destroy(&client->lock);
	free(client->name);
	free(client);
}

void tls_client_slot_set(struct tls_client_slot *slot, struct tls_client *client)
{
	pthread_mutex_lock(&slot->lock);
	struct tls_client *old =
		atomic_exchange_explicit(&slot->client, client, memory_order_relaxed);
	pthread_mutex_unlock(&slot->lock);
	tls_client_release(old);
}

struct tls_client *tls_client_slot_take(struct tls_client_slot *slot)
{
	/* relaxed: the lock orders it with the hold that it has */
	pthread_mutex_lock(&slot->lock);
	struct tls_client *client = atomic_load_explicit(&slot->client, memory_order_relaxed);
	if (client)
		tls_client_hold(client);
	pthread_mutex_unlock(&slot->lock);
	return client;
}

int64_t tls_client_expires(const struct tls_client *client)
{
	return atomic_load_explicit(&client->expires_s, memory_order_relaxed);
}

bool tls_client_warns(struct tls_client *client, int64_t now_s, int64_t days)
{
	int64_t expires_s = tls_client_expires(client);
	int64_t warned_s = atomic_load_explicit(&client->warned_s, memory_order_relaxed);

	return expires_s != 0 && expires_s - now_s < days * DAY_S && now_s - warned_s >= DAY_S &&
	       atomic_compare_exchange_strong_explicit(&client->warned_s, &warned_s, now_s,
		       memory_order_relaxed, memory_order_relaxed);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* In seconds since 1970; 0: none. */
static int64_t end_of(const X509 *certificate)
{
	struct tm parts;

	if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1)
		return 0;
	return timegm(&parts);
}

/* A certificate that has expired since it was verified is verified again. */
static bool resume(struct tls_client *client, SSL *ssl)
{
	pthread_mutex_lock(&client->lock);
	SSL_SESSION *session = client->session ? SSL_SESSION_dup(client->session) : NULL;
	pthread_mutex_unlock(&client->lock);
	if (!session)
		return true;
	bool is_valid = !client->verifies || end_of(SSL_SESSION_get0_peer(session)) > time(NULL);
	bool is_good = !is_valid || SSL_set_session(ssl, session) == 1;
	SSL_SESSION_free(session);
	return is_good;
}

static bool verify_name(X509_VERIFY_PARAM *verifying, const char *name, bool is_ip)
{
	X509_VERIFY_PARAM_set_hostflags(verifying, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return is_ip ? X509_VERIFY_PARAM_set1_ip_asc(verifying, name) == 1
		     : X509_VERIFY_PARAM_set1_host(verifying, name, 0) == 1;
}

static bool set_name(const struct tls_client *client, SSL *ssl)
{
	if (!client->name)
		return true;
	if (!client->is_ip && SSL_set_tlsext_host_name(ssl, client->name) != 1)
		return false;
	if (!client->verifies)
		return true;
	return verify_name(SSL_get0_param(ssl), client->name, client->is_ip);
}

SSL *tls_client_connect(struct tls_client *client, struct tls_wire *wire)
{
	SSL *ssl = SSL_new(client->context);

	if (ssl && tls_wire_attach(wire, ssl, client->method) && set_name(client, ssl) &&
		SSL_set_app_data(ssl, client) == 1 && resume(client, ssl)) {
		SSL_set_connect_state(ssl);
		return ssl;
	}
	SSL_free(ssl);
	return NULL;
}

void tls_client_note_handshake(struct tls_client *client, const SSL *ssl)
{
	int64_t expires_s = end_of(SSL_get0_peer_certificate(ssl));

	if (expires_s != 0)
		atomic_store_explicit(&client->expires_s, expires_s, memory_order_relaxed);
}

static void print_verified(long verified, const char *name, char *why, size_t size)
{
	if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
		snprintf(why, size, "name does not match %s", name);
	else
		snprintf(why, size, "%s", X509_verify_cert_error_string(verified));
}

bool tls_client_explain(const struct tls_client *client, const SSL *ssl, char *why, size_t size)
{
	int reason = ERR_GET_REASON(ERR_peek_last_error());
	long verified = SSL_get_verify_result(ssl);

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
		print_verified(verified, client->name, why, size);
	else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST)
		snprintf(why, size, "it speaks no TLS");
	else
		return false;
	return true;
}

/* ---- contexts of others ---------------------------------------------------------------------- */

static int verify(X509_STORE_CTX *chain, void *arg)
{
	struct tls_verdict *verdict = arg;
	int result = X509_verify_cert(chain);

	if (result != 1)
		print_verified(X509_STORE_CTX_get_error(chain), verdict->name, verdict->why,
			sizeof(verdict->why));
	return result;
}

bool tls_client_set_up(SSL_CTX *context, const struct tls_client_settings *settings,
	struct tls_verdict *verdict, char *why, size_t size)
{
	*verdict = (struct tls_verdict){.name = settings->name};
	if (!set_up(context, settings, why, size))
		return false;
	if (!settings->verifies)
		return true;
	SSL_CTX_set_cert_verify_callback(context, verify, verdict);
	snprintf(why, size, "no memory");
	return verify_name(SSL_CTX_get0_param(context), settings->name, is_address(settings->name));
}
