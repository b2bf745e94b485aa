#include "exchange/hop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "ownership/owner_marks.h"
#include "exchange/reply.h"
#include "http/problem.h"
#include "listen/listener.h"

#define MORE_BYTES 64
#define FACT_BYTES 512 /* longer ones are not forwarded */

const struct conf_listener *client_listener(const struct client *client)
{
	return client->hop && client->hop->listener ? client->hop->listener
						    : client->listener->conf;
}

/* ---- connections that have proven nothing ------------------------------------------------------
 */

static void enlist(struct client *client, uint64_t now_ms)
{
	struct listener *listener = client->listener;

	client->hop->asker = client;
	idle_list_put(&listener->unproven, &client->hop->unproven, now_ms);
	listener->unproven_count++;
}

static void delist(struct client *client)
{
	struct hop *hop = client->hop;

	if (!hop->asker)
		return;
	idle_list_take_out(&client->listener->unproven, &hop->unproven);
	client->listener->unproven_count--;
	hop->asker = NULL;
}

struct client *hop_open(struct client *client, uint64_t now_ms)
{
	struct listener *listener = client->listener;

	client->hop = calloc(1, sizeof(*client->hop));
	if (!client->hop)
		return NULL;
	enlist(client, now_ms);
	return listener->unproven_count > HOP_UNPROVEN_MOST
		       ? CONTAINER_OF(listener->unproven.oldest, struct hop, unproven)->asker
		       : NULL;
}

void hop_close(struct client *client)
{
	if (client->hop)
		delist(client);
	if (client->hop)
		free(client->hop->texts);
	free(client->hop);
	client->hop = NULL;
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static struct slice secret_of(const struct exchange *x)
{
	const struct conf_secret *secret = &x->use->site->conf->fleet.secret;

	return (struct slice){secret->at, secret->len};
}

/* The next word of `rest`, which words are taken off, one blank apart. */
static struct slice next_word(struct slice *rest)
{
	const char *blank = rest->len > 0 ? memchr(rest->at, ' ', rest->len) : NULL;
	struct slice word = {rest->at, blank ? (size_t)(blank - rest->at) : rest->len};
	size_t taken = word.len + (blank != NULL);

	rest->at += taken;
	rest->len -= taken;
	return word;
}

/* Anybody can bring this about: see log_pace.h. True: a line may be written, which ends with
 * `more`. */
static bool may_warn(struct exchange *x, struct log_pace *pace, char more[MORE_BYTES])
{
	unsigned unlogged;

	more[0] = '\0';
	if (!log_pace_may_log(pace, worker_now_ms(x->worker), &unlogged)) {
		node_note_failure(x->worker->node);
		return false;
	}
	if (unlogged > 0)
		snprintf(more, MORE_BYTES, "; %u more since the last line", unlogged);
	return true;
}

static void warn_of_stranger(struct exchange *x)
{
	char more[MORE_BYTES];

	if (may_warn(x, &x->worker->node->hops.strangers, more))
		log_warn("listener fleet: %.*s does not have the fleet's secret%s",
			SLICE_ARGS(forwarded_peer_text(x->client->peer)), more);
}

static void warn_of_unread(struct exchange *x)
{
	char more[MORE_BYTES];

	if (may_warn(x, &x->worker->node->hops.unread, more))
		log_warn("listener fleet: a node forwarded a request that this node does not "
			 "understand; both need the same listeners%s",
			more);
}

/* The answer reveals neither what is served here nor the peer's identity: it may be anybody. */
static void turn_away(struct exchange *x)
{
	x->close_client = true;
	client_finish(x->client);
	exchange_reply(x, 403, "not a node of the fleet", HTTP_PROBLEM_NO_RETRY);
}

static void challenge(struct exchange *x, struct hop *hop, struct slice nonce)
{
	if (!hop_is_nonce(nonce) || !hop_draw_nonce(hop->ours)) {
		turn_away(x);
		return;
	}
	memcpy(hop->theirs, nonce.at, HOP_NONCE_BYTES - 1);
	snprintf(hop->field, sizeof(hop->field), "challenge %s", hop->ours);
	hop->state = HOP_CHALLENGED;
	x->kind = EXCHANGE_NODE_GREETING;
	exchange_reply(x, 200, "node's greeting", HTTP_PROBLEM_NO_RETRY);
}

/* It has proven that it has the secret, and is shown that this node has it, too. */
static void welcome(struct exchange *x, struct hop *hop)
{
	char proof[HOP_PROOF_BYTES];
	size_t len = hop_prove(secret_of(x), HOP_OWNER, hop->theirs, hop->ours, proof);

	hop->state = HOP_PROVEN;
	hop->proven_to = x->use->site->serial;
	delist(x->client);
	snprintf(hop->field, sizeof(hop->field), "welcome %.*s", (int)len, proof);
	x->kind = EXCHANGE_NODE_GREETING;
	exchange_reply(x, 200, "node's greeting", HTTP_PROBLEM_NO_RETRY);
}

static void greet(struct exchange *x, struct hop *hop, struct slice value)
{
	struct slice word = next_word(&value);

	/* Without one, anybody could prove that he has it: a reload has taken [fleet] away. */
	if (secret_of(x).len == 0) {
		turn_away(x);
		return;
	}
	if (hop->state == HOP_NEW && slice_equal(word, SLICE("hello"))) {
		challenge(x, hop, value);
		return;
	}
	if (hop->state != HOP_CHALLENGED || !slice_equal(word, SLICE("proof")) ||
		!hop_is_proof(secret_of(x), HOP_ASKER, hop->theirs, hop->ours, value)) {
		warn_of_stranger(x);
		turn_away(x);
		return;
	}
	memcpy(hop->proof, value.at, value.len);
	hop->proof_len = value.len;
	welcome(x, hop);
}

/* A reload may have brought another secret, or taken it away, or brought TLS, without which no
 * other connection begins from then on. */
static bool is_valid_still(struct exchange *x, struct hop *hop)
{
	uint64_t serial = x->use->site->serial;

	if (x->client->listener->certificates && !stream_is_encrypted(x->client->stream))
		return false;
	if (hop->proven_to == serial)
		return true;
	if (secret_of(x).len == 0 || !hop_is_proof(secret_of(x), HOP_ASKER, hop->theirs, hop->ours,
					     (struct slice){hop->proof, hop->proof_len}))
		return false;
	hop->proven_to = serial;
	return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A number of at most 19 digits, which is taken off `rest` with the blank behind it. */
static bool take_number(struct slice *rest, uint64_t *number)
{
	const char *at = rest->at, *end = at + rest->len, *most = rest->len > 19 ? at + 19 : end;
	uint64_t sum = 0;
	unsigned digit;

	for (; at < most && (digit = (unsigned)(unsigned char)*at - '0') <= 9; at++)
		sum = sum * 10 + digit;
	if (at == rest->at || (at < end && *at != ' '))
		return false;
	at += at < end;
	*number = sum;
	*rest = (struct slice){at, (size_t)(end - at)};
	return true;
}

static const struct conf_listener *find_listener(const struct conf *conf, struct slice name)
{
	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		if (!listener->is_internal && slice_equal(name, slice_of(listener->name)))
			return listener;
	}
	return NULL;
}

/* Marks before a peer's address: see put_peer. */
static bool take_mark(struct slice *text, char mark)
{
	bool has = text->len > 0 && text->at[0] == mark;

	text->at += has;
	text->len -= has;
	return has;
}

static bool take_peer(struct hop *hop, struct slice text)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6};
	bool is_unproven = take_mark(&text, '!'), is_https = take_mark(&text, '+');
	bool is_unix = slice_equal(text, SLICE("unix"));

	if (!is_unix && !forwarded_address_parse(text, address.sin6_addr.s6_addr))
		return false;
	forwarded_peer_init(&hop->peer, (const struct sockaddr *)&address,
		is_unix ? 0 : sizeof(address), &hop->listener->trusted_proxies);
	hop->peer.is_unproven = is_unproven;
	forwarded_peer_judge(&hop->peer, &hop->listener->trusted_proxies);
	hop->peer.is_https = is_https || hop->listener->tls.certificates.count > 0;
	return true;
}

static void remember_client(struct hop *hop, struct slice client, uint64_t site)
{
	bool is_short = client.len <= sizeof(hop->client.text);

	hop->client.len = is_short ? (uint8_t)client.len : 0;
	if (is_short)
		memcpy(hop->client.text, client.at, client.len);
	hop->client.site = site;
	hop->client.listener = hop->listener;
}

/* Does it begin with the `LISTENER PEER INSTANCE` of the request before, by the same site? */
static bool is_known_client(const struct hop *hop, struct slice rest, uint64_t site)
{
	size_t len = hop->client.len;

	return len > 0 && hop->client.site == site && rest.len > len && rest.at[len] == ' ' &&
	       memcmp(rest.at, hop->client.text, len) == 0;
}

/* `LISTENER PEER INSTANCE`, which are taken off `rest`. */
static bool take_client(struct exchange *x, struct hop *hop, struct slice *rest)
{
	const struct site *site = x->use->site;

	if (is_known_client(hop, *rest, site->serial)) {
		hop->listener = hop->client.listener;
		rest->at += hop->client.len + 1;
		rest->len -= hop->client.len + 1U;
		return true;
	}
	hop->client.len = 0;
	forwarding_clear(x->client->forwarding);
	const char *begin = rest->at;
	struct slice name = next_word(rest), peer = next_word(rest);
	hop->listener = find_listener(site->conf, name);
	if (!hop->listener || !take_peer(hop, peer) || !take_number(rest, &hop->instance) ||
		rest->len == 0)
		return false;
	remember_client(hop, (struct slice){begin, (size_t)(rest->at - 1 - begin)}, site->serial);
	return true;
}

/* `tls` and a word for each fact, in base64url; `-`: there is none. */
static bool take_identity(struct hop *hop, struct slice *rest)
{
	size_t used = 0, len;

	hop->texts = malloc(BASE64_ROOM(rest->len) + TLS_FACTS);
	hop->identity = (struct tls_identity){0};
	for (unsigned i = 0; hop->texts && i < TLS_FACTS; i++) {
		struct slice word = next_word(rest);
		if (slice_equal(word, SLICE("-")))
			continue;
		if (!base64url_read(word, hop->texts + used, &len))
			return false;
		hop->identity.facts[i] = (struct slice){hop->texts + used, len};
		used += len;
	}
	return hop->texts != NULL;
}

static void put_identity(struct http_out *out, const struct tls_identity *identity)
{
	char text[BASE64_TEXT_ROOM(FACT_BYTES)];

	http_out_slice(out, SLICE(" tls"));
	for (unsigned i = 0; i < TLS_FACTS; i++) {
		struct slice fact = identity->facts[i];
		bool fits = fact.len > 0 && fact.len <= FACT_BYTES;
		http_out_char(out, ' ');
		http_out_slice(
			out, fits ? (struct slice){text, base64url_write(fact, text)} : SLICE("-"));
	}
}

/* `1 LISTENER PEER INSTANCE MARK FENCE [WAITED] [tls FACT FACT ...]` */
static bool take_field(struct exchange *x, struct hop *hop)
{
	struct slice value = http_head_find(&x->request, HTTP_FIELD_SLUICE_HOP);

	if (http_head_count(&x->request, HTTP_FIELD_SLUICE_HOP) != 1 ||
		!slice_equal(next_word(&value), SLICE("1")))
		return false;
	if (!take_client(x, hop, &value) || !take_number(&value, &hop->mark) ||
		!take_number(&value, &hop->fence))
		return false;
	hop->waited_ms = 0;
	free(hop->texts);
	hop->texts = NULL;
	if (value.len > 0 && value.at[0] != 't' && !take_number(&value, &hop->waited_ms))
		return false;
	if (value.len > 0 && !slice_equal(next_word(&value), SLICE("tls")))
		return false;
	return value.len == 0 || (take_identity(hop, &value) && value.len == 0);
}

bool hop_begin(struct exchange *x)
{
	struct client *client = x->client;
	struct hop *hop = client->hop;

	if (!hop)
		hop = client->hop = calloc(1, sizeof(*hop));
	if (!hop) {
		exchange_reply(x, 503, "no memory", 1000);
		return false;
	}
	hop->field[0] = '\0';
	hop->listener = NULL;
	if (hop->state != HOP_PROVEN) {
		greet(x, hop, http_head_find(&x->request, HTTP_FIELD_SLUICE_HOP));
		return false;
	}
	if (!is_valid_still(x, hop)) {
		x->close_client = true;
		client_finish(client);
		hop_refuse(x, "closing");
		return false;
	}
	if (!take_field(x, hop)) {
		warn_of_unread(x);
		hop_refuse(x, "unknown");
		return false;
	}
	client->peer = &hop->peer;
	x->dialect = hop->listener->ratelimit_headers;
	return true;
}

void hop_refuse(struct exchange *x, const char *why)
{
	struct hop *hop = x->client->hop;

	snprintf(hop->field, sizeof(hop->field), "%s", why);
	exchange_reply(x, 421, "not the session's owner", HTTP_PROBLEM_NO_RETRY);
}

/* ---- the other side -------------------------------------------------------------------------- */

/* The part of its queue_timeout that has passed. */
static uint64_t waited_ms_of(const struct exchange *x)
{
	uint64_t since_ns = x->turn.ticket.entered_ns, now_ns = worker_now_ns(x->worker);

	return x->owner.waited_ms + (now_ns > since_ns ? (now_ns - since_ns) / CLOCK_NS_PER_MS : 0);
}

/* With `!` before it if it is never trusted, and `+` if a proxy reports its https. */
static void put_peer(struct http_out *out, const struct client *client)
{
	const struct forwarded_peer *peer = client->peer;

	if (peer->is_unproven)
		http_out_char(out, '!');
	if (peer->is_https && client->listener->conf->tls.certificates.count == 0)
		http_out_char(out, '+');
	http_out_slice(out, forwarded_peer_text(peer));
}

void hop_put(struct field_sink *sink, const struct exchange *x)
{
	struct http_out *out = &sink->out;
	struct owners *owners = node_owners(x->worker->node);
	const struct client *client = x->client;
	uint64_t waited_ms = waited_ms_of(x);

	field_begin(sink, SLICE("Sluice-Hop"));
	http_out_slice(out, SLICE("1 "));
	http_out_slice(out, slice_of(client->listener->conf->name));
	http_out_slice(out, SLICE(" "));
	put_peer(out, client);
	http_out_slice(out, SLICE(" "));
	http_out_slice(out, owners_instance(owners));
	http_out_slice(out, SLICE(" "));
	http_out_number(out, owner_mark(&x->owner.use));
	http_out_slice(out, SLICE(" "));
	http_out_number(out, x->owner.use.fence);
	if (waited_ms > 0) {
		http_out_slice(out, SLICE(" "));
		http_out_number(out, waited_ms);
	}
	if (x->facts.tls)
		put_identity(out, x->facts.tls);
	field_end(sink);
}
