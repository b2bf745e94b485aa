#include "http/priority.h"

#include "http/structured.h"

/* The member's value without its parameters, as an urgency; -1 for what is none. */
static int urgency_of(struct slice member)
{
	struct slice item;

	if (!http_sf_next(&member, ';', &item) || item.len != 3 || item.at[2] < '0' ||
		item.at[2] > '7')
		return -1;
	return item.at[2] - '0';
}

static bool is_u(struct slice member)
{
	return member.len > 0 && member.at[0] == 'u' &&
	       (member.len == 1 || member.at[1] == '=' || member.at[1] == ';');
}

int http_priority_urgency(struct slice field)
{
	struct slice member;
	int urgency = -1;

	while (http_sf_next(&field, ',', &member)) {
		if (!member.at)
			return -1;
		if (is_u(member))
			urgency = urgency_of(member); /* section 3.2: the last one counts */
	}
	return urgency;
}
