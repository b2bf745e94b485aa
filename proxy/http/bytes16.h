/*
 * Sixteen bytes at a time: which of them end a run that a head's reader passes over. Each function
 * reads 16 bytes from `at` and returns a bit for each that ends the run, the first byte's lowest.
 *
 *   GET /a?b HTTP/1.     bytes16_not_target: bits 3 and 8, the spaces
 *
 * SSE2, which every x86-64 has, does it; the same in plain C (`_plain`) is for other machines, and
 * for the tests, which compare the two.
 */
#ifndef HTTP_BYTES16_H
#define HTTP_BYTES16_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define BYTES8_EACH(b) (UINT64_C(0x0101010101010101) * (uint64_t)(b))

/* Eight bytes, the first one lowest. */
static inline uint64_t bytes8_load(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/* The high bit of each byte that is below n, 1 to 128: no byte borrows from its neighbour. */
static inline uint64_t bytes8_below(uint64_t word, unsigned n)
{
	return (BYTES8_EACH(0x7f + n) - (word & BYTES8_EACH(0x7f))) & ~word & BYTES8_EACH(0x80);
}

/* The high bit of each byte from `first` to `last`, neither of them 0 nor above 0x7f. */
static inline uint64_t bytes8_within(uint64_t word, unsigned first, unsigned last)
{
	return bytes8_below(word, last + 1) & ~bytes8_below(word, first);
}

/* The bytes' high bits next to each other. */
static inline unsigned bytes8_gather(uint64_t high_bits)
{
	return (unsigned)((high_bits >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

static inline unsigned bytes8_controls(uint64_t word)
{
	return bytes8_gather(bytes8_below(word, 0x20) | bytes8_within(word, 0x7f, 0x7f));
}

static inline unsigned bytes8_not_name(uint64_t word)
{
	uint64_t name =
		bytes8_within(word | BYTES8_EACH(0x20), 'a', 'z') | bytes8_within(word, '-', '-');

	return bytes8_gather(~name & BYTES8_EACH(0x80));
}

static inline unsigned bytes8_not_target(uint64_t word)
{
	uint64_t target = bytes8_within(word, '!', '~') & ~bytes8_within(word, '#', '#');

	return bytes8_gather(~target & BYTES8_EACH(0x80));
}

static inline unsigned bytes16_controls_plain(const char *at)
{
	return bytes8_controls(bytes8_load(at)) | bytes8_controls(bytes8_load(at + 8)) << 8;
}

static inline unsigned bytes16_not_name_plain(const char *at)
{
	return bytes8_not_name(bytes8_load(at)) | bytes8_not_name(bytes8_load(at + 8)) << 8;
}

static inline unsigned bytes16_not_target_plain(const char *at)
{
	return bytes8_not_target(bytes8_load(at)) | bytes8_not_target(bytes8_load(at + 8)) << 8;
}

/* Is a byte none of what nearly all hosts are written with: small letters, digits, '-' and '.'? */
static inline unsigned bytes8_not_host(uint64_t word)
{
	uint64_t host = bytes8_within(word, 'a', 'z') |
			(bytes8_within(word, '-', '9') & ~bytes8_within(word, '/', '/'));

	return bytes8_gather(~host & BYTES8_EACH(0x80));
}

static inline unsigned bytes16_not_host_plain(const char *first, const char *last)
{
	return bytes8_not_host(bytes8_load(first)) | bytes8_not_host(bytes8_load(last)) << 8;
}

#ifdef __SSE2__

#include <emmintrin.h>

static inline __m128i bytes16_load(const char *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Control characters: below 0x20, and DEL. */
static inline unsigned bytes16_controls(const char *at)
{
	__m128i bytes = bytes16_load(at);
	__m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
	__m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, del));
}

/* All but letters and '-', of which nearly all field names are made. */
static inline unsigned bytes16_not_name(const char *at)
{
	__m128i bytes = bytes16_load(at), lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
	__m128i letter = _mm_and_si128(_mm_cmpgt_epi8(lower, _mm_set1_epi8('a' - 1)),
		_mm_cmplt_epi8(lower, _mm_set1_epi8('z' + 1)));
	__m128i dash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'));

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(letter, dash)) ^ 0xffff;
}

/* All but printable ASCII without '#', which begins what no client should send (RFC 9112
 * section 3.2). The comparison is a signed one: bytes from 0x80 on are below, too. */
static inline unsigned bytes16_not_target(const char *at)
{
	__m128i bytes = bytes16_load(at);
	__m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8('!'));
	__m128i hash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('#'));
	__m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(low, hash), del));
}

/* The same for 8 to 16 bytes, in two halves that may overlap. */
static inline unsigned bytes16_not_host(const char *first, const char *last)
{
	__m128i bytes = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)first),
		_mm_loadl_epi64((const __m128i *)(const void *)last));
	__m128i letter = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('a' - 1)),
		_mm_cmplt_epi8(bytes, _mm_set1_epi8('z' + 1)));
	__m128i other = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('-' - 1)),
		_mm_cmplt_epi8(bytes, _mm_set1_epi8('9' + 1)));
	__m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('/'));
	__m128i host = _mm_or_si128(letter, _mm_andnot_si128(slash, other));

	return (unsigned)_mm_movemask_epi8(host) ^ 0xffff;
}

#else

#define bytes16_not_host   bytes16_not_host_plain
#define bytes16_controls   bytes16_controls_plain
#define bytes16_not_name   bytes16_not_name_plain
#define bytes16_not_target bytes16_not_target_plain

#endif

#endif
