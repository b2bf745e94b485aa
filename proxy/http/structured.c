#include "http/structured.h"

bool http_sf_next(struct slice *rest, char separator, struct slice *piece)
{
	bool in_string = false;
	size_t len = 0;

	if (rest->len == 0)
		return false;
	for (; len < rest->len; len++) {
		char c = rest->at[len];
		if (c == '"')
			in_string = !in_string;
		else if (in_string && c == '\\')
			len++; /* section 3.3.3: '"' and '\' stand behind it */
		else if (!in_string && c == separator)
			break;
	}
	if (in_string) {
		*piece = SLICE_NONE;
		*rest = SLICE_NONE;
		return true;
	}
	*piece = slice_trim((struct slice){rest->at, len});
	size_t step = len < rest->len ? len + 1 : rest->len;
	rest->at += step;
	rest->len -= step;
	return true;
}
