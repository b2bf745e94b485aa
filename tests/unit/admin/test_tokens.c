/* Files of tokens, and the roles that they give. */
#include "admin/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

/* SHA-256 of "abc", the example of FIPS 180-2. */
#define OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static char why[512];

static struct admin_tokens *load(const char *text)
{
	char path[] = "/tmp/sluice-test-tokens-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	*why = '\0';
	struct admin_tokens *tokens = admin_tokens_load(path, why, sizeof(why));
	unlink(path);
	return tokens;
}

static void a_line_gives_a_role(void **state)
{
	struct admin_tokens *tokens = load("# people\n"
					   "\n"
					   "ann read reads # of the day shift\n"
					   "\tbob  write\twrites\r\n"
					   "alone\n"
					   "#commented\n"
					   "with#sharp\n"
					   "carl read sha256:" OF_ABC "\n"
					   "twice read both\n"
					   "again write both\n"
					   "last read nolf");
	static const struct {
		const char *authorization;
		enum admin_role role;
	} cases[] = {
		{"Bearer reads", ADMIN_READ},
		{"Bearer writes", ADMIN_WRITE},
		{"Bearer alone", ADMIN_WRITE},
		{"Bearer with#sharp", ADMIN_WRITE},
		{"Bearer abc", ADMIN_READ},
		{"Bearer both", ADMIN_WRITE}, /* the larger one */
		{"Bearer nolf", ADMIN_READ},
		{"bearer   reads  ", ADMIN_READ},
		{"Bearer " OF_ABC, ADMIN_ANYONE},
		{"Bearer sha256:" OF_ABC, ADMIN_ANYONE},
		{"Bearer ann", ADMIN_ANYONE},
		{"Bearer #commented", ADMIN_ANYONE},
		{"Bearer commented", ADMIN_ANYONE},
		{"Bearer read", ADMIN_ANYONE},
		{"Bearer reads2", ADMIN_ANYONE},
		{"Bearer ", ADMIN_ANYONE},
		{"Bearer", ADMIN_ANYONE},
		{"Bearerreads", ADMIN_ANYONE},
		{"Basic reads", ADMIN_ANYONE},
		{"reads", ADMIN_ANYONE},
		{"", ADMIN_ANYONE},
		{NULL, ADMIN_ANYONE},
	};

	(void)state;
	if (!tokens)
		fail_msg("%s", why);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum admin_role role = admin_tokens_role(tokens, cases[i].authorization);
		if (role != cases[i].role)
			fail_msg("%s: %d", cases[i].authorization, (int)role);
	}
	admin_tokens_free(tokens);
}

static void a_wrong_line_is_named(void **state)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {
		{"", ": the file has no token"},
		{"# nothing\n\n", ": the file has no token"},
		{"ann read\n", ":1: expected NAME, read or write, and a token; or a token alone"},
		{"good\nann admin t\n", ":2: expected NAME, read or write"},
		{"ann read a b\n", ":1: expected NAME, read or write"},
		{"ann READ a\n", ":1: expected NAME, read or write"},
		{"sha256:12\n", ":1: expected 64 hexadecimal digits after sha256:"},
		{"a read sha256:" OF_ABC "0\n", ":1: expected 64 hexadecimal digits"},
		{"a read sha256:x" OF_ABC "\n", ":1: expected 64 hexadecimal digits"},
	};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(load(wrong[i].text));
		if (!strstr(why, wrong[i].said))
			fail_msg("%s: %s", wrong[i].said, why);
	}
	/* a token that was cut would be another one */
	memset(text, 'a', sizeof(text));
	text[1022] = '\n';
	text[1023] = '\0';
	struct admin_tokens *tokens = load(text);
	assert_non_null(tokens);
	admin_tokens_free(tokens);
	text[1022] = 'a';
	text[1023] = '\n';
	text[1024] = '\0';
	assert_null(load(text));
	assert_non_null(strstr(why, ":1: the line is longer than 1022 bytes"));
	assert_null(admin_tokens_load("/nonexistent/tokens", why, sizeof(why)));
	assert_string_equal(why, "/nonexistent/tokens: No such file or directory");
}

UNIT_SUITE(test_tokens)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_gives_a_role),
		cmocka_unit_test(a_wrong_line_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
