#include "exchange/forwarding.h"

#include <stdlib.h>

#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "http/forwarded.h"
#include "listen/listener.h"

/* Longer ones, which need a long host, are composed each time. */
#define KEPT_BYTES 1024

static void put(struct http_out *out, struct slice bytes)
{
	http_out_slice(out, bytes);
}

/* One address, that by which callers are distinguished; a peer on a unix socket may have none. */
static void put_caller(struct http_out *out, const struct exchange *x)
{
	static const uint8_t none[16];
	char text[FORWARDED_ADDRESS_BYTES];

	if (memcmp(x->facts.address, none, sizeof(none)) == 0)
		return;
	put(out, SLICE("X-Real-IP: "));
	put(out, (struct slice){text, forwarded_address_text(x->facts.address, text)});
	put(out, SLICE("\r\n"));
}

static void compose(struct http_out *out, const struct exchange *x)
{
	const struct forwarded_peer *peer = x->client->peer;
	const struct conf_cidrs *trusted = &client_listener(x->client)->trusted_proxies;
	const struct site *site = x->use->site;

	/* A peer on a unix socket that is not trusted has no address to tell. */
	if (!peer->is_unix || peer->trusted) {
		put(out, SLICE("X-Forwarded-For: "));
		forwarded_append_for(out, &x->request, peer);
		put(out, SLICE("\r\n"));
	}
	put_caller(out, x);
	put(out, SLICE("X-Forwarded-Proto: "));
	forwarded_append_proto(out, &x->request, peer, trusted, peer->is_https);
	if (x->facts.authority.len > 0 || peer->trusted) {
		put(out, SLICE("\r\nX-Forwarded-Host: "));
		forwarded_append_host(out, &x->request, peer, trusted, x->facts.authority);
	}
	put(out, SLICE("\r\nX-Forwarded-Port: "));
	forwarded_append_port(out, &x->request, peer, trusted, x->facts.authority, peer->is_https);
	if (site->conf->hop.forwarded) {
		put(out, SLICE("\r\nForwarded: "));
		forwarded_append_forwarded(
			out, &x->request, peer, x->facts.authority, peer->is_https);
	}
	if (site->via.len > 0) {
		put(out, SLICE("\r\nVia: "));
		forwarded_append_via(out, &x->request, site->via);
	}
	put(out, SLICE("\r\n"));
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

static bool is_for(const struct forwarding *forwarding, const struct exchange *x)
{
	return forwarding->text && forwarding->site == x->use->site->serial &&
	       forwarding->minor == x->request.minor &&
	       slice_equal(
		       (struct slice){forwarding->text, forwarding->host_len}, x->facts.authority);
}

static void keep(struct forwarding *forwarding, const struct exchange *x, struct slice lines)
{
	size_t host_len = x->facts.authority.len;

	forwarding_clear(forwarding);
	if (host_len + lines.len > KEPT_BYTES)
		return;
	forwarding->text = malloc(host_len + lines.len);
	if (!forwarding->text)
		return;
	if (host_len > 0)
		memcpy(forwarding->text, x->facts.authority.at, host_len);
	memcpy(forwarding->text + host_len, lines.at, lines.len);
	forwarding->host_len = (uint32_t)host_len;
	forwarding->len = (uint32_t)lines.len;
	forwarding->site = x->use->site->serial;
	forwarding->minor = x->request.minor;
}

void forwarding_put(struct http_out *out, struct forwarding *forwarding, const struct exchange *x)
{
	bool plain = !says_itself(&x->request);

	if (plain && is_for(forwarding, x)) {
		put(out, (struct slice){forwarding->text + forwarding->host_len, forwarding->len});
		return;
	}
	const char *begin = out->at;
	compose(out, x);
	if (plain && !out->overflow)
		keep(forwarding, x, (struct slice){begin, (size_t)(out->at - begin)});
}

void forwarding_clear(struct forwarding *forwarding)
{
	free(forwarding->text);
	*forwarding = (struct forwarding){0};
}
