#include "http/path_readings.h"

#include <string.h>

#include "http/path.h"

/* The path as far as it is read; `segment` is where its last segment begins. */
struct reader {
	char *out;
	size_t len, capacity, segment;
	unsigned features;
	bool cutting; /* the rest of the segment is a parameter */
	bool full;
};

/* A character of the path: a byte as it stands, or one that %XX stands for. */
struct character {
	unsigned char byte;
	bool encoded;
	size_t len; /* in the path */
};

static struct character take(struct slice rest)
{
	unsigned char byte = (unsigned char)rest.at[0];

	if (byte != '%' || rest.len < 3)
		return (struct character){byte, false, 1};
	return (struct character){http_path_hex(rest.at + 1), true, 3};
}

static void put(struct reader *reader, char c)
{
	if (reader->len == reader->capacity)
		reader->full = true;
	else
		reader->out[reader->len++] = c;
}

static void put_character(struct reader *reader, const struct character *c)
{
	static const char digits[] = "0123456789ABCDEF";
	bool bare =
		http_path_stays_bare(c->byte) && (!c->encoded || http_path_is_unreserved(c->byte) ||
							 reader->features & HTTP_PATH_DECODED);

	if (bare) {
		put(reader, (char)c->byte);
		return;
	}
	put(reader, '%');
	put(reader, digits[c->byte >> 4]);
	put(reader, digits[c->byte & 15]);
}

/* Removes the segment before the last one, with its slash. */
static void remove_parent(struct reader *reader)
{
	reader->len = reader->segment;
	if (reader->len <= 1)
		return;
	do
		reader->len--;
	while (reader->out[reader->len - 1] != '/');
	reader->segment = reader->len;
}

/* The last segment is whole. Does it stay? */
static bool end_segment(struct reader *reader, bool at_end)
{
	size_t len = reader->len - reader->segment;
	const char *segment = reader->out + reader->segment;

	reader->cutting = false;
	if (reader->features & HTTP_PATH_RESOLVED && len == 1 && segment[0] == '.') {
		reader->len = reader->segment;
		return false;
	}
	if (reader->features & HTTP_PATH_RESOLVED && len == 2 && memcmp(segment, "..", 2) == 0) {
		remove_parent(reader);
		return false;
	}
	return len > 0 || at_end || !(reader->features & HTTP_PATH_MERGED);
}

static bool is_separator(const struct reader *reader, const struct character *c)
{
	if (reader->features & HTTP_PATH_DECODED)
		return c->byte == '/' || c->byte == '\\';
	return c->byte == '/' && !c->encoded;
}

static bool begins_parameter(const struct reader *reader, const struct character *c)
{
	return c->byte == ';' && reader->features & HTTP_PATH_CUT &&
	       (!c->encoded || reader->features & HTTP_PATH_DECODED);
}

struct slice http_path_reading(struct slice raw, unsigned features, char *out, size_t capacity)
{
	struct reader reader = {.out = out, .capacity = capacity, .features = features};
	struct character c;

	put(&reader, '/');
	reader.segment = reader.len;
	for (size_t i = 1; i < raw.len && !reader.full; i += c.len) {
		c = take((struct slice){raw.at + i, raw.len - i});
		if (is_separator(&reader, &c)) {
			if (end_segment(&reader, false))
				put(&reader, '/');
			reader.segment = reader.len;
			continue;
		}
		reader.cutting |= begins_parameter(&reader, &c);
		if (!reader.cutting)
			put_character(&reader, &c);
	}
	end_segment(&reader, true);
	return reader.full ? SLICE_NONE : (struct slice){out, reader.len};
}

unsigned http_path_features(struct slice raw)
{
	unsigned features = 0;
	struct character c;
	unsigned char before = 0;

	for (size_t i = 0; i < raw.len; i += c.len) {
		c = take((struct slice){raw.at + i, raw.len - i});
		bool slash = c.byte == '/' || c.byte == '\\';
		if (slash && (c.encoded || c.byte == '\\'))
			features |= HTTP_PATH_DECODED;
		else if (c.encoded && http_path_stays_bare(c.byte) &&
			 !http_path_is_unreserved(c.byte))
			features |= HTTP_PATH_DECODED;
		if (slash && (before == '/' || before == ';'))
			features |= HTTP_PATH_MERGED;
		if (c.byte == ';')
			features |= HTTP_PATH_CUT;
		if (c.byte == '.' && before == '/')
			features |= HTTP_PATH_RESOLVED;
		/* Bytes right after a parameter may join those before it. */
		before = slash ? '/' : c.byte == ';' && before == '/' ? ';' : 0;
		if (features & HTTP_PATH_CUT)
			features |= HTTP_PATH_MERGED;
	}
	return features;
}
