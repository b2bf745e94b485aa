#include "websocket/accept.h"

#include <stdint.h>
#include <string.h>

/* ---- SHA-1 (RFC 3174) ------------------------------------------------------------------------ */

#define BLOCK_BYTES  64
#define DIGEST_BYTES 20

struct sha1 {
	uint32_t h[5];
	uint8_t block[BLOCK_BYTES];
	size_t used;
	uint64_t bytes;
};

static uint32_t rotate(uint32_t word, unsigned bits)
{
	return word << bits | word >> (32 - bits);
}

static void mix(struct sha1 *sha1)
{
	uint32_t w[80], h[5];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)sha1->block[4 * i] << 24 | (uint32_t)sha1->block[4 * i + 1] << 16 |
		       (uint32_t)sha1->block[4 * i + 2] << 8 | sha1->block[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(h, sha1->h, sizeof(h));
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20) {
			f = (h[1] & h[2]) | (~h[1] & h[3]);
			k = 0x5a827999;
		} else if (i < 40 || i >= 60) {
			f = h[1] ^ h[2] ^ h[3];
			k = i < 40 ? 0x6ed9eba1 : 0xca62c1d6;
		} else {
			f = (h[1] & h[2]) | (h[1] & h[3]) | (h[2] & h[3]);
			k = 0x8f1bbcdc;
		}
		uint32_t next = rotate(h[0], 5) + f + h[4] + k + w[i];
		h[4] = h[3];
		h[3] = h[2];
		h[2] = rotate(h[1], 30);
		h[1] = h[0];
		h[0] = next;
	}
	for (unsigned i = 0; i < 5; i++)
		sha1->h[i] += h[i];
}

static void add(struct sha1 *sha1, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++) {
		sha1->block[sha1->used++] = at[i];
		if (sha1->used == BLOCK_BYTES) {
			mix(sha1);
			sha1->used = 0;
		}
	}
	sha1->bytes += len;
}

static void finish(struct sha1 *sha1, uint8_t digest[static DIGEST_BYTES])
{
	uint64_t bits = sha1->bytes * 8;
	uint8_t length[8];

	for (unsigned i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	add(sha1, "\x80", 1);
	while (sha1->used != BLOCK_BYTES - sizeof(length))
		add(sha1, "", 1);
	add(sha1, length, sizeof(length));
	for (unsigned i = 0; i < DIGEST_BYTES; i++)
		digest[i] = (uint8_t)(sha1->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- Base64 (RFC 4648 section 4) ------------------------------------------------------------- */

static void encode(const uint8_t digest[static DIGEST_BYTES], char text[static ACCEPT_BYTES])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t padded[DIGEST_BYTES + 1] = {0};

	memcpy(padded, digest, DIGEST_BYTES);
	for (unsigned i = 0; i < sizeof(padded); i += 3) {
		uint32_t three =
			(uint32_t)padded[i] << 16 | (uint32_t)padded[i + 1] << 8 | padded[i + 2];
		for (unsigned j = 0; j < 4; j++)
			*text++ = digits[three >> (18 - 6 * j) & 63];
	}
	text[-1] = '='; /* 20 bytes are one short of seven times three */
}

void accept_make(struct slice key, char accept[static ACCEPT_BYTES])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	struct sha1 sha1 = {.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
	uint8_t digest[DIGEST_BYTES];

	add(&sha1, key.at, key.len);
	add(&sha1, guid, strlen(guid));
	finish(&sha1, digest);
	encode(digest, accept);
}
