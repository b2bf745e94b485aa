#include "gate/pairs.h"

#include <string.h>

bool pairs_is_escape(struct slice text, char *byte)
{
	if (text.len < 3 || text.at[0] != '%' || slice_hex_value(text.at[1]) < 0 ||
		slice_hex_value(text.at[2]) < 0)
		return false;
	*byte = (char)(slice_hex_value(text.at[1]) << 4 | slice_hex_value(text.at[2]));
	return true;
}

/* Takes the next piece between separators off `rest`. */
static bool take_piece(struct slice *rest, char separator, struct slice *piece)
{
	if (rest->len == 0)
		return false;
	const char *end = memchr(rest->at, separator, rest->len);
	*piece = (struct slice){rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t step = end ? piece->len + 1 : piece->len;
	rest->at += step;
	rest->len -= step;
	return true;
}

/* Does `pair` begin with `name` and '='? Then `value` is what is behind. */
static bool is_pair(struct slice pair, struct slice name, struct slice *value)
{
	if (pair.len <= name.len || pair.at[name.len] != '=' ||
		memcmp(pair.at, name.at, name.len) != 0)
		return false;
	*value = (struct slice){pair.at + name.len + 1, pair.len - name.len - 1};
	return true;
}

/* Blanks around '=', which RFC 6265 has not, are no part of the name or value to some servers. */
static bool is_spaced_pair(struct slice pair, struct slice name)
{
	const char *sign = memchr(pair.at, '=', pair.len);
	size_t len = sign ? (size_t)(sign - pair.at) : pair.len;

	if (!sign || !slice_equal(slice_trim((struct slice){pair.at, len}), name))
		return false;
	return len != name.len || (pair.len > len + 1 && (sign[1] == ' ' || sign[1] == '\t'));
}

/* The byte at *at of a query's name, decoded; *at moves behind it. */
static char decode_at(struct slice text, size_t *at)
{
	struct slice rest = {text.at + *at, text.len - *at};
	char c = rest.at[0];

	*at += pairs_is_escape(rest, &c) ? 3 : 1;
	return rest.at[0] == '+' ? ' ' : c;
}

/* Do servers exist to which these two are the same in a name? PHP has '_' for '.', for blanks and
 * for a '[' that nothing closes. */
static bool is_alike_byte(char c, char wanted)
{
	return c == wanted || (wanted == '_' && (c == '.' || c == ' ' || c == '['));
}

static bool is_other_case(char c, char wanted)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' && (c ^ wanted) == 0x20;
}

/* May a name end here? In front of '[' (an array's element) and of a NUL, in PHP. */
static bool ends_name(struct slice pair, size_t at)
{
	if (at == pair.len || pair.at[at] == '=')
		return true;
	char c = decode_at(pair, &at);
	return c == '[' || c == '\0';
}

/* Would some server take this parameter for `name`? Decoded, behind blanks; `nocase`: in upper or
 * lower case alike. */
static bool is_alike(struct slice pair, struct slice name, bool nocase)
{
	size_t i = 0, at = 0, next = 0;

	while (next < pair.len && decode_at(pair, &next) == ' ')
		at = next;
	for (; i < name.len && at < pair.len; i++) {
		char c = decode_at(pair, &at);
		if (!is_alike_byte(c, name.at[i]) && !(nocase && is_other_case(c, name.at[i])))
			return false;
	}
	return i == name.len && ends_name(pair, at);
}

/* Would some server take this pair, which is not it, for the cookie `name`? Names of cookies are
 * case-sensitive (RFC 6265 section 5.3 step 11): SID beside sid is another cookie. */
static bool is_alike_pair(struct slice pair, struct slice name)
{
	return memchr(pair.at, '=', pair.len) && is_alike(pair, name, false);
}

struct slice pairs_cookie(const struct http_head *head, struct slice name, bool *ambiguous)
{
	struct slice found = SLICE_NONE, pair, value;

	for (unsigned i = 0; i < head->field_count; i++) {
		if (head->fields[i].id != HTTP_FIELD_COOKIE)
			continue;
		struct slice pairs = http_field_value(head, &head->fields[i]);
		*ambiguous |= head->fields[i].hop;
		while (take_piece(&pairs, ';', &pair)) {
			pair = slice_trim(pair);
			*ambiguous |= is_spaced_pair(pair, name);
			if (!is_pair(pair, name, &value)) {
				*ambiguous |= is_alike_pair(pair, name);
				continue;
			}
			if (value.len >= 2 && value.at[0] == '"' &&
				value.at[value.len - 1] == '"') {
				value = (struct slice){value.at + 1, value.len - 2};
				/* Python's servers decode "\141". */
				*ambiguous |= memchr(value.at, '\\', value.len) != NULL;
			}
			if (!found.at)
				found = value;
			else
				*ambiguous |= !slice_equal(found, value);
		}
	}
	return found;
}

struct slice pairs_parameter(struct slice query, struct slice name, bool *ambiguous)
{
	struct slice found = SLICE_NONE, pair, piece, value;

	while (take_piece(&query, '&', &pair)) {
		/* To some servers a ';' separates as well. */
		for (struct slice rest = pair; take_piece(&rest, ';', &piece);) {
			if (!is_alike(piece, name, true))
				continue;
			if (piece.at != pair.at || piece.len != pair.len || found.at ||
				!is_pair(pair, name, &value))
				*ambiguous = true;
			else
				found = value;
		}
	}
	return found;
}

static struct slice without_quotes(struct slice value)
{
	if (value.len < 2 || value.at[0] != '"' || value.at[value.len - 1] != '"')
		return value;
	return (struct slice){value.at + 1, value.len - 2};
}

/* Is it `name`, or would some server take it for that? */
static bool is_cookie_for(struct slice pair, struct slice name, struct slice *value)
{
	const char *sign = memchr(pair.at, '=', pair.len);

	if (!sign || (!is_pair(pair, name, value) && !is_spaced_pair(pair, name) &&
			     !is_alike_pair(pair, name)))
		return false;
	*value = slice_trim((struct slice){sign + 1, (size_t)(pair.at + pair.len - sign - 1)});
	*value = without_quotes(*value);
	return true;
}

bool pairs_next_cookie(const struct http_head *head, struct slice name, struct pairs_place *place,
	struct slice *value)
{
	struct slice pair;

	for (;;) {
		while (take_piece(&place->rest, ';', &pair)) {
			if (is_cookie_for(slice_trim(pair), name, value))
				return true;
		}
		while (place->field < head->field_count &&
			head->fields[place->field].id != HTTP_FIELD_COOKIE)
			place->field++;
		if (place->field == head->field_count)
			return false;
		place->rest = http_field_value(head, &head->fields[place->field++]);
	}
}

static bool is_parameter_for(struct slice pair, struct slice name, struct slice *value)
{
	const char *sign = memchr(pair.at, '=', pair.len);

	if (!sign || !is_alike(pair, name, true))
		return false;
	*value = (struct slice){sign + 1, (size_t)(pair.at + pair.len - sign - 1)};
	return true;
}

bool pairs_next_parameter(struct pairs_parameters *rest, struct slice name, struct slice *value)
{
	struct slice piece;

	for (;;) {
		while (take_piece(&rest->pieces, ';', &piece)) {
			if (is_parameter_for(piece, name, value))
				return true;
		}
		if (!take_piece(&rest->query, '&', &piece))
			return false;
		if (memchr(piece.at, ';', piece.len))
			rest->pieces = piece;
		if (is_parameter_for(piece, name, value))
			return true;
	}
}
