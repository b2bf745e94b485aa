#include "net/tls_server.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/digest.h"
#include "net/tls_pair.h"
#include "net/tls_tickets.h"
#include "net/tls_wire.h"

#define DEFAULT_CIPHERS                                                                            \
	"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"              \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" \
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

#define NAME_BYTES      256
#define PROTOCOLS_BYTES 64

/* Certificates of the same names, one of each kind of key, and their keys. */
struct certificate {
	SSL_CTX *context;
	char **names; /* in lower case, in order */
	size_t name_count;
};

/* A name of a certificate; sorted by it. */
struct name_entry {
	const char *name;
	size_t certificate;
};

struct tls_server {
	atomic_uint holders;
	BIO_METHOD *method;
	struct certificate *certificates;
	size_t count;
	struct name_entry *names;
	size_t name_count;
	X509_STORE *authorities; /* of clients' certificates; NULL: they need none */
	struct tls_pair_facts *pairs;
	size_t pair_count;
	unsigned char protocols[PROTOCOLS_BYTES]; /* each with its length before it */
	unsigned protocols_len;
	bool refuses_unknown;
	unsigned char identity[DIGEST_BYTES]; /* sessions of others are not resumed */
};

/* ---- names ----------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
	const struct name_entry *one = a, *other = b;

	return strcmp(one->name, other->name);
}

static const struct name_entry *find_entry(const struct tls_server *server, const char *name)
{
	struct name_entry key = {.name = name};

	return bsearch(
		&key, server->names, server->name_count, sizeof(*server->names), compare_entries);
}

/* The first of two that have the same name is found; a wildcard has one label (RFC 6125). NULL:
 * none has it. */
static const struct name_entry *look_up(const struct tls_server *server, const char *asked)
{
	char name[NAME_BYTES];
	size_t len = strlen(asked);

	if (len == 0 || len >= sizeof(name))
		return NULL;
	for (size_t i = 0; i <= len; i++)
		name[i] = (char)(asked[i] >= 'A' && asked[i] <= 'Z' ? asked[i] | 0x20 : asked[i]);
	if (name[len - 1] == '.')
		name[len - 1] = '\0';
	const struct name_entry *found = find_entry(server, name);
	char *dot = strchr(name, '.');
	if (!found && dot && dot > name) {
		dot[-1] = '*';
		found = find_entry(server, dot - 1);
	}
	return found;
}

bool tls_server_has_name(const struct tls_server *server, const char *name)
{
	return look_up(server, name) != NULL;
}

static int on_server_name(SSL *ssl, int *alert, void *arg)
{
	const struct tls_server *server = arg;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	const struct name_entry *found = name ? look_up(server, name) : NULL;

	if (!found && server->refuses_unknown) {
		*alert = SSL_AD_UNRECOGNIZED_NAME;
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	}
	if (!name)
		return SSL_TLSEXT_ERR_NOACK;
	SSL_set_SSL_CTX(ssl, server->certificates[found ? found->certificate : 0].context);
	return SSL_TLSEXT_ERR_OK;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(struct certificate *certificate, const ASN1_STRING *text)
{
	int len = ASN1_STRING_length(text);
	const char *at = (const char *)ASN1_STRING_get0_data(text);
	char **more = realloc(
		certificate->names, (certificate->name_count + 1) * sizeof(*certificate->names));

	if (more)
		certificate->names = more;
	if (!more || len <= 0 || len >= NAME_BYTES || memchr(at, '\0', (size_t)len))
		return more != NULL; /* a name that no client asks for */
	char *name = strndup(at, (size_t)len);
	if (!name)
		return false;
	for (char *c = name; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
	certificate->names[certificate->name_count++] = name;
	return true;
}

/* Its DNS names, or without any of them its common name. */
static bool read_names(struct certificate *certificate, const X509 *x509)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
	bool good = true;

	for (int i = 0; good && i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		if (name->type == GEN_DNS)
			good = add_name(certificate, name->d.dNSName);
	}
	GENERAL_NAMES_free(all);
	const X509_NAME *subject = X509_get_subject_name(x509);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	if (good && certificate->name_count == 0 && at >= 0)
		good = add_name(
			certificate, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (certificate->name_count > 1)
		qsort(certificate->names, certificate->name_count, sizeof(char *), compare_names);
	return good;
}

static bool has_same_names(const struct certificate *a, const struct certificate *b)
{
	if (a->name_count != b->name_count || a->name_count == 0)
		return false;
	for (size_t i = 0; i < a->name_count; i++) {
		if (strcmp(a->names[i], b->names[i]) != 0)
			return false;
	}
	return true;
}

static bool list_names(struct tls_server *server)
{
	size_t count = 0;

	for (size_t i = 0; i < server->count; i++)
		count += server->certificates[i].name_count;
	server->names = calloc(count + 1, sizeof(*server->names));
	if (!server->names)
		return false;
	for (size_t i = 0; i < server->count; i++) {
		const struct certificate *certificate = &server->certificates[i];
		for (size_t j = 0; j < certificate->name_count; j++) {
			struct name_entry entry = {certificate->names[j], i};
			bool known = false; /* of one that comes before it in the file */
			for (size_t k = 0; k < server->name_count && !known; k++)
				known = strcmp(server->names[k].name, entry.name) == 0;
			if (!known)
				server->names[server->name_count++] = entry;
		}
	}
	qsort(server->names, server->name_count, sizeof(*server->names), compare_entries);
	return true;
}

/* ---- protocols ------------------------------------------------------------------------------- */

/* A client that offers protocols, and none of ours, gets an alert (RFC 7301 section 3.2). */
static int on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *len,
	const unsigned char *offered, unsigned offered_len, void *arg)
{
	const struct tls_server *server = arg;
	unsigned char *found = NULL;

	(void)ssl;
	if (SSL_select_next_proto(&found, len, server->protocols, server->protocols_len, offered,
		    offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

static bool set_protocols(struct tls_server *server, const char *const *names)
{
	for (; *names; names++) {
		size_t len = strlen(*names);
		if (server->protocols_len + 1 + len > sizeof(server->protocols))
			return false;
		server->protocols[server->protocols_len++] = (unsigned char)len;
		memcpy(server->protocols + server->protocols_len, *names, len);
		server->protocols_len += (unsigned)len;
	}
	return true;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* TLS 1.3 has names of its own, which begin with TLS_. */
static bool set_ciphers(SSL_CTX *context, const char *ciphers)
{
	size_t len = strlen(ciphers);
	char *copy = strdup(ciphers), *old = calloc(1, len + 2), *new = calloc(1, len + 2);
	bool good = copy && old && new;
	char *rest = copy;

	for (char *name; good && (name = strsep(&rest, ":")) != NULL;) {
		char *list = strncmp(name, "TLS_", 4) == 0 ? new : old;
		if (*list)
			strcat(list, ":");
		strcat(list, name);
	}
	good = good && (!*old || SSL_CTX_set_cipher_list(context, old) == 1) &&
	       (!*new || SSL_CTX_set_ciphersuites(context, new) == 1);
	free(copy);
	free(old);
	free(new);
	return good;
}

/* ---- clients' certificates ---------------------------------------------------------------------
 */

static bool load_authorities(
	struct tls_server *server, const struct tls_settings *settings, char *why, size_t size)
{
	X509_STORE *store = server->authorities = X509_STORE_new();
	X509_LOOKUP *files = store ? X509_STORE_add_lookup(store, X509_LOOKUP_file()) : NULL;

	ERR_clear_error();
	if (!files || !tls_check_file(settings->client_ca, why, size) ||
		!tls_check_file(settings->client_crl, why, size))
		return false;
	if (X509_load_cert_crl_file(files, settings->client_ca, X509_FILETYPE_PEM) < 1)
		return tls_report(why, size, settings->client_ca, "can't read the authorities");
	if (!settings->client_crl)
		return true;
	if (X509_load_crl_file(files, settings->client_crl, X509_FILETYPE_PEM) < 1)
		return tls_report(why, size, settings->client_crl, "can't read the revocations");
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	return true;
}

static bool ask_clients(
	struct tls_server *server, const struct tls_settings *settings, SSL_CTX *context)
{
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(settings->client_ca);

	if (!names)
		return false;
	SSL_CTX_set1_verify_cert_store(context, server->authorities);
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context,
		SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE |
			(settings->requires_client ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
		NULL);
	return true;
}

static void put_file(FILE *out, const char *path)
{
	FILE *in = path ? tls_open(path) : NULL;

	for (int c; in && (c = getc(in)) != EOF;)
		putc(c, out);
	if (in)
		fclose(in);
}

/* Derives the session context from the listener's name and the means of verification, so that no
 * client resumes a session that it would not get now. */
static bool identify(struct tls_server *server, const struct tls_settings *settings)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return false;
	fprintf(out, "%s%c%d%d", settings->name, '\0', settings->asks_client,
		settings->requires_client);
	put_file(out, settings->client_ca);
	put_file(out, settings->client_crl);
	bool good = fclose(out) == 0;
	if (good)
		digest_make((struct slice){text, len}, server->identity);
	free(text);
	return good;
}

/* From OpenSSL 3.5 on with the hybrid group of TLS 1.3. */
static bool set_groups(SSL_CTX *context, const char *groups)
{
	if (groups)
		return SSL_CTX_set1_groups_list(context, groups) == 1;
	bool good = SSL_CTX_set1_groups_list(context, "X25519MLKEM768:X25519:P-256:P-384") == 1 ||
		    SSL_CTX_set1_groups_list(context, "X25519:P-256:P-384") == 1;
	ERR_clear_error();
	return good;
}

static SSL_CTX *context_new(
	struct tls_server *server, const struct tls_settings *settings, char *why, size_t size)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());

	if (!context)
		return NULL;
	SSL_CTX_set_min_proto_version(context, settings->tls12 ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(context, settings->tls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	/* A write is repeated from a buffer of ours, and an idle connection has no buffers. */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(context, 1);
	/* Sessions are in tickets only, and good for the listener of this name. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(context, server->identity, sizeof(server->identity));
	if (settings->tickets)
		tls_tickets_use(settings->tickets, context);
	else if (SSL_CTX_set_num_tickets(context, 0) == 1)
		SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	SSL_CTX_set_tlsext_servername_callback(context, on_server_name);
	SSL_CTX_set_tlsext_servername_arg(context, server);
	SSL_CTX_set_alpn_select_cb(context, on_protocols, server);
	if (!set_groups(context, settings->groups))
		snprintf(why, size, "tls_groups: %s", tls_reason());
	else if (!set_ciphers(context, settings->ciphers ? settings->ciphers : DEFAULT_CIPHERS))
		snprintf(why, size, "tls_ciphers: %s", tls_reason());
	else
		return context;
	SSL_CTX_free(context);
	return NULL;
}

static void clear_names(struct certificate *certificate)
{
	for (size_t i = 0; i < certificate->name_count; i++)
		free(certificate->names[i]);
	free(certificate->names);
	*certificate = (struct certificate){.context = certificate->context};
}

static int kind_of(const SSL_CTX *context)
{
	return EVP_PKEY_get_base_id(SSL_CTX_get0_privatekey(context));
}

static bool has_kind(SSL_CTX *context, int kind)
{
	long has = SSL_CTX_set_current_cert(context, SSL_CERT_SET_FIRST);

	while (has == 1 && kind_of(context) != kind)
		has = SSL_CTX_set_current_cert(context, SSL_CERT_SET_NEXT);
	return has == 1;
}

/* The pair goes beside those of the same names, unless one of them has a key of its kind. */
static bool join_others(
	struct tls_server *server, const struct tls_pair *pair, char *why, size_t size)
{
	struct certificate *last = &server->certificates[server->count - 1];

	for (size_t i = 0; i + 1 < server->count; i++) {
		struct certificate *other = &server->certificates[i];
		if (!has_same_names(other, last) ||
			has_kind(other->context, kind_of(last->context)))
			continue;
		if (!tls_pair_use(other->context, pair, why, size))
			return false;
		clear_names(last);
		SSL_CTX_free(last->context);
		server->count--;
		break;
	}
	return true;
}

static bool note_pair(struct tls_server *server, const struct tls_pair *pair,
	const struct certificate *certificate)
{
	struct tls_pair_facts *facts = &server->pairs[server->pair_count++];
	struct tm end = {0};

	ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(certificate->context)), &end);
	facts->expires_s = timegm(&end);
	facts->path = strdup(pair->certificate);
	facts->name = strdup(certificate->name_count > 0 ? certificate->names[0] : "");
	return facts->path && facts->name;
}

size_t tls_server_pairs(const struct tls_server *server, const struct tls_pair_facts **pairs)
{
	*pairs = server->pairs;
	return server->pair_count;
}

static bool add_pair(struct tls_server *server, const struct tls_settings *settings,
	const struct tls_pair *pair, char *why, size_t size)
{
	struct certificate *certificate = &server->certificates[server->count];

	ERR_clear_error();
	certificate->context = context_new(server, settings, why, size);
	if (!certificate->context)
		return false;
	server->count++;
	if (!tls_pair_use(certificate->context, pair, why, size))
		return false;
	if (settings->asks_client && !ask_clients(server, settings, certificate->context))
		return tls_report(why, size, settings->client_ca, "can't use the authorities");
	if (!read_names(certificate, SSL_CTX_get0_certificate(certificate->context)) ||
		!note_pair(server, pair, certificate)) {
		snprintf(why, size, "no memory");
		return false;
	}
	return join_others(server, pair, why, size);
}

struct tls_server *tls_server_new(const struct tls_settings *settings, char *why, size_t size)
{
	struct tls_server *server = calloc(1, sizeof(*server));
	bool good = server != NULL;

	snprintf(why, size, "no memory");
	if (good) {
		atomic_init(&server->holders, 1);
		server->refuses_unknown = settings->refuses_unknown;
		server->certificates = calloc(settings->pair_count, sizeof(*server->certificates));
		server->pairs = calloc(settings->pair_count, sizeof(*server->pairs));
		server->method = tls_wire_method_new();
		good = server->certificates && server->pairs && server->method &&
		       set_protocols(server, settings->protocols) && identify(server, settings);
	}
	if (good && settings->asks_client)
		good = load_authorities(server, settings, why, size);
	for (size_t i = 0; good && i < settings->pair_count; i++)
		good = add_pair(server, settings, &settings->pairs[i], why, size);
	if (good && list_names(server)) {
		return server;
	}
	if (good)
		snprintf(why, size, "no memory");
	tls_server_release(server);
	return NULL;
}

struct tls_server *tls_server_hold(struct tls_server *server)
{
	/* relaxed: a holder may pass it on */
	atomic_fetch_add_explicit(&server->holders, 1, memory_order_relaxed);
	return server;
}

void tls_server_release(struct tls_server *server)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (!server || atomic_fetch_sub_explicit(&server->holders, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < server->count; i++) {
		clear_names(&server->certificates[i]);
		SSL_CTX_free(server->certificates[i].context);
	}
	for (size_t i = 0; i < server->pair_count; i++) {
		free(server->pairs[i].path);
		free(server->pairs[i].name);
	}
	BIO_meth_free(server->method);
	X509_STORE_free(server->authorities);
	free(server->pairs);
	free(server->certificates);
	free(server->names);
	free(server);
}

SSL *tls_server_accept(struct tls_server *server, struct tls_wire *wire)
{
	SSL *ssl = SSL_new(server->certificates[0].context);

	if (ssl && tls_wire_attach(wire, ssl, server->method)) {
		SSL_set_accept_state(ssl);
		return ssl;
	}
	SSL_free(ssl);
	return NULL;
}
