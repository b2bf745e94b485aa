#include "websocket/accept.h"

#include "base/base64.h"
#include "base/digest.h"

_Static_assert(BASE64_TEXT_ROOM(DIGEST_SHA1_BYTES) == ACCEPT_BYTES + 1, "the text of a digest");

void accept_make(struct slice key, char accept[static ACCEPT_BYTES + 1])
{
	unsigned char digest[DIGEST_SHA1_BYTES];

	digest_sha1(key, SLICE("258EAFA5-E914-47DA-95CA-C5AB0DC85B11"), digest);
	base64_write((struct slice){(const char *)digest, sizeof(digest)}, accept);
}
