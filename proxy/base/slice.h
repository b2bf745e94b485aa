/*
 * A slice: bytes that live somewhere else. It owns nothing and is not NUL-terminated; the code that
 * made it defines how long the bytes are valid.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
	const char *at;
	size_t len;
};

#define SLICE_NONE     ((struct slice){NULL, 0})
#define SLICE(literal) ((struct slice){"" literal "", sizeof(literal) - 1})
/* printf("%.*s", SLICE_ARGS(s)) */
#define SLICE_ARGS(s) (int)(s).len, (s).at

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* The value of a hexadecimal digit; -1: it is none. */
static inline int slice_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ASCII case-insensitive, as field names and most tokens are compared (RFC 9110 section 5.1). */
bool slice_equal_nocase(struct slice a, struct slice b);

/* `s` without leading and trailing OWS (space and tab, RFC 9110 section 5.6.3). */
struct slice slice_trim(struct slice s);

/*
 * Takes the next element off a comma-separated list (RFC 9110 section 5.6.1): `*rest` moves past
 * it, the element comes back trimmed; empty elements are skipped. False when the list is at its
 * end.
 */
bool slice_next_element(struct slice *rest, struct slice *element);

/* Does a comma-separated list hold `token`, compared without case? */
bool slice_list_has(struct slice list, struct slice token);

#endif
