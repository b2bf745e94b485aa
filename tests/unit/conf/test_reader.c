/* Lines: what inih would get wrong, and what is no line at all. */
#include "text.h"

#include "conf/reader.h"
#include "tests/unit/suite.h"

struct seen {
	char text[1 << 17];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void saw(struct seen *seen, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	seen->used += (size_t)vsnprintf(
		seen->text + seen->used, sizeof(seen->text) - seen->used, format, args);
	va_end(args);
}

static void see_section(void *user, unsigned line, struct slice kind, struct slice name)
{
	saw(user, "%u[%.*s|%.*s]", line, SLICE_ARGS(kind), SLICE_ARGS(name));
}

static void see_setting(void *user, unsigned line, const char *key, const char *value)
{
	saw(user, "%u(%s|%s)", line, key, value);
}

static void see_unreadable(void *user, unsigned line, bool section)
{
	saw(user, "%u%s", line, section ? "[?]" : "?");
}

/* What was read, then each error's line with a '!'. */
static void reads_n(const char *text, size_t len, const char *expected)
{
	struct seen seen = {.used = 0};
	const struct reader_handler handler = {
		see_section, see_setting, see_unreadable, &seen, NULL};
	struct conf_errors errors = {0};
	unsigned last = 0;

	reader_run((struct slice){text, len}, "t", &last, &handler, &errors);
	for (size_t i = 0; i < errors.count; i++)
		saw(&seen, "!%u", errors.items[i].line);
	conf_errors_free(&errors);
	assert_string_equal(seen.text, expected);
}

static void reads(const char *text, const char *expected)
{
	reads_n(text, strlen(text), expected);
}

/* The same for a long text: what it ends with. */
static void reads_last(const char *text, const char *expected)
{
	struct seen seen = {.used = 0};
	const struct reader_handler handler = {
		see_section, see_setting, see_unreadable, &seen, NULL};
	struct conf_errors errors = {0};
	unsigned last = 0;

	reader_run((struct slice){text, strlen(text)}, "t", &last, &handler, &errors);
	assert_int_equal(errors.count, 0);
	assert_string_equal(seen.text + seen.used - strlen(expected), expected);
}

static void plain_lines(void **state)
{
	(void)state;
	reads("", "");
	reads("[a]\nb=c", "1[a|]2(b|c)");
	reads("[a]\nb=c\n", "1[a|]2(b|c)");
	reads("\n\n[ a  n ]\n\n  b  =  c d  \n", "3[a|n]5(b|c d)");
	reads("[a]\nb = c = d\n", "1[a|]2(b|c = d)");
	reads("[a]\nb =\n", "1[a|]2(b|)");
	reads("[a]\n[b]\n", "1[a|]2[b|]");
}

static void crlf_and_bom(void **state)
{
	(void)state;
	reads("\xef\xbb\xbf[a]\r\nb = c\r\n\r\nd = e", "1[a|]2(b|c)4(d|e)");
	reads("[a]\n\xef\xbb\xbf[b]\n", "1[a|]2?!2");
}

static void comments(void **state)
{
	(void)state;
	reads("# x = y\n; x = y\n  # x\n\t; x\n[a] ; x\n", "5[a|]");
	reads("[a] # x\nb = c ; d\n", "1[a|]2(b|c)");
	reads("[a]\nb = c;d\n", "1[a|]2(b|c;d)");
	reads("[a]\nb = c # d\n", "1[a|]2(b|c # d)");
	reads("[a]\nb = ; d\n", "1[a|]2(b|)");
}

static void indented_lines_continue_nothing(void **state)
{
	(void)state;
	reads("[a]\nb = c\n  d = e\n", "1[a|]2(b|c)3(d|e)");
	reads("[a]\nb = c\n  d\n", "1[a|]2(b|c)3?!3");
}

static void continued_lines(void **state)
{
	(void)state;
	reads("[a]\nb = c \\\n  d\ne = f\n", "1[a|]2(b|c d)4(e|f)");
	reads("[a]\nb = c, \\\r\n\td, \\ \n# x\n  ; y \\\n e ; z\nf = g",
		"1[a|]2(b|c, d, e)7(f|g)");
	reads("[a]\nb = \\\n[::1]:80, \\\n[fe80::1%lo]:80\n",
		"1[a|]2(b|[::1]:80, [fe80::1%lo]:80)");
	reads("[a]\nb = c \\\n\nd = e\n", "1[a|]2(b|c)4(d|e)");
	/* Only a \ behind a blank, and of no comment, is one. */
	reads("[a]\nb = c\\\nd = e\n", "1[a|]2(b|c\\)3(d|e)");
	reads("[a]\nb = c ; x \\\nd = e\n", "1[a|]2(b|c)3(d|e)");
	reads("[a]\n# x \\\nd = e\n[b] ; \\\nf = g\n", "1[a|]3(d|e)4[b|]5(f|g)");
	/* Nothing continues: the end, or a section, which is read. */
	reads("[a]\nb = c \\\n", "1[a|]2(b|c)!2");
	reads("[a]\nb = c \\\n[d e]\nf = g\n", "1[a|]2(b|c)3[d|e]4(f|g)!2");
	reads("[a]\nb = c \\\n [d]\nf = g \\", "1[a|]2(b|c)3[d|]4(f|g)!2!4");
	/* An error is at the first line. */
	reads("[a]\nb c \\\nd\ne = f\n", "1[a|]2?4(e|f)!2");
}

static void lines_that_are_none(void **state)
{
	(void)state;
	reads("[a]\nb\n", "1[a|]2?!2");
	reads("[a]\n= c\n", "1[a|]2?!2");
	reads("[a]\nb: c\n", "1[a|]2?!2");
	reads("[a]\nb:c=d\n", "1[a|]2?!2");
	reads("[a]\nb ; = c\n", "1[a|]2?!2");
	/* What a section is, is clear without its end. */
	reads("[a\nb = c\n", "1[a|]2(b|c)!1");
	reads("[a n ; d\nb = c\n", "1[a|n]2(b|c)!1");
	reads("[a n # d\n[\n", "1[a|n]2[?]!1!2");
	reads("[a] b\nb = c\n", "1[a|]2(b|c)!1");
	reads("[]\n", "1[|]");
}

static void control_bytes(void **state)
{
	static const char nul[] = "[a]\nb = c\0d\n[x\0]\ne = f\n";

	(void)state;
	reads_n(nul, sizeof(nul) - 1, "1[a|]2?3[?]4(e|f)!2!3");
	reads("[a]\nb = c\rd\n", "1[a|]2?!2");
	reads("[a]\nb = c\x7f\n", "1[a|]2?!2");
	reads("[a]\nb\t=\tc\n", "1[a|]2(b|c)");
}

/* A binary file gets few words, however long it is. */
static void files_of_another_kind(void **state)
{
	char text[600] = "";
	struct conf_errors errors;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		strcat(text, i == 20 ? "x\n" : "\1\2\n");
	assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
	print_errors(&errors);
	assert_int_equal(errors.count, 1 + 10 + 2);
	assert_string_equal(errors.items[10].text, "t:10: byte 0x01 in column 1; expected text");
	assert_string_equal(errors.items[11].text, "t:11: 89 more lines hold control characters, "
						   "up to line 100; expected a text file");
	assert_string_equal(
		errors.items[12].text, "t:21: invalid setting \"x\"; expected key = value");
	conf_errors_free(&errors);

	text[strlen("\1\2\n") * 10] = '\0';
	assert_null(conf_parse(text, strlen(text), "t", NULL, &errors));
	assert_int_equal(errors.count, 1 + 10);
	conf_errors_free(&errors);
}

/* As some editors write it. */
static void utf16(void **state)
{
	static const char little[] = "\xff\xfe[\0a\0]\0\n\0", big[] = "\xfe\xff\0[\0a\0]\0\n";
	const char *texts[] = {little, big};
	struct conf_errors errors;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_null(conf_parse(texts[i], sizeof(little) - 1, "t", NULL, &errors));
		assert_int_equal(errors.count, 1);
		assert_string_equal(
			errors.items[0].text, "t:1: the text is in UTF-16; expected UTF-8");
		conf_errors_free(&errors);
	}
}

/* 199 bytes fit the buffer that distributions' inih has; it would cut one more without a word. */
/* Lines beyond inih's buffer are read as short ones are: blanks, comments, a value that is all. */
static void long_lines(void **state)
{
	char value[1001], text[2500], expected[2500];

	(void)state;
	memset(value, 'x', sizeof(value));
	for (size_t len = 190; len <= 1000; len += len < 210 ? 1 : 395) {
		value[len] = '\0';
		snprintf(text, sizeof(text), "[a]\n  b =  %s; x  \nd = e\n", value);
		snprintf(expected, sizeof(expected), "1[a|]2(b|%s; x)3(d|e)", value);
		reads(text, expected);
		snprintf(text, sizeof(text), "[a]\nb=%s \t ; c\nd = e\n", value);
		snprintf(expected, sizeof(expected), "1[a|]2(b|%s)3(d|e)", value);
		reads(text, expected);
		snprintf(text, sizeof(text), "[a]\nb = ; %s\nd = e\n", value);
		reads(text, "1[a|]2(b|)3(d|e)");
		snprintf(text, sizeof(text), "[a]\nb = c = %s # y\nd = e\n", value);
		snprintf(expected, sizeof(expected), "1[a|]2(b|c = %s # y)3(d|e)", value);
		reads(text, expected);
		/* Comments never come to inih. */
		snprintf(text, sizeof(text), "[a]\n#%s\nd = e\n", value);
		reads(text, "1[a|]3(d|e)");
		value[len] = 'x';
	}
	/* A key is never so long. */
	value[250] = '\0';
	snprintf(text, sizeof(text), "[a]\n%s = c\nd = e\n", value);
	reads(text, "1[a|]2?3(d|e)!2");
}

static void overlong_lines(void **state)
{
	enum { BYTES = 1 << 16 };
	char *text = malloc(2 * BYTES), *expected = malloc(2 * BYTES);

	(void)state;
	for (int over = 0; over <= 1; over++) {
		char *at = stpcpy(text, "[a]\nb = ");

		memset(at, 'x', BYTES - 5 + (size_t)over);
		strcpy(at + BYTES - 5 + over, "\nd = e\n");
		if (over)
			strcpy(expected, "1[a|]2?3(d|e)!2");
		else
			snprintf(expected, BYTES + 100, "1[a|]2(b|%.*s)3(d|e)", BYTES - 5, at);
		reads(text, expected);
	}
	/* In lines of ten bytes, each with the blank that joins it: "b = " and 6,553 of them fit.
	 */
	for (unsigned lines = 6553; lines <= 6554; lines++) {
		char *at = stpcpy(text, "[a]\nb =");

		for (unsigned i = 0; i < lines; i++)
			at = stpcpy(at, " \\\n012345678");
		stpcpy(at, "\nd = e\n");
		if (lines == 6553)
			reads_last(text, "012345678)6556(d|e)");
		else
			reads(text, "1[a|]2?6557(d|e)!2");
	}
	free(text);
	free(expected);
}

/* inih keeps 49 bytes of a section's name. */
static void long_section_names(void **state)
{
	(void)state;
	reads("[limit abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij]\n",
		"1[limit|abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij]");
}

UNIT_SUITE(test_reader)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_lines),
		cmocka_unit_test(crlf_and_bom),
		cmocka_unit_test(comments),
		cmocka_unit_test(indented_lines_continue_nothing),
		cmocka_unit_test(continued_lines),
		cmocka_unit_test(lines_that_are_none),
		cmocka_unit_test(control_bytes),
		cmocka_unit_test(files_of_another_kind),
		cmocka_unit_test(utf16),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(overlong_lines),
		cmocka_unit_test(long_section_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
