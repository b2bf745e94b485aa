#include "http/lenient.h"

#include <stdbool.h>
#include <string.h>

#include "http/out.h"

size_t http_lenient_end(const char *base, size_t len, size_t looked)
{
	const char *at = base + (looked > 2 ? looked - 2 : 0), *end = base + len;

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		at++;
		if (at < end && *at == '\n')
			return (size_t)(at + 1 - base);
		if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
			return (size_t)(at + 2 - base);
	}
	return 0;
}

/* The lines of a head, one after the other, and what was found in them. */
struct cleaning {
	struct slice rest;
	struct http_out *out;
	unsigned forgiven, found;
	struct slice length; /* the first one; .at NULL: none yet */
	unsigned codings;    /* how often all lines together say `chunked`; 0: or something else */
	bool coding_written;
	bool framing; /* the line before says how long the message is */
	bool refused;
};

/* Takes the next line, with its end except LF, off the rest. */
static struct slice take_line(struct slice *rest)
{
	const char *newline = memchr(rest->at, '\n', rest->len);
	struct slice line = {rest->at, (size_t)(newline - rest->at)};

	rest->at += line.len + 1;
	rest->len -= line.len + 1;
	return line;
}

/* The name of a field line, without blanks behind it; empty: it has none. */
static struct slice name_of(struct slice line)
{
	const char *colon = memchr(line.at, ':', line.len);
	struct slice name = {line.at, colon ? (size_t)(colon - line.at) : 0};

	while (name.len > 0 && (name.at[name.len - 1] == ' ' || name.at[name.len - 1] == '\t'))
		name.len--;
	return name;
}

/* How many elements of the list are `chunked`; 0 if one is something else. */
static unsigned count_chunked(struct slice list)
{
	struct slice element;
	unsigned count = 0;

	for (; slice_next_element(&list, &element); count++) {
		if (!slice_equal_nocase(element, SLICE("chunked")))
			return 0;
	}
	return count;
}

/* The same of all Transfer-Encoding fields of a head. */
static unsigned count_codings(struct slice rest)
{
	unsigned codings = 0;

	while (rest.len > 0) {
		struct slice line = take_line(&rest);
		if (!slice_equal_nocase(name_of(line), SLICE("transfer-encoding")))
			continue;
		if (line.at[line.len - 1] == '\r')
			line.len--;
		const char *value = (const char *)memchr(line.at, ':', line.len) + 1;
		unsigned count =
			count_chunked((struct slice){value, line.len - (size_t)(value - line.at)});
		if (count == 0)
			return 0;
		codings += count;
	}
	return codings;
}

/* Is it forgiven? Else the head is left as it came. */
static bool forgive(struct cleaning *cleaning, unsigned what)
{
	if (cleaning->forgiven & what)
		cleaning->found |= what;
	else
		cleaning->refused = true;
	return !cleaning->refused;
}

static void put_line(struct cleaning *cleaning, struct slice line)
{
	http_out_slice(cleaning->out, line);
	http_out_slice(cleaning->out, SLICE("\r\n"));
}

/* Takes the next line, without its end, off the rest. */
static struct slice next_line(struct cleaning *cleaning)
{
	struct slice line = take_line(&cleaning->rest);

	if (line.len > 0 && line.at[line.len - 1] == '\r')
		line.len--;
	else
		forgive(cleaning, HTTP_LENIENT_BARE_LF);
	return line;
}

/* Which deviation the version is; 0: none. */
static unsigned odd_version(const struct cleaning *cleaning, struct slice line)
{
	if (line.len <= 8 || memcmp(line.at, "HTTP/1.", 7) != 0 || line.at[8] != ' ')
		return 0;
	if (line.at[7] >= '2' && line.at[7] <= '9')
		return HTTP_LENIENT_HTTP_1_2;
	return line.at[7] == '0' && cleaning->codings > 0
		       ? cleaning->forgiven & HTTP_LENIENT_CHUNKED_HTTP_1_0
		       : 0;
}

static void clean_status_line(struct cleaning *cleaning)
{
	struct slice line = next_line(cleaning);
	unsigned odd = odd_version(cleaning, line);

	if (odd != 0 && forgive(cleaning, odd)) {
		http_out_slice(cleaning->out, SLICE("HTTP/1.1"));
		line = (struct slice){line.at + 8, line.len - 8};
	}
	put_line(cleaning, line);
}

static bool is_number(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
	}
	return text.len > 0;
}

/* Is each element of `value` the number that was there first? Else it is for the parser to refuse.
 */
static bool equals_length(struct cleaning *cleaning, struct slice value, unsigned *count)
{
	struct slice element;

	*count = 0;
	while (slice_next_element(&value, &element)) {
		if (!cleaning->length.at && is_number(element))
			cleaning->length = element;
		if (!cleaning->length.at || !slice_equal(element, cleaning->length))
			return false;
		++*count;
	}
	return *count > 0;
}

/* True: it was taken care of. */
static bool clean_length(struct cleaning *cleaning, struct slice value)
{
	bool drops = cleaning->codings > 0 && cleaning->forgiven & HTTP_LENIENT_LENGTH_AND_CHUNKED;
	bool first = !cleaning->length.at;
	unsigned count;

	if (!drops && !(cleaning->forgiven & HTTP_LENIENT_EQUAL_LENGTHS))
		return false;
	if (!equals_length(cleaning, value, &count)) {
		cleaning->refused = true;
		return true;
	}
	bool is_only = first && count == 1;
	if (!is_only && !forgive(cleaning, HTTP_LENIENT_EQUAL_LENGTHS))
		return true;
	if (drops)
		return forgive(cleaning, HTTP_LENIENT_LENGTH_AND_CHUNKED);
	if (first && !is_only) {
		http_out_slice(cleaning->out, SLICE("Content-Length: "));
		put_line(cleaning, cleaning->length);
	}
	return !is_only;
}

/* The same. */
static bool clean_coding(struct cleaning *cleaning)
{
	if (cleaning->codings < 2 || !(cleaning->forgiven & HTTP_LENIENT_CHUNKED_TWICE))
		return false;
	forgive(cleaning, HTTP_LENIENT_CHUNKED_TWICE);
	if (!cleaning->coding_written)
		put_line(cleaning, SLICE("Transfer-Encoding: chunked"));
	cleaning->coding_written = true;
	return true;
}

static void clean_field(struct cleaning *cleaning, struct slice line)
{
	struct slice name = name_of(line);

	if (name.len == 0) {
		cleaning->refused = true;
		return;
	}
	const char *colon = memchr(name.at, ':', line.len);
	struct slice value = {colon, line.len - (size_t)(colon - line.at)};
	if (name.at + name.len != colon && !forgive(cleaning, HTTP_LENIENT_SPACE_BEFORE_COLON))
		return;
	bool is_length = slice_equal_nocase(name, SLICE("content-length"));
	bool is_coding = slice_equal_nocase(name, SLICE("transfer-encoding"));
	cleaning->framing = is_length || is_coding;
	if (is_length &&
		clean_length(cleaning, slice_trim((struct slice){value.at + 1, value.len - 1})))
		return;
	if (is_coding && clean_coding(cleaning))
		return;
	http_out_slice(cleaning->out, name);
	put_line(cleaning, value);
}

/* Continues where the line before ended: with one space for the line's end and all blanks. A field
 * that says how long the message is must not: readers differ about it. */
static void clean_fold(struct cleaning *cleaning, struct slice line, bool is_first)
{
	if (is_first || cleaning->framing) {
		cleaning->refused = true;
		return;
	}
	if (!forgive(cleaning, HTTP_LENIENT_FOLDED_LINES))
		return;
	cleaning->out->at -= 2;
	http_out_char(cleaning->out, ' ');
	put_line(cleaning, slice_trim(line));
}

unsigned http_lenient_clean(struct slice head, unsigned forgiven, struct http_out *out)
{
	struct cleaning cleaning = {
		.rest = head, .out = out, .forgiven = forgiven, .codings = count_codings(head)};
	bool is_first = true;

	clean_status_line(&cleaning);
	while (!cleaning.refused && !out->overflow && cleaning.rest.len > 0) {
		struct slice line = next_line(&cleaning);
		if (line.len == 0)
			put_line(&cleaning, line);
		else if (line.at[0] == ' ' || line.at[0] == '\t')
			clean_fold(&cleaning, line, is_first);
		else
			clean_field(&cleaning, line);
		is_first = false;
	}
	return cleaning.refused || out->overflow ? 0 : cleaning.found;
}
