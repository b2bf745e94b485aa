/*
 * Arrays of integers as MessagePack has them: what the store's functions are asked, and answer but
 * for judge.lua, which answers doubles. Redis reads and writes both in C (cmsgpack, struct), so
 * that a number costs little there.
 */
#ifndef STORE_INTEGERS_H
#define STORE_INTEGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of an array's head as integers_head writes it, and of a number at most. */
#define INTEGERS_HEAD_BYTES 5
#define INTEGERS_MOST_BYTES 9

/* The head of an array of `count`. Returns the bytes written: INTEGERS_HEAD_BYTES. */
size_t integers_head(uint8_t *out, uint32_t count);
/* A number. Returns the bytes written, at most INTEGERS_MOST_BYTES. */
size_t integers_put(uint8_t *out, uint64_t number);

struct integers {
	const uint8_t *at, *end;
	uint32_t left; /* numbers of the array not read yet */
	bool doubles;  /* it is no MessagePack: each number has 64 bits as a float */
	bool wrong;    /* it ended too soon, or something in it is no integer */
};

/* Begins to read an array; `wrong` when the bytes do not begin with one. They must stay. */
void integers_begin(struct integers *integers, const void *bytes, size_t len);
/* The same of floats of 64 bits, IEEE 754, the low byte first, one after the other: what
 * struct.pack makes of '<d' in Lua. All that are there are the array. */
void integers_begin_doubles(struct integers *integers, const void *bytes, size_t len);
/* The next number; 0, and `wrong` is set, when there is none. */
int64_t integers_next(struct integers *integers);

#endif
