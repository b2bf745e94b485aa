#include "base/slice.h"

#include <strings.h>

bool slice_equal_nocase(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice s)
{
	while (s.len > 0 && is_ows(s.at[0])) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && is_ows(s.at[s.len - 1]))
		s.len--;
	return s;
}

bool slice_next_element(struct slice *rest, struct slice *element)
{
	while (rest->len > 0) {
		const char *comma = memchr(rest->at, ',', rest->len);
		size_t len = comma ? (size_t)(comma - rest->at) : rest->len;
		*element = slice_trim((struct slice){rest->at, len});
		size_t step = comma ? len + 1 : len;
		rest->at += step;
		rest->len -= step;
		if (element->len > 0)
			return true;
	}
	return false;
}

bool slice_list_has(struct slice list, struct slice token)
{
	struct slice element;

	while (slice_next_element(&list, &element)) {
		if (slice_equal_nocase(element, token))
			return true;
	}
	return false;
}
