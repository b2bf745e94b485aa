/*
 * The caller's address behind trusted proxies, and the fields that report it to servers.
 *
 *   client ---> proxy a ---> proxy b ---> sluice
 *                                `-- the peer: known for sure
 *   X-Forwarded-For: client, a            read right to left: while the hop that wrote an entry is
 *                    <---- <-             trusted, the entry is believed. The caller is the first
 *                                         one that is not itself trusted.
 *
 * An entry that is not an address (`unknown`, an obfuscated name, garbage) ends the walk: the
 * caller is then the last trusted hop, never what was claimed beyond.
 *
 * When X-Forwarded-For is there at all, Forwarded (RFC 7239) is not read for the caller: nearly all
 * proxies maintain the former and pass the latter on as the client sent it. Proxies that maintain
 * only Forwarded must remove X-Forwarded-For. The client's protocol is found likewise: by
 * X-Forwarded-Proto, else by the farthest element of Forwarded that is believed.
 *
 * A peer on a unix socket has no address. It is trusted when the listener trusts any proxy at all;
 * without that its callers are all one, the address `::`.
 *
 * The address in a header of the PROXY protocol takes the place of the peer's: it is trusted if it
 * is in the list itself. Where such a header has no address of a client, the peer is never trusted:
 * what comes behind it is a client's.
 *
 * IPv4 addresses are written as ::ffff:a.b.c.d everywhere.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/slice.h"
#include "http/message.h"
#include "http/out.h"

struct conf_cidrs;

/* The other end of a connection, made once when it is accepted. */
struct forwarded_peer {
	uint8_t address[16];
	uint16_t port; /* 0: not known */
	bool is_unix;
	bool trusted;
	bool is_unproven; /* its address is not its client's: never trusted */
	bool is_https;    /* the connection is encrypted, or a proxy says so; set by its owner */
	uint8_t text_len; /* `192.0.2.1`, `2001:db8::1`, `unix` */
	uint8_t node_len; /* as Forwarded names it: `192.0.2.1`, `"[2001:db8::1]"`, `_unix` */
	char text[46], node[50];
};

void forwarded_peer_init(struct forwarded_peer *peer, const struct sockaddr *address, socklen_t len,
	const struct conf_cidrs *trusted);

/* The list is another one now: is the peer trusted by it? */
void forwarded_peer_judge(struct forwarded_peer *peer, const struct conf_cidrs *trusted);

/* Can this address be in a network of so many bits? An IPv4 address is ::ffff:a.b.c.d here, and is
 * in networks of IPv4 addresses only: a wider one is of IPv6. */
bool forwarded_address_fits(const uint8_t address[16], unsigned prefix);

/* Is the address in the list? */
bool forwarded_peer_trusted(const struct conf_cidrs *trusted, const uint8_t address[16]);

static inline struct slice forwarded_peer_text(const struct forwarded_peer *peer)
{
	return (struct slice){peer->text, peer->text_len};
}

/*
 * The caller's address: the peer's if it is not trusted or sent none of the fields, else the
 * address at which the walk ends. No allocation; O(1) for an untrusted peer.
 */
void forwarded_caller(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted, uint8_t address[16]);

/* `http` or `https`, which the client used according to Forwarded; SLICE_NONE if no trusted hop
 * reports it. */
struct slice forwarded_proto(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted);

/* Did the client use https: by the trusted peer's word, else by the connection? */
bool forwarded_is_https(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted);

/* The host that the client asked for, likewise. */
struct slice forwarded_host(const struct http_head *head, const struct forwarded_peer *peer,
	const struct conf_cidrs *trusted);

/* The nodes of a well-formed Forwarded as X-Forwarded-For lists them: addresses, without ports, or
 * `unknown`. False: there are none. */
bool forwarded_append_nodes(struct http_out *out, const struct http_head *head);

/* An address as text (RFC 5952; IPv4 in dots). Returns its length. */
#define FORWARDED_ADDRESS_BYTES 46
size_t forwarded_address_text(const uint8_t address[16], char out[static FORWARDED_ADDRESS_BYTES]);

/* The reverse of the above: `192.0.2.1`, `2001:db8::1`. No ports, zones or brackets. */
bool forwarded_address_parse(struct slice text, uint8_t address[16]);

/*
 * Field values for the upstream, without name and CRLF, appended to `out`. The fields of an
 * untrusted peer are replaced; those of a trusted one are kept and extended, in the dialect that it
 * used. Field lines of one name are joined by ", ". A unix peer adds nothing to X-Forwarded-For: it
 * has no address.
 */
void forwarded_append_for(
	struct http_out *out, const struct http_head *head, const struct forwarded_peer *peer);

/* `http` or `https`: the trusted peer's word in X-Forwarded-Proto or Forwarded, else our own
 * listener's. */
void forwarded_append_proto(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, bool is_https);

/* The trusted peer's X-Forwarded-Host or the host of its Forwarded, else `host`: the authority as
 * the client sent it. Appends nothing when none is known. */
void forwarded_append_host(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, struct slice host);

/* The port of the client's URL: the trusted peer's X-Forwarded-Port, else that of the host that the
 * function above returns, else 443 or 80 by the protocol. */
void forwarded_append_port(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, struct slice host,
	bool is_https);

/* Are there elements in the head's Forwarded, all of them well formed? */
bool forwarded_is_well_formed(const struct http_head *head);

/* `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80` */
bool forwarded_node_parse(struct slice node, uint8_t address[16]);

/*
 * `for=192.0.2.1;host=example.com;proto=http`, after the hops that a trusted peer reports. Both
 * dialects report the same: where it sent X-Forwarded-For, by which callers are known, its hops are
 * those, with its X-Forwarded-Proto and -Host at the farthest; else its Forwarded, if it is well
 * formed; else X-Forwarded-Proto and -Host are of an unknown hop.
 */
void forwarded_append_forwarded(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, struct slice host, bool is_https);

/* `1.1 sluice` (the version is the one received), after the received Via (RFC 9110 section
 * 7.6.3). */
void forwarded_append_via(
	struct http_out *out, const struct http_head *head, struct slice pseudonym);

#endif
