/* Sinks for fields: in the form of HTTP/1, and in another one. */
#include "http/field_sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "head.h"
#include "http/changes.h"
#include "http/text_head.h"
#include "tests/unit/suite.h"

static char text[256];

/* Of a version whose fields look like `name==value.;`. */
static struct field_sink other_over(size_t capacity)
{
	return (struct field_sink){http_out_over(text, capacity), {{'=', '='}, {'.', ';'}}, 2};
}

static const char *written(const struct field_sink *sink)
{
	assert_false(sink->out.overflow);
	*sink->out.at = '\0';
	return text;
}

static void fields_have_the_marks_of_the_sink(void **state)
{
	struct field_sink lines = text_head_over(http_out_over(text, sizeof(text) - 1));
	struct field_sink other = other_over(sizeof(text) - 1);

	(void)state;
	text_head_status(&lines, 429, SLICE_NONE);
	text_head_status(&lines, 299, SLICE_NONE);
	text_head_status(&lines, 200, SLICE("Fine"));
	text_head_request(&lines, SLICE("GET"), SLICE("/"));
	field_put(&lines, SLICE("Name"), SLICE("value"));
	field_put(&lines, SLICE("Empty"), SLICE_NONE);
	field_put_number(&lines, SLICE("Number"), 12);
	text_head_end(&lines);
	assert_string_equal(written(&lines),
		"HTTP/1.1 429 Too Many Requests\r\nHTTP/1.1 299 \r\nHTTP/1.1 200 Fine\r\n"
		"GET / HTTP/1.1\r\nName: value\r\nEmpty: \r\nNumber: 12\r\n\r\n");
	field_put(&other, SLICE("Name"), SLICE("value"));
	field_put_number(&other, SLICE("Number"), 12);
	assert_string_equal(written(&other), "Name==value.;Number==12.;");
}

/* A field that does not fit is omitted as a whole, by its value or its name, and all behind it. */
static void what_does_not_fit_is_noted(void **state)
{
	for (size_t room = 0; room < strlen("A==12.;B==3.;"); room++) {
		struct field_sink sink = other_over(room);
		field_put(&sink, SLICE("A"), SLICE("12"));
		field_put(&sink, SLICE("B"), SLICE("3"));
		field_put(&sink, SLICE(""), SLICE_NONE);
		assert_true(sink.out.overflow);
		assert_int_equal(sink.out.at - text, room < 7 ? 0 : 7);
	}
	(void)state;
}

static bool is_c(const void *ctx, const struct http_field *field, struct slice name)
{
	(void)field;
	return slice_equal(name, *(const struct slice *)ctx);
}

/* In runs where head and sink have one form, else field by field; with the case of their names. */
static void fields_of_a_head_pass(void **state)
{
	const struct slice c = SLICE("C");
	const struct fields_omitted omitted = {HTTP_FIELD_BIT(HOST), is_c, &c};
	const struct fields_omitted none = {0};
	struct http_head head;

	(void)state;
	head_of(&head, "Host: h\nA:1\nC: 2\nbB:  3\nTE: x\n");
	head.fields[4].hop = true;
	head.len += 2; /* of an empty line */
	struct field_sink lines = text_head_over(http_out_over(text, sizeof(text) - 1));
	field_pass(&lines, &head, http_head_fields_at(&head), &omitted);
	assert_string_equal(written(&lines), "A:1\nbB:  3\n");
	struct field_sink other = other_over(sizeof(text) - 1);
	field_pass(&other, &head, 0, &omitted);
	assert_string_equal(written(&other), "A==1.;bB==3.;");
	lines = text_head_over(http_out_over(text, sizeof(text) - 1));
	field_pass_each(&lines, &head, &none);
	assert_string_equal(written(&lines), "Host: h\r\nA: 1\r\nC: 2\r\nbB: 3\r\n");
}

static void changes_know_the_form(void **state)
{
	struct conf_field set = {.name = "B", .name_len = 1, .value = "9", .value_len = 1};
	const struct conf_fields fields = {&set, 1};
	const struct http_changes changes = {.set = &fields};
	struct field_sink other = other_over(sizeof(text) - 1);

	(void)state;
	field_put(&other, SLICE("A"), SLICE("1"));
	char *own = other.out.at;
	field_put(&other, SLICE("b"), SLICE("2"));
	field_put(&other, SLICE("C"), SLICE("3"));
	http_changes_filter(&other, own, &changes);
	http_changes_put(&other, &changes, NULL);
	assert_string_equal(written(&other), "A==1.;C==3.;B==9.;");
}

UNIT_SUITE(test_field_sink)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_have_the_marks_of_the_sink),
		cmocka_unit_test(what_does_not_fit_is_noted),
		cmocka_unit_test(fields_of_a_head_pass),
		cmocka_unit_test(changes_know_the_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
