#include "http/chunked.h"

#include <stdlib.h>
#include <string.h>

/*
 *   SIZE_FIRST -> SIZE -> SIZE_LF -> SIZE_DONE -> DATA -> DATA_CR -> DATA_LF -> SIZE_FIRST
 *                                       `--0--> TRAILER -> NAME -> ... -> VALUE_LF -> TRAILER
 *                                                  `-> LAST_LF -> END
 *
 * The grammar is the table `next`: what it does not name is BROKEN.
 */
enum state {
	BROKEN,
	SIZE_FIRST,
	SIZE,
	AFTER_SIZE,       /* blanks were there: an extension must follow */
	BEFORE_SEMICOLON, /* the same behind an extension */
	EXT_FIRST,
	EXT_NAME,
	AFTER_NAME, /* blanks were there: `=` or another extension must follow */
	EXT_VALUE,
	EXT_TOKEN,
	QUOTED,
	ESCAPED,
	AFTER_QUOTED,
	SIZE_LF,
	SIZE_DONE,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER,
	NAME,
	BEFORE_VALUE,
	VALUE,
	VALUE_LF,
	LAST_LF,
	END,
	STATES,
};

enum class {
	CONTROL,
	HEX, /* a token's, too */
	TOKEN,
	SEMICOLON,
	EQUALS,
	QUOTE,
	BACKSLASH,
	COLON,
	TEXT, /* of a quoted string or a field's value only */
	BLANK,
	CR,
	LF,
	CLASSES,
};

static const uint8_t classes[256] = {
	['\t'] = BLANK,
	['\n'] = LF,
	['\r'] = CR,
	[' '] = BLANK,
	['!'] = TOKEN,
	['"'] = QUOTE,
	['#' ... '\''] = TOKEN,
	['(' ... ')'] = TEXT,
	['*' ... '+'] = TOKEN,
	[','] = TEXT,
	['-' ... '.'] = TOKEN,
	['/'] = TEXT,
	['0' ... '9'] = HEX,
	[':'] = COLON,
	[';'] = SEMICOLON,
	['<'] = TEXT,
	['='] = EQUALS,
	['>' ... '@'] = TEXT,
	['A' ... 'F'] = HEX,
	['G' ... 'Z'] = TOKEN,
	['['] = TEXT,
	['\\'] = BACKSLASH,
	[']'] = TEXT,
	['^' ... '`'] = TOKEN,
	['a' ... 'f'] = HEX,
	['g' ... 'z'] = TOKEN,
	['{'] = TEXT,
	['|'] = TOKEN,
	['}'] = TEXT,
	['~'] = TOKEN,
	[128 ... 255] = TEXT,
};

/* A token's bytes, and those of a text but for its quotes, backslashes and blanks. */
#define TOKENS(state) [HEX] = state, [TOKEN] = state
#define TEXTS(state)                                                                               \
	TOKENS(state), [SEMICOLON] = state, [EQUALS] = state, [COLON] = state, [TEXT] = state

static const uint8_t next[STATES][CLASSES] = {
	[SIZE_FIRST] = {[HEX] = SIZE},
	[SIZE] = {[HEX] = SIZE, [SEMICOLON] = EXT_FIRST, [BLANK] = AFTER_SIZE, [CR] = SIZE_LF},
	/* *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] ) */
	[AFTER_SIZE] = {[BLANK] = AFTER_SIZE, [SEMICOLON] = EXT_FIRST},
	[BEFORE_SEMICOLON] = {[BLANK] = BEFORE_SEMICOLON, [SEMICOLON] = EXT_FIRST},
	[EXT_FIRST] = {TOKENS(EXT_NAME), [BLANK] = EXT_FIRST},
	[EXT_NAME] = {TOKENS(EXT_NAME), [BLANK] = AFTER_NAME, [EQUALS] = EXT_VALUE,
		[SEMICOLON] = EXT_FIRST, [CR] = SIZE_LF},
	[AFTER_NAME] = {[BLANK] = AFTER_NAME, [EQUALS] = EXT_VALUE, [SEMICOLON] = EXT_FIRST},
	[EXT_VALUE] = {TOKENS(EXT_TOKEN), [QUOTE] = QUOTED, [BLANK] = EXT_VALUE},
	[EXT_TOKEN] = {TOKENS(EXT_TOKEN), [BLANK] = BEFORE_SEMICOLON, [SEMICOLON] = EXT_FIRST,
		[CR] = SIZE_LF},
	[QUOTED] = {TEXTS(QUOTED), [BLANK] = QUOTED, [BACKSLASH] = ESCAPED, [QUOTE] = AFTER_QUOTED},
	[ESCAPED] = {TEXTS(QUOTED), [BLANK] = QUOTED, [BACKSLASH] = QUOTED, [QUOTE] = QUOTED},
	[AFTER_QUOTED] = {[BLANK] = BEFORE_SEMICOLON, [SEMICOLON] = EXT_FIRST, [CR] = SIZE_LF},
	[SIZE_LF] = {[LF] = SIZE_DONE},
	[DATA_CR] = {[CR] = DATA_LF},
	[DATA_LF] = {[LF] = SIZE_FIRST},
	[TRAILER] = {TOKENS(NAME), [CR] = LAST_LF},
	[NAME] = {TOKENS(NAME), [COLON] = BEFORE_VALUE},
	[BEFORE_VALUE] = {TEXTS(VALUE), [QUOTE] = VALUE, [BACKSLASH] = VALUE,
		[BLANK] = BEFORE_VALUE, [CR] = VALUE_LF},
	[VALUE] = {TEXTS(VALUE), [QUOTE] = VALUE, [BACKSLASH] = VALUE, [BLANK] = VALUE,
		[CR] = VALUE_LF},
	[VALUE_LF] = {[LF] = TRAILER},
	[LAST_LF] = {[LF] = END},
};

void http_chunked_begin(struct http_chunked *chunked)
{
	chunked->state = SIZE_FIRST;
	chunked->left = 0;
	chunked->line_bytes = chunked->excess = 0;
	chunked->trailers_len = 0;
	chunked->found = 0;
}

void http_chunked_end(struct http_chunked *chunked)
{
	free(chunked->trailers);
	*chunked = (struct http_chunked){0};
}

static unsigned digit_of(char c)
{
	return (unsigned char)c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
}

static enum state add_digit(struct http_chunked *chunked, char c)
{
	if (chunked->left >> 56 != 0)
		return BROKEN;
	chunked->left = chunked->left << 4 | digit_of(c);
	return SIZE;
}

/* The line is over: its chunk's content justifies as much framing again, and a short line. */
static enum state end_size_line(struct http_chunked *chunked)
{
	uint64_t justified = 16 + 2 * chunked->left;
	uint64_t excess = (uint64_t)chunked->excess + chunked->line_bytes;

	chunked->excess = excess > justified ? (uint32_t)(excess - justified) : 0;
	chunked->line_bytes = 0;
	return chunked->left > 0 ? DATA : TRAILER;
}

static enum state keep(struct http_chunked *chunked, const char *at, uint32_t len, enum state state)
{
	if (chunked->trailers_len + len > chunked->trailers_capacity) {
		uint32_t capacity = (chunked->trailers_len + len) * 2;
		char *grown = realloc(chunked->trailers, capacity);
		if (!grown)
			return BROKEN;
		chunked->trailers = grown;
		chunked->trailers_capacity = capacity;
	}
	memcpy(chunked->trailers + chunked->trailers_len, at, len);
	chunked->trailers_len += len;
	return state;
}

static enum state end_value(struct http_chunked *chunked)
{
	const char *trailers = chunked->trailers;

	while (chunked->trailers_len > chunked->value_at &&
		classes[(unsigned char)trailers[chunked->trailers_len - 1]] == BLANK)
		chunked->trailers_len--;
	return keep(chunked, "\r\n", 2, VALUE_LF);
}

/* The effect of a byte of the framing besides leading to `state`. */
static enum state act(struct http_chunked *chunked, enum state state, char c)
{
	if (state == SIZE)
		return add_digit(chunked, c);
	if (state == SIZE_DONE)
		return end_size_line(chunked);
	if (state == NAME || state == VALUE)
		return keep(chunked, &c, 1, state);
	if (state == BEFORE_VALUE && chunked->state == NAME) {
		chunked->value_at = chunked->trailers_len + 2;
		return keep(chunked, ": ", 2, state);
	}
	if (state == VALUE_LF)
		return end_value(chunked);
	return state;
}

/* The state behind an LF for which the grammar has a CR before it. It ends no line with an
 * extension: one reader's extension would be the next one's content. */
static enum state behind_bare_lf(uint8_t state)
{
	switch (state) {
	case SIZE:
	case AFTER_SIZE:
		return SIZE_DONE;
	case DATA_CR:
		return SIZE_FIRST;
	case BEFORE_VALUE:
	case VALUE:
		return VALUE_LF;
	case TRAILER:
		return END;
	default:
		return BROKEN;
	}
}

/* The state behind a byte that the grammar does not have here, as far as it is forgiven. */
static enum state forgive(struct http_chunked *chunked, enum class class)
{
	unsigned needed = chunked->state == AFTER_SIZE ? HTTP_CHUNKED_BLANKS : 0;
	enum state state = BROKEN;

	if (class == LF) {
		needed |= HTTP_CHUNKED_LF;
		state = behind_bare_lf(chunked->state);
	} else if (class == CR && chunked->state == AFTER_SIZE) {
		state = SIZE_LF;
	}
	if (state == BROKEN || (chunked->forgiven & needed) != needed)
		return BROKEN;
	chunked->found |= (uint8_t)needed;
	if (state == VALUE_LF)
		return end_value(chunked) == BROKEN ? BROKEN : TRAILER;
	return state;
}

/* Moves content down to where it belongs. Returns how much there was. */
static size_t take_content(struct http_chunked *chunked, char *to, const char *from, size_t len)
{
	size_t size = chunked->left < len ? (size_t)chunked->left : len;

	if (to != from)
		memmove(to, from, size);
	chunked->left -= size;
	if (chunked->left == 0)
		chunked->state = DATA_CR;
	return size;
}

enum http_parse http_chunked_decode(
	struct http_chunked *chunked, char *data, size_t len, size_t *consumed, size_t *produced)
{
	size_t at = 0, to = 0;

	while (at < len && chunked->state != END && chunked->state != BROKEN) {
		if (chunked->state == DATA) {
			size_t size = take_content(chunked, data + to, data + at, len - at);
			to += size;
			at += size;
			continue;
		}
		char c = data[at++];
		enum class class = (enum class)classes[(unsigned char)c];
		enum state state = (enum state)next[chunked->state][class];
		if (state == BROKEN && chunked->forgiven)
			state = forgive(chunked, class);
		chunked->line_bytes++;
		chunked->state = (uint8_t)act(chunked, state, c);
		if (chunked->line_bytes + chunked->excess > HTTP_CHUNKED_EXCESS)
			chunked->state = BROKEN;
	}
	*consumed = at;
	*produced = to;
	return chunked->state == BROKEN ? HTTP_PARSE_BAD
	       : chunked->state == END  ? HTTP_PARSE_DONE
					: HTTP_PARSE_MORE;
}

/* Behind the LF of the line at `at`; NULL when there is none. */
static const char *behind_line(const char *at, const char *end)
{
	const char *lf = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

	return lf ? lf + 1 : NULL;
}

bool http_chunked_is_whole(const char *data, size_t len, struct http_chunked_extent *extent)
{
	const char *at = data, *end = data + len;

	*extent = (struct http_chunked_extent){0};

	for (;;) {
		uint64_t size = 0;
		while (at < end && classes[(uint8_t)*at] == HEX && size < len)
			size = size * 16 + digit_of(*at++);
		at = behind_line(at, end);
		if (!at || size > (uint64_t)(end - at))
			return false;
		if (size == 0)
			break;
		extent->content_bytes += size;
		at = behind_line(at + size, end);
		if (!at)
			return false;
	}
	while (at && at < end && *at != '\r') {
		extent->has_trailers = true;
		at = behind_line(at, end);
	}
	return at && end - at >= 2;
}
