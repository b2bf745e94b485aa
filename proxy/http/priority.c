#include "http/priority.h"

#include <stdbool.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* A member of the dictionary: `u=N`, perhaps with parameters. */
static int member_urgency(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	if (end - at < 3 || at[0] != 'u' || at[1] != '=' || at[2] < '0' || at[2] > '7')
		return -1;
	if (end - at > 3 && at[3] != ';' && !is_blank(at[3]))
		return -1;
	return at[2] - '0';
}

int http_priority_urgency(struct slice field)
{
	const char *at = field.at, *end = field.at + field.len;
	int urgency = -1;

	while (at < end) {
		const char *comma = at;
		while (comma < end && *comma != ',')
			comma++;
		int said = member_urgency(at, comma);
		if (said >= 0)
			urgency = said; /* RFC 8941 section 3.2: the last one counts */
		at = comma + 1;
	}
	return urgency;
}
