/*
 * The keyed hash of callers: SipHash-2-4 with 128 bits of output (Aumasson, Bernstein: "SipHash: a
 * fast short-input PRF", 2012, and its later 128-bit variant). Keyed, so that a client can't choose
 * callers that share one bucket of the table.
 *
 * A key of parts is the hash of: domain (8 bytes), then for each part its bytes and its length (8
 * bytes). Lengths come last so that a part can be of any size, and make the joining unambiguous:
 * read backwards from the end, each length gives the beginning of its part.
 */
#include "throttle/throttle.h"

#include <string.h>

static inline uint64_t rotate_left(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate_left(v[1], 13) ^ v[0];
	v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] = rotate_left(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate_left(v[1], 17) ^ v[2];
	v[3] = rotate_left(v[3], 21) ^ v[0];
	v[2] = rotate_left(v[2], 32);
}

static inline void absorb_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

/* Bytes are read in little-endian order on every machine. */
static inline uint64_t load_le64(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

static inline uint64_t load_tail(const unsigned char *p, size_t bytes)
{
	uint64_t word = 0;

	for (size_t i = 0; i < bytes; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

static inline void start(uint64_t v[4], const struct throttle_seed *seed)
{
	v[0] = seed->k0 ^ 0x736f6d6570736575u;
	v[1] = seed->k1 ^ 0x646f72616e646f6du ^ 0xee;
	v[2] = seed->k0 ^ 0x6c7967656e657261u;
	v[3] = seed->k1 ^ 0x7465646279746573u;
}

/* Inline: the state stays in registers. */
static inline __attribute__((always_inline)) struct throttle_key finish(
	uint64_t v[4], uint64_t tail, uint64_t length)
{
	struct throttle_key key;

	absorb_word(v, tail | length << 56);
	v[2] ^= 0xee;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	key.lo = v[0] ^ v[1] ^ v[2] ^ v[3];
	v[1] ^= 0xdd;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	key.hi = v[0] ^ v[1] ^ v[2] ^ v[3];
	return key;
}

struct throttle_key throttle_hash(const struct throttle_seed *seed, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	uint64_t v[4], tail = 0;
	size_t left = bytes;

	start(v, seed);
	for (; left >= 8; p += 8, left -= 8)
		absorb_word(v, load_le64(p));
	if (left > 0) /* the last 8 bytes of a longer string have the tail on top */
		tail = bytes > 8 ? load_le64(p + left - 8) >> (64 - 8 * left) : load_tail(p, left);
	return finish(v, tail, bytes);
}

/* Takes in bytes at any alignment: `tail` holds the length % 8 bytes that make no word yet. */
static void absorb(struct throttle_hasher *h, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	unsigned held = h->length & 7;

	h->length += bytes;
	if (held > 0) {
		size_t wanted = 8 - held < bytes ? 8 - held : bytes;

		h->tail |= load_tail(p, wanted) << (8 * held);
		if (held + wanted < 8)
			return;
		absorb_word(h->v, h->tail);
		p += wanted;
		bytes -= wanted;
	}
	for (; bytes >= 8; p += 8, bytes -= 8)
		absorb_word(h->v, load_le64(p));
	h->tail = load_tail(p, bytes);
}

static void absorb_number(struct throttle_hasher *h, uint64_t number)
{
	unsigned char bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(number >> (8 * i));
	absorb(h, bytes, sizeof(bytes));
}

void throttle_hash_begin(
	struct throttle_hasher *h, const struct throttle_seed *seed, uint64_t domain)
{
	start(h->v, seed);
	h->tail = 0;
	h->length = 0;
	absorb_number(h, domain);
}

void throttle_hash_part(struct throttle_hasher *h, const void *data, size_t bytes)
{
	if (bytes > 0)
		absorb(h, data, bytes);
	absorb_number(h, bytes);
}

struct throttle_key throttle_hash_end(struct throttle_hasher *h)
{
	/* One length more than any plain string of whole words has at this place. */
	return finish(h->v, h->tail, h->length + 1);
}
