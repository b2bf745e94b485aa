/*
 * Heads of requests and responses, for their two targets. The first two bytes say where the rest is
 * cut; each part is given to the parser in memory of its own. What must hold:
 *
 *   - whole, cut, and byte by byte all lead to the same head, or to the same status
 *   - an accepted head is what a reader of plain lines finds: names, values, nothing between
 */
#ifndef TESTS_FUZZ_MESSAGE_H
#define TESTS_FUZZ_MESSAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/framing.h"
#include "http/parser.h"

#define MUST(claim)                                                                                \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct fuzz_outcome {
	enum http_parse result;
	unsigned status;
	struct http_head head;
	char *bytes; /* that the head lies in */
};

static inline char *fuzz_copy(const char *text, size_t len)
{
	char *copy = malloc(len > 0 ? len : 1);

	MUST(copy);
	memcpy(copy, text, len);
	return copy;
}

/* Gives the text as it has come by each of the cuts, then whole. */
static inline void fuzz_parse(struct fuzz_outcome *outcome, bool is_request, const char *text,
	size_t len, size_t first_cut, size_t step)
{
	static const struct http_parser_limits limits = {1500, 300, 40};
	struct http_parser parser = {0};
	size_t given = first_cut < len ? first_cut : len;

	*outcome = (struct fuzz_outcome){.result = HTTP_PARSE_MORE};
	http_head_init(&outcome->head);
	if (is_request)
		http_parser_begin_request(&parser, &outcome->head, &limits);
	else
		http_parser_begin_response(&parser, &outcome->head, &limits);
	for (;;) {
		char *copy = fuzz_copy(text, given);
		free(outcome->bytes);
		outcome->bytes = copy;
		outcome->result = http_parser_head(&parser, copy, given);
		if (outcome->result != HTTP_PARSE_MORE || given == len)
			break;
		given = step < len - given ? given + step : len;
	}
	if (outcome->result == HTTP_PARSE_BAD)
		outcome->status = parser.error_status;
	http_parser_end(&parser);
}

static inline void fuzz_outcome_end(struct fuzz_outcome *outcome)
{
	http_head_clear(&outcome->head);
	free(outcome->bytes);
}

static inline void fuzz_assert_same(const struct fuzz_outcome *a, const struct fuzz_outcome *b)
{
	MUST(a->result == b->result);
	/* A mistake in the very line that is beyond a limit: either may be told. */
	MUST(a->status == b->status || a->status == 431 || b->status == 431 || a->status == 414 ||
		b->status == 414);
	if (a->result != HTTP_PARSE_DONE)
		return;
	MUST(a->head.len == b->head.len && a->head.target_at == b->head.target_at);
	MUST(a->head.target_len == b->head.target_len && a->head.method == b->head.method);
	MUST(a->head.status == b->head.status && a->head.minor == b->head.minor);
	MUST(a->head.field_count == b->head.field_count && a->head.ids == b->head.ids);
	for (unsigned i = 0; i < a->head.field_count; i++) {
		const struct http_field *x = &a->head.fields[i], *y = &b->head.fields[i];
		MUST(x->name_at == y->name_at && x->name_len == y->name_len && x->id == y->id);
		MUST(x->value_len == y->value_len);
		MUST(x->value_len == 0 || x->value_at == y->value_at);
	}
}

static inline const char *fuzz_line_end(const char *at, const char *end)
{
	const char *cr = memmem(at, (size_t)(end - at), "\r\n", 2);

	MUST(cr);
	MUST(!memchr(at, '\n', (size_t)(cr - at)) && !memchr(at, '\r', (size_t)(cr - at)));
	return cr;
}

/* The fields again, by plain lines. */
static inline void fuzz_assert_lines(const struct http_head *head)
{
	const char *end = head->base + head->len, *at = head->base;
	uint32_t ids = 0, repeated = 0;
	unsigned first[HTTP_FIELDS] = {0};

	MUST(head->len >= 4 && head->major == 1);
	at = fuzz_line_end(at, end) + 2;
	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		const char *cr = fuzz_line_end(at, end);
		const char *colon = memchr(at, ':', (size_t)(cr - at));
		MUST(colon && colon > at);
		MUST(slice_equal(
			http_field_name(head, field), (struct slice){at, (size_t)(colon - at)}));
		MUST(slice_equal(http_field_value(head, field),
			slice_trim((struct slice){colon + 1, (size_t)(cr - colon - 1)})));
		MUST(field->id == http_field_id_of(http_field_name(head, field)));
		if (ids >> field->id & 1)
			repeated |= 1u << field->id;
		else
			first[field->id] = i;
		ids |= 1u << field->id;
		for (const char *c = at; c < colon; c++)
			MUST(*c > ' ' && *c < 127 && !strchr("\"(),/:;<=>?@[\\]{}", *c));
		for (const char *c = colon; c < cr; c++)
			MUST((unsigned char)*c >= ' ' || *c == '\t');
		at = cr + 2;
	}
	MUST(end - at == 2 && memcmp(at, "\r\n", 2) == 0);
	MUST(ids == head->ids && repeated == head->repeated);
	for (unsigned id = 0; id < HTTP_FIELDS; id++)
		MUST(!(ids >> id & 1) || head->first[id] == first[id]);
}

/* All of it on one input. `judge` looks at an accepted head. */
static inline void fuzz_message(
	const uint8_t *data, size_t size, bool is_request, void (*judge)(struct http_head *head))
{
	struct fuzz_outcome whole, cut;

	if (size < 2)
		return;
	const char *text = (const char *)data + 2;
	size_t len = size - 2, first = len ? ((size_t)data[0] << 8 | data[1]) % (len + 1) : 0;

	fuzz_parse(&whole, is_request, text, len, len, 1);
	fuzz_parse(&cut, is_request, text, len, first, len + 1);
	fuzz_assert_same(&whole, &cut);
	fuzz_outcome_end(&cut);
	fuzz_parse(&cut, is_request, text, len, first, 1u + data[0] % 7u);
	fuzz_assert_same(&whole, &cut);
	fuzz_outcome_end(&cut);
	if (whole.result == HTTP_PARSE_DONE) {
		MUST(whole.head.base == whole.bytes && whole.head.len <= len);
		fuzz_assert_lines(&whole.head);
		judge(&whole.head);
	} else if (whole.result == HTTP_PARSE_BAD) {
		MUST(whole.status >= 400 && whole.status <= 599);
	}
	fuzz_outcome_end(&whole);
}

#endif
