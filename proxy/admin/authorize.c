#include "admin/authorize.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "admin/ask.h"
#include "admin/tokens.h"
#include "admin/serve.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "site/site.h"
#include "http/forwarded.h"
#include "http/target.h"

static const char *field(const struct admin_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* No browser connects to a unix socket. */
static bool may_be_a_page(const struct admin_request *request)
{
	const union MHD_ConnectionInfo *peer =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	if (peer && peer->client_addr && peer->client_addr->sa_family == AF_UNIX)
		return false;
	return admin_is_from_elsewhere(field(request, MHD_HTTP_HEADER_HOST),
		field(request, MHD_HTTP_HEADER_ORIGIN), field(request, "Sec-Fetch-Site"),
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_PROTOCOL) != NULL);
}

/* What is_signed asks the main thread, which has the key in effect. */
struct signed_question {
	const struct daemon *daemon;
	const char *authorization;
	bool good;
};

static void look_at_signature(void *ctx)
{
	struct signed_question *question = ctx;
	const struct conf_secret *key = &question->daemon->site->conf->grip.key;

	question->good = publish_token_is_good((struct slice){key->at, key->len},
		question->authorization, clock_wall_ns() / CLOCK_NS_PER_S);
}

/* Has a publisher signed its token? */
static bool is_signed(const struct admin_services *services, const struct admin_request *request)
{
	struct signed_question question = {.daemon = services->daemon,
		.authorization = field(request, MHD_HTTP_HEADER_AUTHORIZATION)};

	return question.authorization && asker_run(services->asker, look_at_signature, &question) &&
	       question.good;
}

bool admin_authorize(const struct admin_services *services, struct admin_request *request,
	enum admin_role needed)
{
	const struct admin_tokens *tokens = services->tokens;

	if (needed == ADMIN_ANYONE)
		return true;
	if (!tokens && !may_be_a_page(request))
		return true;
	if (!tokens) {
		admin_respond_problem(request, 403,
			"Without tokens, sluice answers only requests to an address or localhost, "
			"and no requests of other sites' pages.");
		return false;
	}
	enum admin_role role =
		admin_tokens_role(tokens, field(request, MHD_HTTP_HEADER_AUTHORIZATION));
	if (role >= needed || (needed == ADMIN_PUBLISH && is_signed(services, request)))
		return true;
	if (role == ADMIN_ANYONE && needed == ADMIN_PUBLISH)
		admin_respond_problem(request, 401,
			"A bearer token is required: one from the file named by token = in "
			"[admin], or an unexpired JSON web token signed with grip_key (HS256).");
	else if (role == ADMIN_ANYONE)
		admin_respond_problem(request, 401,
			"A bearer token from the file named by token = in [admin] is required.");
	else
		admin_respond_problem(request, 403, "This token may only read.");
	return false;
}

/* ---- browser -------------------------------------------------------------------------------- */

/* An address, localhost or a name below it. */
static bool is_of_this_machine(struct slice host)
{
	static const struct slice local = {"localhost", 9};
	uint8_t address[16];

	if (host.len > 2 && host.at[0] == '[')
		host = (struct slice){host.at + 1, host.len - 2};
	if (forwarded_address_parse(host, address) || slice_equal(host, local))
		return true;
	return host.len > local.len && host.at[host.len - local.len - 1] == '.' &&
	       memcmp(host.at + host.len - local.len, local.at, local.len) == 0;
}

static bool is_same_origin(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");

	return at && strcasecmp(at + 3, host) == 0;
}

bool admin_is_from_elsewhere(
	const char *host, const char *origin, const char *fetch_site, bool is_https)
{
	struct http_authority authority;
	char text[HTTP_HOST_BYTES];

	if (fetch_site && strcmp(fetch_site, "same-origin") != 0 && strcmp(fetch_site, "none") != 0)
		return true;
	if (origin && (!host || !is_same_origin(origin, host)))
		return true;
	if (!host || !*host || is_https)
		return false;
	return !http_authority_parse(slice_of(host), &authority) ||
	       !is_of_this_machine(http_authority_host(&authority, text));
}
