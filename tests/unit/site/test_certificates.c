/* Certificates over sites, and over changes of their files. */
#include "site/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "net/tls_server.h"
#include "site/site.h"
#include "tests/unit/gate/conf_of.h"
#include "tests/unit/net/tls_files.h"
#include "tests/unit/suite.h"

static const char *const protocols[] = {"http/1.1", NULL};
static const struct certificates_terms terms = {protocols, NULL};
static char path[] = "/tmp/sluice-unit-XXXXXX";
static const struct conf *conf;

static struct site site_of(void)
{
	return (struct site){.conf = (struct conf *)(uintptr_t)conf,
		.certificates = calloc(conf->listener_count, sizeof(struct certificates *)),
		.prepared = calloc(conf->listener_count, sizeof(struct tls_server *))};
}

static size_t tls_listener(void)
{
	size_t i = 0;

	while (conf->listeners[i].tls.certificates.count == 0)
		i++;
	return i;
}

/* Do new connections get a certificate of this name? */
static bool has_name(const struct site *site, const char *name)
{
	struct tls_server *server = certificates_take(site->certificates[tls_listener()]);
	bool has = tls_server_has_name(server, name);

	tls_server_release(server);
	return has;
}

static int begin(void **state)
{
	char ini[256];

	(void)state;
	close(mkstemp(path));
	tls_files_make(path, NULL, "one.test", false);
	snprintf(ini, sizeof(ini),
		"[listener tls]\nbind = 127.0.0.1:3\ncertificate = %s\n[route r]\nupstream = u\n",
		path);
	conf = conf_of(ini);
	return 0;
}

static int end(void **state)
{
	(void)state;
	conf_release(conf);
	return unlink(path);
}

static void a_failed_reload_leaves_the_change_to_be_read(void **state)
{
	struct site site = site_of(), failed = site_of();

	(void)state;
	assert_true(certificates_prepare(&site, NULL, &terms, CERTIFICATES_READ_ALL));
	certificates_commit(&site);
	assert_true(has_name(&site, "one.test"));
	tls_files_make(path, NULL, "two.test", false);
	assert_true(certificates_prepare(&failed, &site, &terms, CERTIFICATES_READ_ALL));
	assert_true(has_name(&site, "one.test")); /* nothing is in use before the commit */
	certificates_release(&failed);
	certificates_look(&site, &terms, 1);
	assert_true(has_name(&site, "two.test"));
	certificates_release(&site);
}

UNIT_SUITE(test_certificates)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_reload_leaves_the_change_to_be_read),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
