#include "base/hs256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/base64.h"

#define SIGNATURE_BYTES 32

static bool sign(struct slice key, struct slice text, unsigned char out[static SIGNATURE_BYTES])
{
	return HMAC(EVP_sha256(), key.at, (int)key.len, (const unsigned char *)text.at, text.len,
		       out, NULL) != NULL;
}

size_t hs256_sign(struct slice key, struct slice claims, char *out)
{
	unsigned char signature[SIGNATURE_BYTES];
	size_t len = base64url_write(SLICE("{\"typ\":\"JWT\",\"alg\":\"HS256\"}"), out);

	out[len++] = '.';
	len += base64url_write(claims, out + len);
	if (!sign(key, (struct slice){out, len}, signature))
		return 0;
	out[len++] = '.';
	return len + base64url_write(
			     (struct slice){(const char *)signature, sizeof(signature)}, out + len);
}

/* Takes the text before the next '.' off `rest`. */
static bool next_part(struct slice *rest, struct slice *part)
{
	const char *dot = memchr(rest->at, '.', rest->len);

	if (!dot)
		return false;
	*part = (struct slice){rest->at, (size_t)(dot - rest->at)};
	rest->len -= part->len + 1;
	rest->at = dot + 1;
	return true;
}

bool hs256_open(struct slice key, struct slice token, char *room, struct slice *header,
	struct slice *claims)
{
	unsigned char expected[SIGNATURE_BYTES];
	struct slice rest = token, head, body;
	size_t bytes;

	if (token.len == 0 || !next_part(&rest, &head) || !next_part(&rest, &body))
		return false;
	if (!base64url_read(rest, room, &bytes) || bytes != sizeof(expected) ||
		!sign(key, (struct slice){token.at, head.len + 1 + body.len}, expected) ||
		CRYPTO_memcmp(expected, room, sizeof(expected)) != 0)
		return false;
	*header = (struct slice){room, 0};
	if (!base64url_read(head, room, &header->len))
		return false;
	*claims = (struct slice){room + header->len, 0};
	return base64url_read(body, room + header->len, &claims->len);
}
