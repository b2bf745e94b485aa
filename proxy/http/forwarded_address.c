/* Addresses of peers and hops: from sockets, from text, to text, in lists of networks. */
#include "http/forwarded.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "conf/conf.h"

static const uint8_t ipv4_mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const uint8_t address[16])
{
	return memcmp(address, ipv4_mapped, sizeof(ipv4_mapped)) == 0;
}

bool forwarded_address_fits(const uint8_t address[16], unsigned prefix)
{
	return prefix >= 8 * sizeof(ipv4_mapped) || !is_ipv4(address);
}

static bool in_network(const struct conf_cidr *network, const uint8_t address[16])
{
	unsigned bytes = network->prefix / 8, bits = network->prefix % 8;

	if (memcmp(network->address, address, bytes) != 0 ||
		!forwarded_address_fits(address, network->prefix))
		return false;
	return bits == 0 || ((network->address[bytes] ^ address[bytes]) >> (8 - bits)) == 0;
}

bool forwarded_peer_trusted(const struct conf_cidrs *trusted, const uint8_t address[16])
{
	for (size_t i = 0; i < trusted->count; i++) {
		if (in_network(&trusted->items[i], address))
			return true;
	}
	return false;
}

/* inet_ntop would print each byte by sprintf, which costs more than the rest of a request's head.
 */
static size_t ipv4_text(const uint8_t address[4], char text[static FORWARDED_ADDRESS_BYTES])
{
	struct http_out out = http_out_over(text, FORWARDED_ADDRESS_BYTES);

	for (unsigned i = 0; i < 4; i++) {
		if (i > 0)
			http_out_char(&out, '.');
		http_out_number(&out, address[i]);
	}
	*out.at = '\0';
	return (size_t)(out.at - text);
}

size_t forwarded_address_text(const uint8_t address[16], char out[static FORWARDED_ADDRESS_BYTES])
{
	if (is_ipv4(address))
		return ipv4_text(address + 12, out);
	return inet_ntop(AF_INET6, address, out, FORWARDED_ADDRESS_BYTES) ? strlen(out) : 0;
}

bool forwarded_address_parse(struct slice text, uint8_t address[16])
{
	char copy[FORWARDED_ADDRESS_BYTES];

	if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.at, '\0', text.len))
		return false;
	memcpy(copy, text.at, text.len);
	copy[text.len] = '\0';
	if (memchr(text.at, ':', text.len))
		return inet_pton(AF_INET6, copy, address) == 1;
	memcpy(address, ipv4_mapped, sizeof(ipv4_mapped));
	return inet_pton(AF_INET, copy, address + 12) == 1;
}

static void peer_name_unix(struct forwarded_peer *peer)
{
	memcpy(peer->text, "unix", 4);
	peer->text_len = 4;
	memcpy(peer->node, "_unix", 5);
	peer->node_len = 5;
}

static void peer_name(struct forwarded_peer *peer)
{
	size_t len = forwarded_address_text(peer->address, peer->text);

	peer->text_len = (uint8_t)len;
	if (is_ipv4(peer->address)) {
		memcpy(peer->node, peer->text, len);
		peer->node_len = (uint8_t)len;
		return;
	}
	/* RFC 7239 section 6: an IPv6 address has brackets and so quotes. */
	struct http_out out = http_out_over(peer->node, sizeof(peer->node));
	http_out_slice(&out, SLICE("\"["));
	http_out_slice(&out, (struct slice){peer->text, len});
	http_out_slice(&out, SLICE("]\""));
	peer->node_len = (uint8_t)(out.at - peer->node);
}

void forwarded_peer_init(struct forwarded_peer *peer, const struct sockaddr *address, socklen_t len,
	const struct conf_cidrs *trusted)
{
	*peer = (struct forwarded_peer){0};
	if (len >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, address, sizeof(in));
		memcpy(peer->address, ipv4_mapped, sizeof(ipv4_mapped));
		memcpy(peer->address + 12, &in.sin_addr, 4);
		peer->port = ntohs(in.sin_port);
	} else if (len >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, address, sizeof(in6));
		memcpy(peer->address, &in6.sin6_addr, 16);
		peer->port = ntohs(in6.sin6_port);
	} else {
		peer->is_unix = true;
	}
	forwarded_peer_judge(peer, trusted);
	if (peer->is_unix)
		peer_name_unix(peer);
	else
		peer_name(peer);
}

void forwarded_peer_judge(struct forwarded_peer *peer, const struct conf_cidrs *trusted)
{
	peer->trusted = !peer->is_unproven &&
			(peer->is_unix ? trusted->count > 0
				       : forwarded_peer_trusted(trusted, peer->address));
}
