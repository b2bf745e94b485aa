#include "base/hs256.h"

#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>

#define SIGNATURE_BYTES SHA256_DIGEST_SIZE

static void digest(struct slice key, struct slice text, uint8_t out[static SIGNATURE_BYTES])
{
	struct hmac_sha256_ctx context;

	hmac_sha256_set_key(&context, key.len, (const uint8_t *)key.at);
	hmac_sha256_update(&context, text.len, (const uint8_t *)text.at);
	hmac_sha256_digest(&context, SIGNATURE_BYTES, out);
	explicit_bzero(&context, sizeof(context));
}

/* Without padding (RFC 7515 section 2). Returns the bytes written. */
static size_t encode(struct slice bytes, char *out)
{
	struct base64_encode_ctx context;
	char end[BASE64_ENCODE_FINAL_LENGTH];

	base64url_encode_init(&context);
	size_t len = base64_encode_update(&context, out, bytes.len, (const uint8_t *)bytes.at);
	size_t rest = base64_encode_final(&context, end);
	while (rest > 0 && end[rest - 1] == '=')
		rest--;
	memcpy(out + len, end, rest);
	return len + rest;
}

size_t hs256_sign(struct slice key, struct slice claims, char *out)
{
	uint8_t signature[SIGNATURE_BYTES];
	size_t len = encode(SLICE("{\"typ\":\"JWT\",\"alg\":\"HS256\"}"), out);

	out[len++] = '.';
	len += encode(claims, out + len);
	digest(key, (struct slice){out, len}, signature);
	out[len++] = '.';
	return len + encode((struct slice){(const char *)signature, sizeof(signature)}, out + len);
}

static bool is_base64url(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* `out` has room for text.len bytes. */
static bool decode(struct slice text, char *out, struct slice *decoded)
{
	struct base64_decode_ctx context;
	size_t len = BASE64_DECODE_LENGTH(text.len), padding = 0;

	for (size_t i = 0; i < text.len; i++)
		if (!is_base64url(text.at[i])) /* nettle skips blanks */
			return false;
	base64url_decode_init(&context);
	if (text.len % 4 == 1 ||
		!base64_decode_update(&context, &len, (uint8_t *)out, text.len, text.at))
		return false;
	decoded->at = out;
	decoded->len = len;
	for (size_t i = text.len; i % 4 != 0; i++) {
		size_t more = 0;
		uint8_t none[BASE64_DECODE_LENGTH(1)];
		if (!base64_decode_update(&context, &more, none, 1, "=") || more > 0)
			return false;
		padding++;
	}
	return padding < 3 && base64_decode_final(&context);
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
	uint8_t expected[SIGNATURE_BYTES];
	struct slice rest = token, head, body, signature;

	if (token.len == 0 || !next_part(&rest, &head) || !next_part(&rest, &body))
		return false;
	if (!decode(rest, room, &signature) || signature.len != sizeof(expected))
		return false;
	digest(key, (struct slice){token.at, head.len + 1 + body.len}, expected);
	if (!memeql_sec(expected, signature.at, sizeof(expected)))
		return false;
	return decode(head, room, header) && decode(body, room + header->len, claims);
}
