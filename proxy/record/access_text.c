#include "record/access_text.h"

#include <string.h>

#include "gate/pairs.h"

static const char hex_digits[] = "0123456789abcdef";

/* How one byte is written: returns how many bytes, at most 6. */
typedef size_t escape_byte(unsigned char byte, char escaped[6]);

static bool is_plain(unsigned char byte)
{
	return byte >= ' ' && byte < 127 && byte != '"' && byte != '\\';
}

static size_t escape_quoted(unsigned char byte, char escaped[6])
{
	memcpy(escaped, "\\x", 2);
	escaped[2] = hex_digits[byte >> 4];
	escaped[3] = hex_digits[byte & 15];
	return 4;
}

static size_t escape_json(unsigned char byte, char escaped[6])
{
	escaped[0] = '\\';
	if (byte == '"' || byte == '\\') {
		escaped[1] = (char)byte;
		return 2;
	}
	memcpy(escaped + 1, "u00", 3);
	escaped[4] = hex_digits[byte >> 4];
	escaped[5] = hex_digits[byte & 15];
	return 6;
}

/* The length of the front of `text` that takes up at most `most` bytes. */
static size_t front_within(struct slice text, size_t most, escape_byte *escape)
{
	char escaped[6];
	size_t used = 0, len = 0;

	for (; len < text.len; len++) {
		unsigned char byte = (unsigned char)text.at[len];
		used += is_plain(byte) ? 1 : escape(byte, escaped);
		if (used > most)
			break;
	}
	return len;
}

static void put_escaped(struct http_out *out, struct slice text, size_t most, escape_byte *escape)
{
	char escaped[6];
	bool cut = text.len > most / 6 && front_within(text, most, escape) < text.len;

	if (cut)
		text.len = front_within(text, most - 3, escape);
	while (text.len > 0) {
		size_t run = 0;
		while (run < text.len && is_plain((unsigned char)text.at[run]))
			run++;
		http_out_slice(out, (struct slice){text.at, run});
		if (run < text.len) {
			size_t len = escape((unsigned char)text.at[run++], escaped);
			http_out_slice(out, (struct slice){escaped, len});
		}
		text.at += run;
		text.len -= run;
	}
	if (cut)
		http_out_slice(out, SLICE("..."));
}

void access_put_escaped(struct http_out *out, struct slice text, size_t most)
{
	put_escaped(out, text, most, escape_quoted);
}

void access_put_quoted(struct http_out *out, struct slice text, size_t most)
{
	http_out_char(out, '"');
	access_put_escaped(out, text.len > 0 ? text : SLICE("-"), most);
	http_out_char(out, '"');
}

void access_put_json(struct http_out *out, struct slice text, size_t most)
{
	http_out_char(out, '"');
	put_escaped(out, text, most, escape_json);
	http_out_char(out, '"');
}

/* ---- secrets -------------------------------------------------------------------------------- */

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* Is `raw`, decoded, the name? */
static bool is_name(struct slice raw, const char *name)
{
	for (size_t i = 0; i < raw.len; i++, name++) {
		char c = raw.at[i];

		if (pairs_is_escape((struct slice){raw.at + i, raw.len - i}, &c))
			i += 2;
		else if (c == '+')
			c = ' ';
		if (*name == '\0' || lower((unsigned char)*name) != lower((unsigned char)c))
			return false;
	}
	return *name == '\0';
}

static bool is_secret(struct slice raw, const struct conf_text_list *names)
{
	for (size_t i = 0; i < names->count; i++) {
		if (is_name(raw, names->items[i]))
			return true;
	}
	return false;
}

/* Up to the first of these; all when none is there. */
static struct slice take_until(struct slice *rest, const char *signs)
{
	struct slice taken = {rest->at, 0};

	while (taken.len < rest->len && !strchr(signs, rest->at[taken.len]))
		taken.len++;
	rest->at += taken.len;
	rest->len -= taken.len;
	return taken;
}

struct slice access_redact(struct slice target, const struct conf_text_list *names, char *scratch,
	size_t scratch_bytes)
{
	struct http_out out = http_out_over(scratch, scratch_bytes);
	struct slice rest = target;

	if (names->count == 0 || target.len == 0 || !memchr(target.at, '?', target.len))
		return target;
	http_out_slice(&out, take_until(&rest, "?"));
	/* A pair behind each '?', '&' or ';'. A value ends at '&' alone, as for the limits' keys.
	 */
	while (rest.len > 0 && !out.overflow) {
		http_out_char(&out, rest.at[0]);
		rest.at++;
		rest.len--;
		struct slice name = take_until(&rest, "?&;=");
		http_out_slice(&out, name);
		if (rest.len == 0 || rest.at[0] != '=')
			continue;
		if (is_secret(name, names)) {
			take_until(&rest, "&");
			http_out_slice(&out, SLICE("=***"));
		} else {
			http_out_slice(&out, take_until(&rest, "?&;"));
		}
	}
	return (struct slice){scratch, (size_t)(out.at - scratch)};
}
