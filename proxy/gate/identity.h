/*
 * Whom a request is charged to: a key expression (conf/key.h) evaluated against it.
 *
 *   header:X-Api-Key + path | ip      the first alternative whose parts all have a value; when none
 *                                     has, the address
 *
 * What comes out is a 128-bit keyed hash of the parts, each with its kind and length before it, so
 * that `a` + `bc` is not `ab` + `c`, and an address is never a header that spells it. Values of any
 * length are hashed whole.
 */
#ifndef GATE_IDENTITY_H
#define GATE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/key.h"
#include "http/message.h"

struct identity_input {
	const struct http_head *head;
	uint8_t address[16]; /* the caller's: forwarded_caller */
	struct slice host;   /* http_authority_host */
	struct slice path;   /* normalised */
	struct slice query;  /* as received, without '?' */
	struct slice method; /* as received */
	struct slice route;  /* its name */
};

struct identity_seed {
	uint64_t word[2];
};

struct identity {
	uint64_t word[2];
};

/* The caller's hash. `domain` keeps the hashes of one purpose apart from those of another: the
 * route's name for sessions, empty for limits. */
struct identity identity_hash(const struct conf_key *key, const struct identity_input *input,
	const struct identity_seed *seed, struct slice domain);

/* The hash that a caller has whose key is the single value `text`, as `sluice explain KEY` and
 * `reset KEY` are given it: a header's, cookie's or query's value as it stands, or an address for
 * keys of that kind. False when the first alternative of the key has more than one part. */
bool identity_hash_text(const struct conf_key *key, struct slice text,
	const struct identity_seed *seed, struct slice domain, struct identity *identity);

/*
 * The first value of a key: what a plan's or a list's callers are looked up by. A slice of the
 * request's bytes, or of `scratch` for addresses and decoded query values. None when the chosen
 * alternative has several parts, and when the value is longer than the scratch and needs decoding.
 */
#define IDENTITY_TEXT_BYTES 1024
struct slice identity_text(const struct conf_key *key, const struct identity_input *input,
	char scratch[static IDENTITY_TEXT_BYTES]);

/* The value of the first cookie of that name, without the optional quotes, or none (RFC 6265
 * section 4.2.1, over all Cookie lines). Names are compared as they stand. */
struct slice identity_cookie(const struct http_head *head, struct slice name);

/* The raw value of the first parameter of that name in a query, or none. Names are compared as they
 * stand. */
struct slice identity_query(struct slice query, struct slice name);

/* 16 hex digits of a hash, for logs. Not NUL-terminated. */
#define IDENTITY_SHORT_BYTES 16
void identity_short(const struct identity *identity, char out[static IDENTITY_SHORT_BYTES]);

#endif
