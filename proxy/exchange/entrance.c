#include "exchange/entrance.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange/hop.h"
#include "exchange/reply.h"
#include "gate/route.h"
#include "http/forwarded.h"
#include "http/problem.h"
#include "listen/listener.h"
#include "net/tls_facts.h"

/* ---- how it has come ------------------------------------------------------------------------- */

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

/* ---- probes ---------------------------------------------------------------------------------- */

#define PROBE_METHODS (UINT64_C(1) << HTTP_METHOD_GET | UINT64_C(1) << HTTP_METHOD_HEAD)

/* Have all workers the store, if it must be there? */
static bool has_store(const struct exchange *x)
{
	struct node *node = x->worker->node;

	return !x->use->site->conf->fleet.store_required ||
	       atomic_load(&node->store_links) == node->worker_count;
}

bool probe_answered(struct exchange *x)
{
	bool is_ready;

	if (!client_listener(x->client)->health || !(PROBE_METHODS >> x->request.method & 1))
		return false;
	is_ready = slice_equal(x->facts.path, SLICE("/readyz"));
	if (!is_ready && !slice_equal(x->facts.path, SLICE("/healthz")))
		return false;
	x->facts.allow = PROBE_METHODS;
	if (is_ready && x->worker->node->stopping)
		exchange_reply(x, 503, "draining", HTTP_PROBLEM_NO_RETRY);
	else if (is_ready && atomic_load(&node_listening(x->worker->node)->deaf) > 0)
		exchange_reply(x, 503, "not listening", HTTP_PROBLEM_NO_RETRY);
	else if (is_ready && !has_store(x))
		exchange_reply(x, 503, "no store", HTTP_PROBLEM_NO_RETRY);
	else
		exchange_reply(x, 200, "probe", HTTP_PROBLEM_NO_RETRY);
	return true;
}

/* ---- the last proxy of a chain ----------------------------------------------------------------
 */

/* Methods that this host and path are served with. */
static uint64_t methods_here(struct exchange *x)
{
	uint64_t methods = 0;

	for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++) {
		enum http_method method = (enum http_method)i;
		uint64_t bit = UINT64_C(1) << i;
		struct route_match match = route_match_again(x->use->site->routes,
			x->worker->route_scratch, x->facts.host, x->facts.path, method);
		if (match.outcome == ROUTE_FOUND &&
			((match.route->methods ? match.route->methods : HTTP_METHODS_USUAL) & bit))
			methods |= bit;
	}
	return methods;
}

bool max_forwards_reached(struct exchange *x)
{
	struct http_field *field = &x->request.fields[x->request.first[HTTP_FIELD_MAX_FORWARDS]];
	char *digits = x->memory.head + field->value_at;
	uint32_t len = field->value_len, last = len;

	if (x->request.method != HTTP_METHOD_OPTIONS && x->request.method != HTTP_METHOD_TRACE)
		return false;
	for (uint32_t i = 0; i < len; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
		if (digits[i] != '0')
			last = i;
	}
	if (len == 0)
		return false;
	if (last == len) {
		x->facts.allow = methods_here(x);
		exchange_reply(x, x->request.method == HTTP_METHOD_OPTIONS ? 200 : 405,
			"no forwards left", HTTP_PROBLEM_NO_RETRY);
		return true;
	}
	digits[last]--;
	memset(digits + last + 1, '9', len - last - 1);
	if (digits[0] == '0' && len > 1) { /* 10 -> "9 ", whose blank is no part of the value */
		memmove(digits, digits + 1, len - 1);
		digits[--field->value_len] = ' ';
	}
	return false;
}
