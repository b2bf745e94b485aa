#include "base/digest.h"

/* SHA256_Init and its kin stand on the caller's stack and can't fail. With OpenSSL 3.0, each
 * EVP_DigestInit_ex2 allocates; the plan of a request would cost that, and depend on it. */
#define OPENSSL_API_COMPAT 10101
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void digest_make(struct slice data, unsigned char digest[static DIGEST_BYTES])
{
	SHA256_CTX context;

	SHA256_Init(&context);
	SHA256_Update(&context, data.at, data.len);
	SHA256_Final(digest, &context);
}

bool digest_equal(
	const unsigned char a[static DIGEST_BYTES], const unsigned char b[static DIGEST_BYTES])
{
	return CRYPTO_memcmp(a, b, DIGEST_BYTES) == 0;
}

void digest_sha1(
	struct slice first, struct slice second, unsigned char digest[static DIGEST_SHA1_BYTES])
{
	SHA_CTX context;

	SHA1_Init(&context);
	SHA1_Update(&context, first.at, first.len);
	SHA1_Update(&context, second.at, second.len);
	SHA1_Final(digest, &context);
}

void digest_text(struct slice data, char out[static DIGEST_TEXT_BYTES])
{
	unsigned char digest[DIGEST_BYTES];

	digest_make(data, digest);
	memcpy(out, DIGEST_PREFIX, strlen(DIGEST_PREFIX));
	out += strlen(DIGEST_PREFIX);
	for (size_t i = 0; i < sizeof(digest); i++) {
		*out++ = digits[digest[i] >> 4];
		*out++ = digits[digest[i] & 0xf];
	}
}

bool digest_is_text(struct slice text)
{
	size_t prefix = strlen(DIGEST_PREFIX);

	if (text.len != DIGEST_TEXT_BYTES || memcmp(text.at, DIGEST_PREFIX, prefix) != 0)
		return false;
	for (size_t i = prefix; i < text.len; i++) {
		if (!memchr(digits, text.at[i], sizeof(digits) - 1))
			return false;
	}
	return true;
}

bool digest_derive(struct slice key, struct slice info, void *out, size_t len)
{
	char digest[] = "SHA256";
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(
			OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)key.at, key.len),
		OSSL_PARAM_construct_octet_string(
			OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info.at, info.len),
		OSSL_PARAM_construct_end(),
	};
	bool good = context && EVP_KDF_derive(context, out, len, params) == 1;

	EVP_KDF_CTX_free(context);
	EVP_KDF_free(kdf);
	return good;
}
