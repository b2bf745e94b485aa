#include "net/tls_facts.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "net/tls_server.h"

#define HOST_BYTES 256

static bool is_valid_for(const struct tls_facts *facts, const char *host)
{
	X509 *certificate = SSL_get_certificate(facts->ssl);

	return certificate && (X509_check_host(certificate, host, 0, 0, NULL) == 1 ||
				      X509_check_ip_asc(certificate, host, 0) == 1);
}

bool tls_facts_is_misdirected(const struct tls_facts *facts, struct slice host)
{
	const char *asked = SSL_get_servername(facts->ssl, TLSEXT_NAMETYPE_host_name);
	char text[HOST_BYTES];

	if (host.len == 0 || host.len >= sizeof(text) ||
		(asked && slice_equal_nocase(host, slice_of(asked))))
		return false;
	bool is_ipv6 = host.at[0] == '[' && host.at[host.len - 1] == ']';
	size_t len = is_ipv6 ? host.len - 2 : host.len;
	memcpy(text, host.at + is_ipv6, len);
	text[len] = '\0';
	if (is_valid_for(facts, text))
		return false;
	return asked || tls_server_has_name(facts->server, text);
}
