/* What one process hands to the next: written, read, taken; and what can't be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/handover.h"
#include "tests/unit/suite.h"

static int listening(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void written_and_read(void **state)
{
	struct handover *out = handover_new(), *in;
	int first = listening(), second = listening(), other = listening(), file;
	char why[256];

	(void)state;
	file = memfd_create("t", 0);
	out->channel = file;
	out->table = file;
	out->clock_offset_ns = UINT64_C(1700000000000000001);
	assert_true(handover_add_socket(out, "listener", "127.0.0.1:80", first));
	assert_true(handover_add_socket(out, "listener", "127.0.0.1:80", second));
	assert_true(handover_add_socket(out, "admin", "unix:/a b", other));
	assert_int_equal(handover_write(out, file), 0);
	handover_free(out);

	in = handover_read(file, why, sizeof(why));
	assert_non_null(in);
	assert_int_equal(in->channel, file);
	assert_int_equal(in->table, file);
	assert_null(in->folder);
	assert_true(in->clock_offset_ns == UINT64_C(1700000000000000001));
	assert_true(handover_has(in, "admin", "unix:/a b"));
	assert_false(handover_has(in, "listener", "unix:/a b"));
	assert_int_equal(handover_take(in, "listener", "127.0.0.1:8"), -1);
	assert_int_equal(handover_take(in, "listener", "127.0.0.1:80"), first);
	assert_int_equal(fcntl(first, F_GETFD), FD_CLOEXEC);
	assert_int_equal(handover_take(in, "listener", "127.0.0.1:80"), second);
	assert_int_equal(handover_take(in, "listener", "127.0.0.1:80"), -1);
	assert_false(handover_has(in, "listener", "127.0.0.1:80"));
	handover_close_rest(in);
	assert_int_equal(fcntl(other, F_GETFD), -1);
	assert_true(fcntl(first, F_GETFD) >= 0);
	handover_free(in);
	close(first);
	close(second);
	close(file);
	assert_false(handover_has(NULL, "admin", "x"));
	assert_int_equal(handover_take(NULL, "admin", "x"), -1);
	handover_free(NULL);
}

static void a_folder(void **state)
{
	struct handover *out = handover_new(), *in;
	int file = memfd_create("t", 0);
	char why[256];

	(void)state;
	out->channel = file;
	out->folder = strdup("/var/lib/sluice state");
	assert_int_equal(handover_write(out, file), 0);
	handover_free(out);
	in = handover_read(file, why, sizeof(why));
	assert_non_null(in);
	assert_string_equal(in->folder, "/var/lib/sluice state");
	assert_int_equal(in->table, -1);
	handover_free(in);
	close(file);
}

static void what_can_not_be(void **state)
{
	char good[128], why[256], text[256];
	int file = memfd_create("t", 0), plain = memfd_create("u", 0), fd = listening();
	/* After `sluice 1` and a good channel: text with the plain file's or the socket's number.
	 */
	static const struct {
		const char *text;
		bool of_socket;
	} bad[] = {
		{"clock 1\nend\n", false},             /* no table */
		{"clock 1\ntable %d\n", false},        /* no end */
		{"table %d\nfolder /x\nend\n", false}, /* both */
		{"table 9999\nend\n", false},          /* not open */
		{"table 0\nend\n", false},             /* not handed over */
		{"table -1\nend\n", false},
		{"table\nend\n", false},
		{"clock many\ntable %d\nend\n", false},
		{"folder /x\nfolder /y\nend\n", false},
		{"folder /x\nsocket %d listener a\nend\n", false}, /* no socket */
		{"folder /x\nsocket %d\nend\n", true},             /* no name */
		{"folder /x\nsocket 99999999999 x y\nend\n", false},
		{"folder /x\nunknown\nend\n", false},
		{"folder /x\n\nend\n", false},
	};

	(void)state;
	assert_null(handover_read(9999, why, sizeof(why)));
	snprintf(good, sizeof(good), "sluice 1\nchannel %d\n", plain);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char rest[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(rest, sizeof(rest), bad[i].text, bad[i].of_socket ? fd : plain);
#pragma GCC diagnostic pop
		snprintf(text, sizeof(text), "%s%s", good, rest);
		assert_int_equal(ftruncate(file, 0), 0);
		assert_int_equal(pwrite(file, text, strlen(text), 0), (ssize_t)strlen(text));
		assert_null(handover_read(file, why, sizeof(why)));
		assert_true(strlen(why) > 0);
	}
	assert_int_equal(ftruncate(file, 0), 0);
	assert_null(handover_read(file, why, sizeof(why)));
	assert_int_equal(pwrite(file, "sluice 2\n", 9, 0), 9);
	assert_null(handover_read(file, why, sizeof(why)));
	assert_non_null(strstr(why, "another version"));
	close(file);
	close(plain);
	close(fd);
}

UNIT_SUITE(test_handover)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_and_read),
		cmocka_unit_test(a_folder),
		cmocka_unit_test(what_can_not_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
