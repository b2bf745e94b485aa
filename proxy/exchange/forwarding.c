#include "exchange/forwarding.h"

#include <stdlib.h>

#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "http/forwarded.h"
#include "listen/listener.h"

/* Longer ones, which need a long host, are composed each time. */
#define KEPT_BYTES 1024

/* One address, that by which callers are distinguished; a peer on a unix socket may have none. */
static void put_caller(struct field_sink *sink, const struct exchange *x)
{
	static const uint8_t none[16];
	char text[FORWARDED_ADDRESS_BYTES];

	if (memcmp(x->facts.address, none, sizeof(none)) == 0)
		return;
	field_put(sink, SLICE("X-Real-IP"),
		(struct slice){text, forwarded_address_text(x->facts.address, text)});
}

static void compose(struct field_sink *sink, const struct exchange *x)
{
	const struct forwarded_peer *peer = x->client->peer;
	const struct conf_cidrs *trusted = &client_listener(x->client)->trusted_proxies;
	const struct site *site = x->use->site;
	const struct http_head *head = &x->request;
	struct slice authority = x->facts.authority;
	struct http_out *out = &sink->out;

	/* A peer on a unix socket that is not trusted has no address to tell. */
	if (!peer->is_unix || peer->trusted) {
		field_begin(sink, SLICE("X-Forwarded-For"));
		forwarded_append_for(out, head, peer);
		field_end(sink);
	}
	put_caller(sink, x);
	field_begin(sink, SLICE("X-Forwarded-Proto"));
	forwarded_append_proto(out, head, peer, trusted, peer->is_https);
	field_end(sink);
	if (authority.len > 0 || peer->trusted) {
		field_begin(sink, SLICE("X-Forwarded-Host"));
		forwarded_append_host(out, head, peer, trusted, authority);
		field_end(sink);
	}
	field_begin(sink, SLICE("X-Forwarded-Port"));
	forwarded_append_port(out, head, peer, trusted, authority, peer->is_https);
	field_end(sink);
	if (site->conf->hop.forwarded) {
		field_begin(sink, SLICE("Forwarded"));
		forwarded_append_forwarded(out, head, peer, authority, peer->is_https);
		field_end(sink);
	}
	if (site->via.len > 0) {
		field_begin(sink, SLICE("Via"));
		forwarded_append_via(out, head, site->via);
		field_end(sink);
	}
}

/* Did hops before us say something that ours is added to? */
static bool says_itself(const struct http_head *head)
{
	return http_head_has(head, HTTP_FIELD_VIA) || http_head_has(head, HTTP_FIELD_FORWARDED) ||
	       http_head_has(head, HTTP_FIELD_X_FORWARDED_FOR) ||
	       http_head_has(head, HTTP_FIELD_X_FORWARDED_HOST) ||
	       http_head_has(head, HTTP_FIELD_X_FORWARDED_PORT) ||
	       http_head_has(head, HTTP_FIELD_X_FORWARDED_PROTO);
}

static bool is_for(const struct forwarding *forwarding, const struct exchange *x, unsigned major)
{
	return forwarding->text && forwarding->site == x->use->site->serial &&
	       forwarding->minor == x->request.minor && forwarding->major == x->request.major &&
	       forwarding->sink_major == major &&
	       slice_equal(
		       (struct slice){forwarding->text, forwarding->host_len}, x->facts.authority);
}

static void keep(struct forwarding *forwarding, const struct exchange *x, struct slice fields,
	unsigned major)
{
	size_t host_len = x->facts.authority.len;

	forwarding_clear(forwarding);
	if (host_len + fields.len > KEPT_BYTES)
		return;
	forwarding->text = malloc(host_len + fields.len);
	if (!forwarding->text)
		return;
	if (host_len > 0)
		memcpy(forwarding->text, x->facts.authority.at, host_len);
	memcpy(forwarding->text + host_len, fields.at, fields.len);
	forwarding->host_len = (uint32_t)host_len;
	forwarding->len = (uint32_t)fields.len;
	forwarding->site = x->use->site->serial;
	forwarding->major = x->request.major;
	forwarding->minor = x->request.minor;
	forwarding->sink_major = (uint8_t)major;
}

void forwarding_put(
	struct field_sink *sink, struct forwarding *forwarding, const struct exchange *x)
{
	struct http_out *out = &sink->out;
	bool plain = !says_itself(&x->request);

	if (plain && is_for(forwarding, x, sink->major)) {
		http_out_slice(out,
			(struct slice){forwarding->text + forwarding->host_len, forwarding->len});
		return;
	}
	const char *begin = out->at;
	compose(sink, x);
	if (plain && !out->overflow)
		keep(forwarding, x, (struct slice){begin, (size_t)(out->at - begin)}, sink->major);
}

void forwarding_clear(struct forwarding *forwarding)
{
	free(forwarding->text);
	*forwarding = (struct forwarding){0};
}
