#include "http/path.h"

#include <stdint.h>
#include <string.h>

/* The treatment of a byte of a path (RFC 3986 section 3.3: pchar and '/'). PLAIN ones are kept in
 * every position and read alike by all: of those that are kept, dots, slashes and ';' depend on
 * their neighbours. */
enum { BAD = 0, KEEP = 1, UNRESERVED = 2, ENCODE = 4, PERCENT = 8, PLAIN = 16 };

static const uint8_t byte_class[256] = {
	[' '] = ENCODE,
	['!'] = PLAIN | KEEP,
	['"'] = ENCODE,
	['$'] = PLAIN | KEEP,
	['%'] = PERCENT,
	['&' ... ','] = PLAIN | KEEP,
	['-'] = PLAIN | KEEP | UNRESERVED,
	['.'] = KEEP | UNRESERVED,
	['/'] = KEEP,
	['0' ... '9'] = PLAIN | KEEP | UNRESERVED,
	[':'] = PLAIN | KEEP,
	[';'] = KEEP,
	['<'] = ENCODE,
	['='] = PLAIN | KEEP,
	['>'] = ENCODE,
	['@'] = PLAIN | KEEP,
	['A' ... 'Z'] = PLAIN | KEEP | UNRESERVED,
	['['] = PLAIN | KEEP,
	['\\'] = ENCODE,
	[']'] = PLAIN | KEEP,
	['^'] = ENCODE,
	['_'] = PLAIN | KEEP | UNRESERVED,
	['`'] = ENCODE,
	['a' ... 'z'] = PLAIN | KEEP | UNRESERVED,
	['{' ... '}'] = ENCODE,
	['~'] = PLAIN | KEEP | UNRESERVED,
	[0x80 ... 0xff] = ENCODE,
};

static const char hex_digits[] = "0123456789ABCDEF";

/* Is nothing to be done? A segment that begins with a dot needs the long way only when the dot is
 * followed by what could make it a dot segment. */
static bool is_normal(struct slice raw, bool *odd)
{
	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.at[i], next;
		uint8_t class = byte_class[(unsigned char)c];
		if (class & PLAIN)
			continue;
		if (!(class & KEEP))
			return false;
		next = i + 1 < raw.len ? raw.at[i + 1] : '\0';
		if (c == '.') {
			if (raw.at[i - 1] == '/' &&
				(next == '/' || next == '.' || next == ';' || next == '\0'))
				return false;
		} else if (c == ';' || next == '/') {
			*odd = true;
		}
	}
	return true;
}

/* The path as far as it is written; `segment` is where its last segment begins. */
struct writer {
	char *out;
	size_t len, capacity, segment;
};

static bool put(struct writer *writer, char c)
{
	if (writer->len == writer->capacity)
		return false;
	writer->out[writer->len++] = c;
	return true;
}

static bool put_encoded(struct writer *writer, unsigned char byte)
{
	return put(writer, '%') && put(writer, hex_digits[byte >> 4]) &&
	       put(writer, hex_digits[byte & 15]);
}

static bool is_dots(const char *at, size_t len)
{
	return len > 0 && len <= 2 && at[0] == '.' && at[len - 1] == '.';
}

/* Does a piece of the segment, as servers split that decode %2F or cut parameters off, say `.` or
 * `..`? */
static bool hides_dots(struct slice segment)
{
	size_t begin = 0, i = 0;
	bool parameters = false;

	while (i < segment.len) {
		bool slash = segment.at[i] == '%' && (memcmp(segment.at + i, "%2F", 3) == 0 ||
							     memcmp(segment.at + i, "%5C", 3) == 0);
		if (!slash && segment.at[i] != ';') {
			i++;
			continue;
		}
		if (!parameters && is_dots(segment.at + begin, i - begin))
			return true;
		parameters = !slash;
		i += slash ? 3 : 1;
		begin = i;
	}
	return !parameters && is_dots(segment.at + begin, i - begin);
}

/* Ends the last segment; it goes when it is a dot segment, and its parent with it when it is `..`.
 * `kept` tells whether it stays. */
static bool end_segment(struct writer *writer, bool *kept)
{
	struct slice segment = {writer->out + writer->segment, writer->len - writer->segment};

	*kept = !is_dots(segment.at, segment.len);
	if (*kept)
		return !hides_dots(segment);
	writer->len = writer->segment;
	if (segment.len == 2 && writer->segment > 1) {
		do
			writer->len--;
		while (writer->out[writer->len - 1] != '/');
		writer->segment = writer->len;
	}
	return true;
}

static enum http_path_result put_percent(struct writer *writer, struct slice rest)
{
	int high = rest.len >= 3 ? slice_hex_value(rest.at[1]) : -1;
	int low = rest.len >= 3 ? slice_hex_value(rest.at[2]) : -1;

	if (high < 0 || low < 0)
		return HTTP_PATH_INVALID;
	unsigned char byte = (unsigned char)(high << 4 | low);
	if (byte < 0x20 || byte == 0x7f)
		return HTTP_PATH_INVALID;
	bool fits =
		byte_class[byte] & UNRESERVED ? put(writer, (char)byte) : put_encoded(writer, byte);
	return fits ? HTTP_PATH_OK : HTTP_PATH_TOO_LONG;
}

static enum http_path_result put_byte(struct writer *writer, struct slice rest)
{
	unsigned char byte = (unsigned char)rest.at[0];
	uint8_t class = byte_class[byte];

	if (class & PERCENT)
		return put_percent(writer, rest);
	if (class == BAD)
		return HTTP_PATH_INVALID;
	bool fits = class & KEEP ? put(writer, (char)byte) : put_encoded(writer, byte);
	return fits ? HTTP_PATH_OK : HTTP_PATH_TOO_LONG;
}

static enum http_path_result rewrite(struct slice raw, struct writer *writer)
{
	bool kept;

	if (!put(writer, '/'))
		return HTTP_PATH_TOO_LONG;
	writer->segment = writer->len;
	for (size_t i = 1; i < raw.len;) {
		if (raw.at[i] == '/') {
			if (!end_segment(writer, &kept))
				return HTTP_PATH_INVALID;
			if (kept && !put(writer, '/'))
				return HTTP_PATH_TOO_LONG;
			writer->segment = writer->len;
			i++;
			continue;
		}
		enum http_path_result result =
			put_byte(writer, (struct slice){raw.at + i, raw.len - i});
		if (result != HTTP_PATH_OK)
			return result;
		i += raw.at[i] == '%' ? 3 : 1;
	}
	return end_segment(writer, &kept) ? HTTP_PATH_OK : HTTP_PATH_INVALID;
}

static __attribute__((noinline)) enum http_path_result write_normal(
	struct slice raw, char *out, size_t capacity, struct slice *path)
{
	struct writer writer = {.out = out, .capacity = capacity};
	enum http_path_result result = rewrite(raw, &writer);

	*path = (struct slice){out, writer.len};
	return result;
}

enum http_path_result http_path_normalise(
	struct slice raw, char *out, size_t capacity, struct slice *path, bool *odd)
{
	*odd = false;
	if (raw.len == 0 || raw.at[0] != '/')
		return HTTP_PATH_INVALID;
	if (is_normal(raw, odd)) {
		*path = raw;
		return HTTP_PATH_OK;
	}
	*odd = true;
	return write_normal(raw, out, capacity, path);
}

bool http_path_is_unreserved(unsigned char byte)
{
	return byte_class[byte] & UNRESERVED;
}

bool http_path_stays_bare(unsigned char byte)
{
	return byte != '/' && byte_class[byte] & KEEP;
}

unsigned char http_path_hex(const char digits[static 2])
{
	return (unsigned char)(slice_hex_value(digits[0]) << 4 | slice_hex_value(digits[1]));
}

bool http_path_has_prefix(struct slice path, struct slice prefix)
{
	if (path.len < prefix.len || memcmp(path.at, prefix.at, prefix.len) != 0)
		return false;
	return path.len == prefix.len || path.at[prefix.len] == '/' ||
	       (prefix.len > 0 && prefix.at[prefix.len - 1] == '/');
}
