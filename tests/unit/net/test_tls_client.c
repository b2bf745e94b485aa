/* Which certificates of servers are accepted, which settings make another client, and sessions. */
#include "net/tls_client.h"

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
#include <unistd.h>

#include "net/tls_server.h"
#include "net/tls_tickets.h"
#include "net/tls_wire.h"
#include "tests/unit/suite.h"
#include "tls_files.h"

struct fixture {
	char folder[32], path[64], other[64];
	struct tls_tickets *tickets;
	struct tls_server *server; /* with the certificate in `path` */
	struct tls_client_settings settings;
	char why[256];
};

static struct fixture *begin(const char *names)
{
	static const char *const http[] = {"http/1.1", NULL};
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->folder, "/tmp/tls_client.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/a", f->folder);
	snprintf(f->other, sizeof(f->other), "%s/b", f->folder);
	tls_files_make(f->path, NULL, names, false);
	tls_files_make(f->other, NULL, names, false);
	struct tls_pair pair = {f->path, f->path, NULL};
	f->tickets = tls_tickets_new(1);
	struct tls_settings settings = {.name = "l",
		.tickets = f->tickets,
		.pairs = &pair,
		.pair_count = 1,
		.tls12 = true,
		.tls13 = true,
		.protocols = http};
	f->server = tls_server_new(&settings, f->why, sizeof(f->why));
	assert_non_null(f->server);
	f->settings = (struct tls_client_settings){.name = "api.test",
		.ca = f->path,
		.verifies = true,
		.tls12 = true,
		.tls13 = true,
		.protocol = "http/1.1"};
	return f;
}

static void end(struct fixture *f)
{
	tls_server_release(f->server);
	tls_tickets_free(f->tickets);
	unlink(f->path);
	unlink(f->other);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
}

static struct tls_client *make(struct fixture *f, struct tls_client *before)
{
	struct tls_client *client = tls_client_new(&f->settings, before, f->why, sizeof(f->why));

	if (!client)
		print_message("# %s\n", f->why);
	assert_non_null(client);
	return client;
}

static void set_memory(SSL *ssl, BIO **in, BIO **out)
{
	*in = BIO_new(BIO_s_mem());
	*out = BIO_new(BIO_s_mem());
	assert_true(*in && *out);
	BIO_set_mem_eof_return(*in, -1);
	SSL_set_bio(ssl, *in, *out);
}

static void carry(BIO *from, BIO *to)
{
	char bytes[20000];
	int n;

	while ((n = BIO_read(from, bytes, sizeof(bytes))) > 0)
		BIO_write(to, bytes, n);
}

enum result { REFUSED, FULL, RESUMED };

/* A handshake with all bytes in memory, and what comes behind it. With REFUSED, f->why says why. */
static enum result shake(struct fixture *f, struct tls_client *client)
{
	struct tls_wire ours = {.pending = NULL}, theirs = {.pending = NULL};
	SSL *ssl = tls_client_connect(client, &ours);
	SSL *server = tls_server_accept(f->server, &theirs);
	BIO *in, *out, *server_in, *server_out;
	enum result made = REFUSED;
	char byte;

	assert_true(ssl && server);
	set_memory(ssl, &in, &out);
	set_memory(server, &server_in, &server_out);
	f->why[0] = '\0';
	for (unsigned i = 0; i < 6 && !f->why[0]; i++) {
		ERR_clear_error();
		int result = SSL_do_handshake(ssl);
		if (result != 1 && SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ &&
			!tls_client_explain(client, ssl, f->why, sizeof(f->why)))
			strcpy(f->why, "?");
		carry(out, server_in);
		ERR_clear_error();
		SSL_do_handshake(server);
		carry(server_out, in);
		if (result == 1)
			made = SSL_session_reused(ssl) ? RESUMED : FULL;
	}
	if (made != REFUSED) {
		tls_client_note_handshake(client, ssl);
		assert_int_equal(SSL_read(ssl, &byte, 1), -1); /* tickets */
	}
	SSL_free(ssl);
	SSL_free(server);
	return made;
}

static void the_name_has_to_match(void **state)
{
	static const struct {
		const char *name;
		bool matches;
	} rows[] = {{"api.test", true}, {"API.test", true}, {"api.test.", true},
		{"b.wild.test", true}, {"a.b.wild.test", false}, {"wild.test", false},
		{"other.test", false}, {"127.0.0.1", false}, {"::1", false}};
	struct fixture *f = begin("api.test,*.wild.test");

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		f->settings.name = rows[i].name;
		struct tls_client *client = make(f, NULL);
		if ((shake(f, client) != REFUSED) != rows[i].matches)
			fail_msg("%s: %s", rows[i].name, f->why);
		if (!rows[i].matches)
			assert_non_null(strstr(f->why, "name does not match"));
		assert_int_equal(tls_client_expires(client) != 0, rows[i].matches);
		tls_client_release(client);
	}
	f->settings.name = "other.test";
	f->settings.verifies = false;
	struct tls_client *client = make(f, NULL);
	assert_int_equal(shake(f, client), FULL);
	tls_client_release(client);
	end(f);
}

static void the_authority_has_to_match(void **state)
{
	struct fixture *f = begin("api.test");

	(void)state;
	f->settings.ca = f->other;
	struct tls_client *client = make(f, NULL);
	assert_int_equal(shake(f, client), REFUSED);
	assert_true(f->why[0] && f->why[0] != '?');
	tls_client_release(client);
	f->settings.ca = NULL;
	client = make(f, NULL);
	assert_int_equal(shake(f, client), REFUSED);
	tls_client_release(client);
	end(f);
}

static void only_what_is_the_same_is_kept(void **state)
{
	struct fixture *f = begin("api.test");
	struct tls_client *first = make(f, NULL), *second;

	(void)state;
	second = make(f, first);
	assert_ptr_equal(first, second);
	tls_client_release(second);
	second = tls_client_for(first, "api.test", NULL);
	assert_ptr_not_equal(first, second);
	tls_client_release(second);
	second = tls_client_for(first, "api.test.", first);
	assert_ptr_equal(first, second);
	tls_client_release(second);
	for (unsigned i = 0; i < 6; i++) {
		struct tls_client_settings settings = f->settings;
		f->settings.name = i == 0 ? "other.test" : settings.name;
		f->settings.ca = i == 1 ? f->other : settings.ca;
		f->settings.verifies = i != 2;
		f->settings.tls12 = i != 3;
		f->settings.certificate = f->settings.key = i == 4 ? f->other : NULL;
		if (i == 5)
			tls_files_make(f->path, NULL, "api.test", false);
		second = make(f, first);
		assert_ptr_not_equal(first, second);
		tls_client_release(second);
		f->settings = settings;
	}
	tls_client_release(first);
	end(f);
}

static void a_session_is_resumed_by_its_client_alone(void **state)
{
	struct fixture *f = begin("api.test,b.test");

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		f->settings.tls13 = i == 0;
		struct tls_client *client = make(f, NULL);
		struct tls_client *other = tls_client_for(client, "b.test", client);
		assert_int_equal(shake(f, client), FULL);
		assert_int_equal(shake(f, client), RESUMED);
		assert_int_equal(shake(f, other), FULL);
		assert_int_equal(shake(f, client), RESUMED);
		assert_int_equal(shake(f, other), RESUMED);
		tls_client_release(client);
		tls_client_release(other);
	}
	end(f);
}

static void a_slot_holds_what_is_in_use(void **state)
{
	struct fixture *f = begin("api.test");
	struct tls_client_slot slot = {.client = NULL};
	struct tls_client *first = make(f, NULL), *second = make(f, NULL);

	(void)state;
	assert_null(tls_client_slot_take(&slot));
	tls_client_slot_set(&slot, first);
	assert_ptr_equal(tls_client_slot_look(&slot), first);
	struct tls_client *taken = tls_client_slot_take(&slot);
	tls_client_slot_set(&slot, second);
	assert_ptr_equal(tls_client_slot_look(&slot), second);
	assert_ptr_equal(taken, first); /* and it lives on */
	assert_int_equal(shake(f, taken), FULL);
	tls_client_release(taken);
	tls_client_slot_set(&slot, NULL);
	assert_null(tls_client_slot_look(&slot));
	end(f);
}

/* Nor does it send tickets that nobody resumes. */
static void a_server_without_tickets_resumes_nothing(void **state)
{
	static const char *const http[] = {"http/1.1", NULL};
	struct fixture *f = begin("api.test");
	struct tls_pair pair = {f->path, f->path, NULL};
	struct tls_settings settings = {.name = "l",
		.pairs = &pair,
		.pair_count = 1,
		.client_ca = f->path,
		.asks_client = true,
		.requires_client = true,
		.tls13 = true,
		.protocols = http};

	(void)state;
	tls_server_release(f->server);
	f->server = tls_server_new(&settings, f->why, sizeof(f->why));
	assert_non_null(f->server);
	f->settings.certificate = f->settings.key = f->path;
	f->settings.name = NULL; /* any that the authority has signed */
	struct tls_client *client = make(f, NULL);
	assert_int_equal(shake(f, client), FULL);
	assert_int_equal(shake(f, client), FULL);
	tls_client_release(client);
	end(f);
}

static void expiry_is_warned_of_once_a_day(void **state)
{
	struct fixture *f = begin("api.test");
	struct tls_client *client = make(f, NULL);

	(void)state;
	assert_false(tls_client_warns(client, 1, 21)); /* no handshake yet */
	assert_int_equal(shake(f, client), FULL);
	int64_t expires_s = tls_client_expires(client), day_s = 86400;
	assert_false(tls_client_warns(client, expires_s - 22 * day_s, 21));
	assert_true(tls_client_warns(client, expires_s - 20 * day_s, 21));
	assert_false(tls_client_warns(client, expires_s - 20 * day_s + 1, 21));
	assert_true(tls_client_warns(client, expires_s - 19 * day_s, 21));
	tls_client_release(client);
	end(f);
}

static void faults_of_files_are_named(void **state)
{
	static const char *const texts[] = {
		"can't read the certificates: No such file or directory",
		"can't read the revocations", "can't read the certificate:", "can't use the key"};
	struct fixture *f = begin("api.test");

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		f->settings.ca = i == 0 ? "/nowhere/at-all" : f->path;
		f->settings.crl = i == 1 ? f->path : NULL;
		f->settings.certificate = i == 2 ? "/nowhere/at-all" : i == 3 ? f->path : NULL;
		f->settings.key = i == 3 ? "/nowhere/at-all" : f->settings.certificate;
		assert_null(tls_client_new(&f->settings, NULL, f->why, sizeof(f->why)));
		if (!strstr(f->why, texts[i]))
			fail_msg("no \"%s\" in \"%s\"", texts[i], f->why);
	}
	end(f);
}

UNIT_SUITE(test_tls_client)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_name_has_to_match),
		cmocka_unit_test(the_authority_has_to_match),
		cmocka_unit_test(only_what_is_the_same_is_kept),
		cmocka_unit_test(a_session_is_resumed_by_its_client_alone),
		cmocka_unit_test(a_slot_holds_what_is_in_use),
		cmocka_unit_test(a_server_without_tickets_resumes_nothing),
		cmocka_unit_test(expiry_is_warned_of_once_a_day),
		cmocka_unit_test(faults_of_files_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
