#include "websocket/accept.h"

#include <nettle/base64.h>
#include <nettle/sha1.h>
#include <string.h>

_Static_assert(BASE64_ENCODE_RAW_LENGTH(SHA1_DIGEST_SIZE) == ACCEPT_BYTES, "the text of a digest");

void accept_make(struct slice key, char accept[static ACCEPT_BYTES])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t digest[SHA1_DIGEST_SIZE];
	struct sha1_ctx sha1;

	sha1_init(&sha1);
	sha1_update(&sha1, key.len, (const uint8_t *)key.at);
	sha1_update(&sha1, strlen(guid), (const uint8_t *)guid);
	sha1_digest(&sha1, sizeof(digest), digest);
	base64_encode_raw(accept, sizeof(digest), digest);
}
