/*
 * Whom a request is charged to: a key expression (conf/key.h) evaluated against it.
 *
 *   header:X-Api-Key + path | ip      the first alternative whose parts all have a value; when none
 *                                     has, the address
 *
 * What comes out is a 128-bit keyed hash of the parts. Parts keep their bounds (`a` + `bc` is not
 * `ab` + `c`) and their class: an address is never a header that spells it. Values that a client
 * can move between places are one class, so that a key gets one quota, not one as a header and
 * another as a query parameter. Values of any length are hashed whole.
 *
 * A caller has one key: where a field, cookie or parameter that counts is there twice, or is
 * spelled so that some servers take it for the key's and others do not (?KEY=, ?%6Bey=, ?key[]=),
 * the request is ambiguous and must be refused, as the server may read another key than was
 * charged. An empty value is none. Credentials (Authorization) count in one form, whatever case and
 * blanks their scheme has.
 */
#ifndef GATE_IDENTITY_H
#define GATE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/key.h"
#include "gate/matches.h"
#include "http/message.h"
#include "net/tls_facts.h"
#include "throttle/throttle.h"

struct identity_input {
	const struct http_head *head;
	uint8_t address[16]; /* the caller's: forwarded_caller */
	struct slice host;   /* http_authority_host */
	struct slice path;   /* as keys know it */
	/* The path as received, where servers may read it in several ways and the route does not
	 * allow that: matches must have the same outcome for each. Else none. */
	struct slice odd_path;
	struct slice query;             /* as received, without '?' */
	struct slice method;            /* as received */
	struct slice scheme;            /* `http` or `https` */
	const struct tls_identity *tls; /* NULL: it came without TLS */
	struct slice route;             /* its name */
	uint64_t now_s;                 /* unix time, for overrides that end */
	bool has_key;                   /* set by identity_text: an alternative had values */
	bool ambiguous; /* set when a part that was evaluated may be read otherwise */
	struct route_scratch *scratch; /* for expressions of matches; NULL: they are undecided */
	struct match_results matches;  /* all zero at first */
};

/* The value of a part that has one at most: no field, cookie or parameter. `address`: room for that
 * of a network. */
struct slice identity_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16]);

/* The decoded form of a value of a cookie or parameter, in place of it, in `scratch` if it differs.
 * False: it is longer than the scratch. */
#define IDENTITY_TEXT_BYTES 1024
bool identity_decode(
	const struct key_part *part, struct slice *value, char scratch[static IDENTITY_TEXT_BYTES]);

/* Does a value of this alternative distinguish clients behind the same address? */
bool identity_names_client(const struct key_alternative *alternative);

/* The caller's hash; `*alternative`: the one that had values, NULL: none had, it is the address. */
struct throttle_key identity_hash_by(const struct conf_key *key, struct identity_input *input,
	const struct throttle_seed *seed, const struct key_alternative **alternative);

/* The same by two seeds, for less than twice the work. */
struct throttle_key identity_hash_twice(const struct conf_key *key, struct identity_input *input,
	const struct throttle_seed *seed, const struct throttle_seed *other_seed,
	struct throttle_key *other, const struct key_alternative **alternative);

/* The caller's hash. */
struct throttle_key identity_hash(
	const struct conf_key *key, struct identity_input *input, const struct throttle_seed *seed);

/*
 * The same of a text, as `sluice explain KEY` and `reset KEY` are given it: the hash of a caller
 * whose key is that one value. An address is taken as one where the key has `ip` (or falls back to
 * it), else as text. False when the text cannot be a caller of this key: the alternatives of one
 * part are all of another class.
 */
bool identity_hash_text(const struct conf_key *key, struct slice text,
	const struct throttle_seed *seed, struct throttle_key *hash);

/*
 * The value of a key: what a plan's or a list's callers are looked up by. A slice of the request's
 * bytes, or of `scratch` for addresses and decoded query values. None when the alternative that
 * counts has several parts, and when a value longer than the scratch would need decoding.
 */
struct slice identity_text(const struct conf_key *key, struct identity_input *input,
	char scratch[static IDENTITY_TEXT_BYTES]);

/* 16 hex digits of a hash, for logs: those by which throttles distinguish callers (throttle.h), so
 * that a caller of a log line can be looked up and reset. The same as long as the state folder is.
 * Not NUL-terminated. */
#define IDENTITY_SHORT_BYTES 16
void identity_short(const struct throttle_key *hash, char out[static IDENTITY_SHORT_BYTES]);
/* The other way round: the key of that caller's throttles. False when the text is not 16 such
 * digits. */
bool identity_of_short(struct slice text, struct throttle_key *hash);

#endif
