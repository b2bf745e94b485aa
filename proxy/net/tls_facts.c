#include "net/tls_facts.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "net/proxy_header.h"
#include "net/tls_server.h"

#define HOST_BYTES 256

static bool is_valid_for(const struct tls_facts *facts, const char *host)
{
	X509 *certificate = SSL_get_certificate(facts->ssl);

	return certificate && (X509_check_host(certificate, host, 0, 0, NULL) == 1 ||
				      X509_check_ip_asc(certificate, host, 0) == 1);
}

/* ---- the client's certificate -----------------------------------------------------------------
 */

/* Certificates of more bytes have no fields: servers would refuse the head. */
#define FIELDS_MOST 24000

/* Text without blanks and control characters, whose rest may be of any names. */
static bool is_plain(const ASN1_STRING *text)
{
	const unsigned char *at = ASN1_STRING_get0_data(text);

	for (int i = 0; i < ASN1_STRING_length(text); i++) {
		if (at[i] <= ' ' || at[i] > '~')
			return false;
	}
	return ASN1_STRING_length(text) > 0;
}

static void put_san(FILE *out, const X509 *certificate)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		bool is_text =
			name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL;
		if (!is_text || !is_plain(name->d.ia5))
			continue;
		fprintf(out, "%.*s", ASN1_STRING_length(name->d.ia5),
			(const char *)ASN1_STRING_get0_data(name->d.ia5));
		break;
	}
	GENERAL_NAMES_free(all);
}

static void put_subject(FILE *out, const X509 *certificate)
{
	BIO *text = BIO_new(BIO_s_mem());
	char *at;

	if (text && X509_NAME_print_ex(
			    text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
		long len = BIO_get_mem_data(text, &at);
		fprintf(out, "%.*s", (int)len, at);
	}
	BIO_free(text);
}

/* `:BASE64:` (RFC 9651 section 3.3.5) */
static void put_bytes(FILE *out, X509 *certificate)
{
	unsigned char *der = NULL;
	int len = i2d_X509(certificate, &der);
	char *text = len > 0 ? malloc(BASE64_TEXT_ROOM((size_t)len)) : NULL;

	if (text) {
		base64_write((struct slice){(const char *)der, (size_t)len}, text);
		fprintf(out, ":%s:", text);
	}
	free(text);
	OPENSSL_free(der);
}

/* The chain without its anchor, the last certificate, which the reader has. A session that was
 * resumed has no chain. */
static void put_chain(FILE *out, const SSL *ssl)
{
	const STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);

	for (int i = 1; i + 1 < sk_X509_num(chain); i++) {
		fputs(i == 1 ? "" : ", ", out);
		put_bytes(out, sk_X509_value(chain, i));
	}
}

static void put_fact(FILE *out, const SSL *ssl, X509 *certificate, enum tls_fact fact)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	switch (fact) {
	case TLS_FACT_VERSION:
		fprintf(out, SSL_version(ssl) == TLS1_3_VERSION ? "1.3" : "1.2");
		break;
	case TLS_FACT_NAME:
		for (; name && *name; name++)
			fputc(*name >= 'A' && *name <= 'Z' ? *name | 0x20 : *name, out);
		break;
	case TLS_FACT_SUBJECT:
		if (certificate)
			put_subject(out, certificate);
		break;
	case TLS_FACT_SAN:
		if (certificate)
			put_san(out, certificate);
		break;
	case TLS_FACT_FINGERPRINT:
		if (certificate)
			X509_digest(certificate, EVP_sha256(), digest, &len);
		for (unsigned i = 0; i < len; i++)
			fprintf(out, "%02x", digest[i]);
		break;
	case TLS_FACTS:
		break;
	}
}

/* The facts' texts, one behind the other, become those of the identity. */
static size_t set_facts(struct tls_facts *facts, const size_t ends[TLS_FACTS])
{
	size_t start = 0;

	for (unsigned i = 0; i < TLS_FACTS; start = ends[i++])
		facts->identity->facts[i] = (struct slice){facts->texts + start, ends[i] - start};
	return start;
}

const struct tls_identity *tls_facts_identify(struct tls_facts *facts)
{
	size_t ends[TLS_FACTS + 1], size = 0, start;

	if (facts->identity || !facts->ssl)
		return facts->identity;
	X509 *certificate = SSL_get0_peer_certificate(facts->ssl);
	FILE *out = open_memstream(&facts->texts, &size);
	facts->identity = calloc(1, sizeof(*facts->identity));
	for (unsigned i = 0; out && i < TLS_FACTS; i++) {
		put_fact(out, facts->ssl, certificate, (enum tls_fact)i);
		ends[i] = (size_t)ftell(out);
	}
	if (out && certificate)
		put_bytes(out, certificate);
	ends[TLS_FACTS] = out ? (size_t)ftell(out) : 0;
	if (out && certificate)
		put_chain(out, facts->ssl);
	if (!out || fclose(out) != 0 || !facts->identity) {
		tls_facts_clear(facts);
		return NULL;
	}
	struct tls_identity *identity = facts->identity;
	start = set_facts(facts, ends);
	if (size - start > FIELDS_MOST)
		return identity;
	identity->certificate = (struct slice){facts->texts + start, ends[TLS_FACTS] - start};
	identity->chain = (struct slice){facts->texts + ends[TLS_FACTS], size - ends[TLS_FACTS]};
	return facts->identity;
}

/* ---- a proxy's report -------------------------------------------------------------------------
 */

/* `TLSv1.3` as `1.3`; other words are none. */
static void put_reported_version(FILE *out, struct slice version)
{
	struct slice number = {version.at + 4, version.len - 4};

	if (version.len < 5 || version.len > 8 || memcmp(version.at, "TLSv", 4) != 0)
		return;
	for (size_t i = 0; i < number.len; i++) {
		if (number.at[i] != '.' && (number.at[i] < '0' || number.at[i] > '9'))
			return;
	}
	fprintf(out, "%.*s%s", SLICE_ARGS(number), number.len == 1 ? ".0" : "");
}

static void put_reported_name(FILE *out, struct slice name)
{
	bool is_good = name.len < HOST_BYTES;

	for (size_t i = 0; i < name.len; i++)
		is_good &= name.at[i] > ' ' && name.at[i] <= '~';
	for (size_t i = 0; i < name.len && is_good; i++)
		fputc(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] | 0x20 : name.at[i], out);
}

/* As a subject of that name alone (RFC 4514 section 2.4), so that no name can pass for a subject
 * with more in it. */
static void put_reported_subject(FILE *out, struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f)
			return;
	}
	if (name.len > 0)
		fputs("CN=", out);
	for (size_t i = 0; i < name.len; i++) {
		bool is_edge = i == 0 || i + 1 == name.len;
		if (strchr(",+\"\\<>;=", name.at[i]) || (is_edge && name.at[i] == ' ') ||
			(i == 0 && name.at[i] == '#'))
			fputc('\\', out);
		fputc(name.at[i], out);
	}
}

static void put_reported_fact(
	FILE *out, const struct proxy_header *header, const X509 *certificate, enum tls_fact fact)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	switch (fact) {
	case TLS_FACT_VERSION:
		if (header->is_tls)
			put_reported_version(out, header->tls_version);
		break;
	case TLS_FACT_NAME:
		put_reported_name(out, header->authority);
		break;
	case TLS_FACT_SUBJECT:
		if (certificate)
			put_subject(out, certificate);
		else
			put_reported_subject(out, header->common_name);
		break;
	case TLS_FACT_SAN:
		if (certificate)
			put_san(out, certificate);
		break;
	case TLS_FACT_FINGERPRINT:
		if (certificate)
			X509_digest(certificate, EVP_sha256(), digest, &len);
		for (unsigned i = 0; i < len; i++)
			fprintf(out, "%02x", digest[i]);
		break;
	case TLS_FACTS:
		break;
	}
}

bool tls_facts_report(struct tls_facts *facts, const struct proxy_header *header)
{
	const unsigned char *der = (const unsigned char *)header->certificate.at;
	X509 *certificate = der ? d2i_X509(NULL, &der, (long)header->certificate.len) : NULL;
	size_t ends[TLS_FACTS], size = 0;

	*facts = (struct tls_facts){.identity = calloc(1, sizeof(*facts->identity))};
	FILE *out = open_memstream(&facts->texts, &size);
	for (unsigned i = 0; out && i < TLS_FACTS; i++) {
		put_reported_fact(out, header, certificate, (enum tls_fact)i);
		ends[i] = (size_t)ftell(out);
	}
	X509_free(certificate);
	if (!out || fclose(out) != 0 || !facts->identity) {
		tls_facts_clear(facts);
		return false;
	}
	set_facts(facts, ends);
	return true;
}

void tls_facts_clear(struct tls_facts *facts)
{
	free(facts->identity);
	free(facts->texts);
	facts->identity = NULL;
	facts->texts = NULL;
}

bool tls_facts_is_misdirected(const struct tls_facts *facts, struct slice host)
{
	char text[HOST_BYTES];

	if (!facts->ssl)
		return false;
	const char *asked = SSL_get_servername(facts->ssl, TLSEXT_NAMETYPE_host_name);
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
