/* Which certificate, version, cipher and protocol a client gets, and what is wrong with files. */
#include "net/tls_server.h"
#include "net/tls_tickets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "net/tls_wire.h"
#include "tests/unit/suite.h"
#include "tls_files.h"
#include "tls_peer.h"

#define ECDSA_12 "ECDHE-ECDSA-AES128-GCM-SHA256"
#define RSA_12   "ECDHE-RSA-AES128-GCM-SHA256"

static const char *const http[] = {"h2", "http/1.1", NULL};

struct fixture {
	char folder[32], paths[6][64];
	struct tls_pair pairs[6];
	struct tls_settings settings;
	struct tls_tickets *tickets;
	char why[512];
};

static struct fixture *begin(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->folder, "/tmp/tls_server.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	f->tickets = tls_tickets_new(1);
	f->settings = (struct tls_settings){.name = "public",
		.tickets = f->tickets,
		.pairs = f->pairs,
		.tls12 = true,
		.tls13 = true,
		.ciphers = "TLS_AES_128_GCM_SHA256:" ECDSA_12 ":" RSA_12,
		.protocols = http};
	return f;
}

static void end(struct fixture *f)
{
	for (size_t i = 0; i < 6; i++) {
		if (f->paths[i][0])
			unlink(f->paths[i]);
	}
	assert_int_equal(rmdir(f->folder), 0);
	tls_tickets_free(f->tickets);
	free(f);
}

static const char *new_path(struct fixture *f)
{
	size_t i = 0;

	while (f->paths[i][0])
		i++;
	size_t len = strlen(f->folder);
	memcpy(f->paths[i], f->folder, len);
	snprintf(f->paths[i] + len, sizeof(f->paths[i]) - len, "/%zu", i);
	return f->paths[i];
}

static void add(struct fixture *f, const char *names, bool is_rsa)
{
	const char *path = new_path(f);

	tls_files_make(path, NULL, names, is_rsa);
	f->pairs[f->settings.pair_count++] = (struct tls_pair){path, path, NULL};
}

static struct tls_server *make(struct fixture *f)
{
	struct tls_server *server = tls_server_new(&f->settings, f->why, sizeof(f->why));

	if (!server)
		print_message("# %s\n", f->why);
	assert_non_null(server);
	return server;
}

/* A handshake with all bytes in memory. NULL: it failed. */
static SSL *shake(struct tls_server *server, struct tls_peer *peer)
{
	struct tls_wire wire = {.pending = NULL};
	SSL *ssl = tls_server_accept(server, &wire);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	bool peer_done = false, done = false, failed = false;
	char bytes[20000];
	int n;

	assert_true(ssl && in && out);
	BIO_set_mem_eof_return(in, -1);
	SSL_set_bio(ssl, in, out);
	while (!failed && !(peer_done && done)) {
		peer_done = peer_done || tls_peer_shakes(peer);
		while ((n = (int)tls_peer_take(peer, bytes, sizeof(bytes))) > 0)
			BIO_write(in, bytes, n);
		ERR_clear_error();
		int result = done ? 1 : SSL_do_handshake(ssl);
		done = result == 1;
		while ((n = BIO_read(out, bytes, sizeof(bytes))) > 0)
			tls_peer_give(peer, bytes, (size_t)n);
		failed = (result != 1 && SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ) ||
			 tls_peer_failure(peer);
	}
	if (!failed)
		return ssl;
	SSL_free(ssl);
	return NULL;
}

/* The first name of the certificate that a client of these gets; "-": the handshake fails. */
static const char *name_for(struct tls_server *server, const char *name, const char *ciphers)
{
	static char text[256];
	struct tls_peer *peer = tls_peer_new(name, NULL, ciphers);
	SSL *ssl = shake(server, peer);

	strcpy(text, "-");
	if (ssl) {
		X509 *x509 = SSL_get0_peer_certificate(tls_peer_ssl(peer));
		GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
		const GENERAL_NAME *first = names ? sk_GENERAL_NAME_value(names, 0) : NULL;
		snprintf(text, sizeof(text), "%s%s",
			first ? (const char *)ASN1_STRING_get0_data(first->d.dNSName) : "common",
			EVP_PKEY_get_base_id(X509_get0_pubkey(x509)) == EVP_PKEY_RSA ? " rsa" : "");
		GENERAL_NAMES_free(names);
	}
	SSL_free(ssl);
	tls_peer_free(peer);
	return text;
}

static void a_name_selects_a_certificate(void **state)
{
	struct fixture *f = begin();

	(void)state;
	add(f, "first.test", false);
	add(f, "*.wild.test,wild.test", false);
	add(f, "Exact.Wild.Test", false);
	add(f, NULL, false); /* its common name is common.test */
	struct tls_server *server = make(f);
	assert_string_equal(name_for(server, "first.test", NULL), "first.test");
	assert_string_equal(name_for(server, "exact.wild.test", NULL), "Exact.Wild.Test");
	assert_string_equal(name_for(server, "EXACT.wild.test", NULL), "Exact.Wild.Test");
	assert_string_equal(name_for(server, "other.wild.test", NULL), "*.wild.test");
	assert_string_equal(name_for(server, "wild.test", NULL), "*.wild.test");
	assert_string_equal(name_for(server, "a.b.wild.test", NULL), "first.test");
	assert_string_equal(name_for(server, "common.test", NULL), "common");
	assert_string_equal(name_for(server, "unknown.test", NULL), "first.test");
	assert_string_equal(name_for(server, NULL, NULL), "first.test");
	tls_server_release(server);
	end(f);
}

static void kinds_of_keys_are_beside_each_other(void **state)
{
	struct fixture *f = begin();

	(void)state;
	add(f, "first.test", false);
	add(f, "both.test", false);
	add(f, "both.test", true);
	struct tls_server *server = make(f);
	assert_string_equal(name_for(server, "both.test", ECDSA_12), "both.test");
	assert_string_equal(name_for(server, "both.test", RSA_12), "both.test rsa");
	assert_string_equal(name_for(server, "both.test", NULL), "both.test");
	assert_string_equal(name_for(server, "first.test", RSA_12), "-"); /* it has no RSA */
	tls_server_release(server);
	end(f);
}

static void the_first_of_a_kind_is_used(void **state)
{
	struct fixture *f = begin();

	(void)state;
	add(f, "one.test,two.test", false);
	add(f, "one.test,two.test", true);
	add(f, "two.test,one.test", false);
	add(f, "two.test,one.test", true);
	struct tls_server *server = make(f);
	assert_string_equal(name_for(server, "two.test", ECDSA_12), "one.test");
	assert_string_equal(name_for(server, "two.test", RSA_12), "one.test rsa");
	tls_server_release(server);
	end(f);
}

static void versions_are_bounded(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fixture *f = begin();
		add(f, "a.test", false);
		f->settings.tls12 = i != 1;
		f->settings.tls13 = i != 2;
		struct tls_server *server = make(f);
		assert_string_equal(name_for(server, NULL, ECDSA_12), i != 1 ? "a.test" : "-");
		struct tls_peer *peer = tls_peer_new(NULL, NULL, NULL);
		SSL *ssl = shake(server, peer);
		assert_non_null(ssl);
		assert_int_equal(SSL_version(ssl), i == 2 ? TLS1_2_VERSION : TLS1_3_VERSION);
		SSL_free(ssl);
		tls_peer_free(peer);
		tls_server_release(server);
		end(f);
	}
}

static void the_server_prefers_its_protocols(void **state)
{
	static const struct {
		const char *offers, *chosen; /* NULL: the handshake fails */
	} rows[] = {{"\x08http/1.1\x02h2", "h2"}, {"\x08http/1.1", "http/1.1"}, {"\x04what", NULL},
		{NULL, ""}};
	struct fixture *f = begin();

	(void)state;
	add(f, "a.test", false);
	struct tls_server *server = make(f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tls_peer *peer = tls_peer_new(NULL, rows[i].offers, NULL);
		SSL *ssl = shake(server, peer);
		assert_int_equal(ssl != NULL, rows[i].chosen != NULL);
		if (ssl) {
			const unsigned char *name;
			unsigned len;
			SSL_get0_alpn_selected(ssl, &name, &len);
			assert_int_equal(len, strlen(rows[i].chosen));
			assert_memory_equal(name, rows[i].chosen, len);
		}
		SSL_free(ssl);
		tls_peer_free(peer);
	}
	tls_server_release(server);
	end(f);
}

/* A ticket of the one before is good for the next one, of any certificate. */
static void tickets_outlive_a_reload(void **state)
{
	struct fixture *f = begin();

	(void)state;
	add(f, "a.test", false);
	add(f, "b.test", false);
	struct tls_server *before = make(f);
	struct tls_server *server = tls_server_new(&f->settings, f->why, sizeof(f->why));
	assert_non_null(server);
	struct tls_peer *peer = tls_peer_new("b.test", NULL, ECDSA_12);
	SSL *ssl = shake(before, peer);
	assert_non_null(ssl);
	SSL_SESSION *session = SSL_get1_session(tls_peer_ssl(peer));
	struct tls_peer *again = tls_peer_new("b.test", NULL, ECDSA_12);
	SSL_set_session(tls_peer_ssl(again), session);
	SSL *second = shake(server, again);
	assert_non_null(second);
	assert_true(SSL_session_reused(second));
	/* But not where a listener of another name has the same keys. */
	f->settings.name = "other";
	struct tls_server *other = make(f);
	struct tls_peer *stranger = tls_peer_new("b.test", NULL, ECDSA_12);
	SSL_set_session(tls_peer_ssl(stranger), session);
	SSL *third = shake(other, stranger);
	assert_non_null(third);
	assert_false(SSL_session_reused(third));
	SSL_free(third);
	tls_peer_free(stranger);
	tls_server_release(other);
	SSL_free(second);
	SSL_free(ssl);
	SSL_SESSION_free(session);
	tls_peer_free(peer);
	tls_peer_free(again);
	tls_server_release(before);
	tls_server_release(server);
	end(f);
}

static void faults_of_files_are_named(void **state)
{
	static const char *const texts[] = {"can't read the certificate: No such file or directory",
		"can't use the key", "the key is not the certificate's", "tls_ciphers"};
	struct fixture *f = begin();
	const char *certificate = new_path(f), *key = new_path(f), *other = new_path(f),
		   *other_key = new_path(f);

	(void)state;
	tls_files_make(certificate, key, "a.test", false);
	tls_files_make(other, other_key, "b.test", false);
	f->settings.pair_count = 1;
	for (unsigned i = 0; i < 4; i++) {
		f->pairs[0] =
			(struct tls_pair){.certificate = i == 0 ? "/nowhere/at-all" : certificate,
				.key = i == 1   ? certificate
				       : i == 2 ? other_key
						: key};
		if (i == 3)
			f->settings.ciphers = "NO-SUCH-CIPHER";
		assert_null(tls_server_new(&f->settings, f->why, sizeof(f->why)));
		if (!strstr(f->why, texts[i]))
			fail_msg("no \"%s\" in \"%s\"", texts[i], f->why);
	}
	f->settings.ciphers = "TLS_AES_128_GCM_SHA256";
	f->pairs[0].key = key;
	tls_server_release(make(f));
	end(f);
}

UNIT_SUITE(test_tls_server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_selects_a_certificate),
		cmocka_unit_test(kinds_of_keys_are_beside_each_other),
		cmocka_unit_test(the_first_of_a_kind_is_used),
		cmocka_unit_test(versions_are_bounded),
		cmocka_unit_test(the_server_prefers_its_protocols),
		cmocka_unit_test(tickets_outlive_a_reload),
		cmocka_unit_test(faults_of_files_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
