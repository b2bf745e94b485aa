#include "exchange/entrance.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange/hop.h"
#include "exchange/reply.h"
#include "http/forwarded.h"
#include "http/problem.h"
#include "net/tls_facts.h"

/* A trusted proxy may carry the requests of all hosts on one connection. */
static bool is_misdirected(const struct exchange *x)
{
	return x->client->tls && !x->client->peer->trusted &&
	       tls_facts_is_misdirected(x->client->tls, x->facts.host);
}

#define ACME_PATH  SLICE("/.well-known/acme-challenge/")
#define ACME_BYTES 2048 /* a token and a digest: some 90 */

/* A token of base64url, which can be no other path. */
static bool is_token(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '-' || c == '_'))
			return false;
	}
	return name.len > 0 && name.len <= NAME_MAX;
}

/* A regular file, not behind a link; NULL: there is none, or nothing in it. */
static char *read_answer(const char *folder, struct slice name, uint32_t *len)
{
	char text[NAME_MAX + 1], *bytes = NULL;
	struct stat about;

	memcpy(text, name.at, name.len);
	text[name.len] = '\0';
	int within = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = within < 0 ? -1
			    : openat(within, text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
		(bytes = malloc(ACME_BYTES)) != NULL) {
		ssize_t got = read(fd, bytes, ACME_BYTES);
		*len = got > 0 ? (uint32_t)got : 0;
	}
	if (*len == 0) {
		free(bytes);
		bytes = NULL;
	}
	if (fd >= 0)
		close(fd);
	if (within >= 0)
		close(within);
	return bytes;
}

static bool acme_answered(struct exchange *x, const char *folder)
{
	struct slice path = x->facts.path, prefix = ACME_PATH;
	bool reads = x->request.method == HTTP_METHOD_GET || x->request.method == HTTP_METHOD_HEAD;

	if (!folder || !reads || path.len < prefix.len ||
		memcmp(path.at, prefix.at, prefix.len) != 0)
		return false;
	const struct slice name = {path.at + prefix.len, path.len - prefix.len};
	if (is_token(name))
		x->memory.body = read_answer(folder, name, &x->answer.content_bytes);
	if (x->memory.body)
		exchange_reply(x, 200, "acme challenge", HTTP_PROBLEM_NO_RETRY);
	else
		exchange_reply(x, 404, "no acme challenge", HTTP_PROBLEM_NO_RETRY);
	return true;
}

bool entrance_answered(struct exchange *x)
{
	const struct conf_listener *listener = client_listener(x->client);

	if (hop_is_from_node(x->client))
		return false;
	if (acme_answered(x, listener->acme_challenge))
		return true;
	if (listener->redirect_port != 0 && !x->facts.is_https) {
		if (x->facts.host.len > 0)
			exchange_reply(x, 308, "redirect to https", HTTP_PROBLEM_NO_RETRY);
		else
			exchange_reply(x, 400, "no host to redirect to", HTTP_PROBLEM_NO_RETRY);
		return true;
	}
	if (!is_misdirected(x))
		return false;
	exchange_reply(x, 421, "misdirected", HTTP_PROBLEM_NO_RETRY);
	return true;
}
