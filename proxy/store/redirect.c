#include "store/redirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/slot.h"

static bool begins(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* "SLOT HOST:PORT"; an IPv6 address has colons, too. */
static bool read_place(struct redirect *redirect, const char *text, const char *host)
{
	char *end;
	unsigned long slot = strtoul(text, &end, 10);
	const char *place = end + 1, *colon = *end == ' ' ? strrchr(place, ':') : NULL;

	if (end == text || slot >= SLOTS || !colon)
		return false;
	unsigned long port = strtoul(colon + 1, &end, 10);
	size_t len = (size_t)(colon - place);
	if (end == colon + 1 || port == 0 || port > UINT16_MAX || len >= sizeof(redirect->host))
		return false;
	if (len == 0 || (len == 1 && *place == '?'))
		snprintf(redirect->host, sizeof(redirect->host), "%s", host);
	else
		snprintf(redirect->host, sizeof(redirect->host), "%.*s", (int)len, place);
	redirect->slot = (uint16_t)slot;
	redirect->port = (uint16_t)port;
	return true;
}

bool redirect_read(struct redirect *redirect, const char *error, const char *host)
{
	redirect->kind = REDIRECT_NONE;
	if (begins(error, "MOVED ") && read_place(redirect, error + strlen("MOVED "), host))
		redirect->kind = REDIRECT_MOVED;
	else if (begins(error, "ASK ") && read_place(redirect, error + strlen("ASK "), host))
		redirect->kind = REDIRECT_ASK;
	else if (begins(error, "TRYAGAIN"))
		redirect->kind = REDIRECT_LATER;
	else if (begins(error, "CLUSTERDOWN Hash slot not served"))
		redirect->kind = REDIRECT_UNSERVED;
	else if (begins(error, "CLUSTERDOWN"))
		redirect->kind = REDIRECT_DOWN;
	return redirect->kind != REDIRECT_NONE;
}
