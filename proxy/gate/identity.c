#include "gate/identity.h"

#include <endian.h>
#include <string.h>

#include "conf/credentials.h"
#include "gate/pairs.h"
#include "http/forwarded.h"

/* Forms of keys that may be mistaken for each other: part of the hash's domain. The numbers stay as
 * they are: the callers in a state folder are known by these hashes. */
enum identity_class {
	CLASS_ADDRESS = 1,
	CLASS_NETWORK,
	CLASS_TEXT, /* of a header, cookie or query */
	CLASS_HOST,
	CLASS_PATH,
	CLASS_METHOD,
	CLASS_ROUTE,
	CLASS_SCHEME, /* from here on: of two digits, see add_class */
	CLASS_TLS_VERSION,
	CLASS_TLS_NAME,
	CLASS_TLS_SUBJECT,
	CLASS_TLS_SAN,
	CLASS_TLS_FINGERPRINT,
	CLASS_ALL,
	CLASSES,
};

/* What a form of key is in a request; how it is written: key_forms, of conf/key.h. */
struct form {
	enum identity_class class;
	/* The bytes as they stand in the request; empty when there are none. `address` is where the
	 * bytes of a network go. */
	struct slice (*value)(const struct key_part *part, struct identity_input *input,
		uint8_t address[static 16]);
	bool is_address;
	bool names_client; /* tells one client from others behind the same address */
	bool has_percents; /* %XX counts as what it stands for */
	bool has_pluses;   /* and '+' as a blank */
};

static const struct form forms[KEY_PART_KINDS];

static enum identity_class class_of(enum key_part_kind kind)
{
	return forms[kind].class;
}

/* ---- values --------------------------------------------------------------------------------- */

static struct slice header_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	struct slice name = {part->name, part->name_len};
	struct slice value = http_head_find_only(input->head, name, &input->ambiguous);

	(void)address;
	input->ambiguous |= part->is_credentials && credentials_are_misspelled(value);
	return value;
}

static struct slice cookie_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	struct slice name = {part->name, part->name_len};

	(void)address;
	return pairs_cookie(input->head, name, &input->ambiguous);
}

static struct slice query_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	struct slice name = {part->name, part->name_len};

	(void)address;
	return pairs_parameter(input->query, name, &input->ambiguous);
}

/* Those that are a member of the input. */
#define MEMBER_VALUE(member)                                                                       \
	static struct slice member##_value(const struct key_part *part,                            \
		struct identity_input *input, uint8_t address[static 16])                          \
	{                                                                                          \
		(void)part;                                                                        \
		(void)address;                                                                     \
		return input->member;                                                              \
	}
MEMBER_VALUE(host)
MEMBER_VALUE(path)
MEMBER_VALUE(method)
MEMBER_VALUE(scheme)
MEMBER_VALUE(route)

static struct slice all_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	(void)part;
	(void)input;
	(void)address;
	return SLICE("all");
}

static struct slice tls_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	(void)address;
	return input->tls ? input->tls->facts[part->kind - KEY_TLS_VERSION] : SLICE_NONE;
}

static struct slice address_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	(void)part;
	(void)address;
	return (struct slice){(const char *)input->address, sizeof(input->address)};
}

static struct slice network_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	unsigned bits = part->prefix;

	if (memcmp(input->address, ipv4, sizeof(ipv4)) == 0)
		bits = bits > 32 ? 128 : bits + 96;
	memcpy(address, input->address, 16);
	for (unsigned i = bits / 8; i < 16; i++)
		address[i] &= (uint8_t)(i == bits / 8 ? 0xff00 >> bits % 8 : 0);
	return (struct slice){(const char *)address, 16};
}

static const struct form forms[KEY_PART_KINDS] = {
	[KEY_IP] = {CLASS_ADDRESS, address_value, .is_address = true},
	[KEY_IP_PREFIX] = {CLASS_NETWORK, network_value, .is_address = true},
	[KEY_HEADER] = {CLASS_TEXT, header_value, .names_client = true},
	[KEY_COOKIE] = {CLASS_TEXT, cookie_value, .names_client = true, .has_percents = true},
	[KEY_QUERY] = {CLASS_TEXT, query_value, .names_client = true, .has_percents = true,
		.has_pluses = true},
	[KEY_HOST] = {CLASS_HOST, host_value},
	[KEY_PATH] = {CLASS_PATH, path_value},
	[KEY_METHOD] = {CLASS_METHOD, method_value},
	[KEY_SCHEME] = {CLASS_SCHEME, scheme_value},
	[KEY_TLS_VERSION] = {CLASS_TLS_VERSION, tls_value},
	[KEY_TLS_NAME] = {CLASS_TLS_NAME, tls_value},
	[KEY_TLS_SUBJECT] = {CLASS_TLS_SUBJECT, tls_value, .names_client = true},
	[KEY_TLS_SAN] = {CLASS_TLS_SAN, tls_value, .names_client = true},
	[KEY_TLS_FINGERPRINT] = {CLASS_TLS_FINGERPRINT, tls_value, .names_client = true},
	[KEY_ROUTE] = {CLASS_ROUTE, route_value},
	[KEY_ALL] = {CLASS_ALL, all_value},
};

struct slice identity_value(
	const struct key_part *part, struct identity_input *input, uint8_t address[static 16])
{
	return forms[part->kind].value(part, input, address);
}

/* Decodes %XX, and in queries '+', into `out` until it is full; `raw` moves past what was decoded.
 * A bad sequence stands for itself. */
static size_t decode(const struct key_part *part, struct slice *raw, char *out, size_t capacity)
{
	size_t len = 0;

	while (raw->len > 0 && len < capacity) {
		size_t step = 1;
		char c = raw->at[0];
		if (c == '+' && forms[part->kind].has_pluses) {
			c = ' ';
		} else if (pairs_is_escape(*raw, &c)) {
			step = 3;
		}
		out[len++] = c;
		raw->at += step;
		raw->len -= step;
	}
	return len;
}

static bool needs_decoding(const struct key_part *part, struct slice value)
{
	const struct form *form = &forms[part->kind];

	if (!form->has_percents)
		return false;
	/* A long one is hashed in pieces, be there something to decode in it or not. */
	return value.len > IDENTITY_TEXT_BYTES || memchr(value.at, '%', value.len) ||
	       (form->has_pluses && memchr(value.at, '+', value.len));
}

bool identity_decode(
	const struct key_part *part, struct slice *value, char scratch[static IDENTITY_TEXT_BYTES])
{
	if (!needs_decoding(part, *value))
		return true;
	struct slice rest = *value;
	*value = (struct slice){scratch, decode(part, &rest, scratch, IDENTITY_TEXT_BYTES)};
	return rest.len == 0;
}

/* A field as it stands: what most keys are. */
static inline bool is_plain_field(const struct key_alternative *alternative)
{
	return alternative->part_count == 1 && alternative->parts[0].kind == KEY_HEADER &&
	       !alternative->parts[0].is_credentials;
}

/* ---- hashes --------------------------------------------------------------------------------- */

/* A scheme that is longer is taken for no scheme. */
#define SCHEME_BYTES 32

/* The scheme in its one form, and the rest as it stands. */
static void hash_credentials(struct throttle_hasher *hasher, struct slice value)
{
	size_t scheme_len, rest_at;
	char scheme[SCHEME_BYTES];

	if (!credentials_split(value, &scheme_len, &rest_at) || scheme_len >= SCHEME_BYTES) {
		throttle_hash_part(hasher, value.at, value.len);
		return;
	}
	credentials_write_scheme((struct slice){value.at, scheme_len}, scheme);
	throttle_hash_part(hasher, scheme, scheme_len);
	throttle_hash_part(hasher, value.at + rest_at, value.len - rest_at);
}

static void hash_part(
	struct throttle_hasher *hasher, const struct key_part *part, struct slice value)
{
	char decoded[IDENTITY_TEXT_BYTES];

	if (part->is_credentials) {
		hash_credentials(hasher, value);
		return;
	}
	if (!needs_decoding(part, value)) {
		throttle_hash_part(hasher, value.at, value.len);
		return;
	}
	size_t len = decode(part, &value, decoded, sizeof(decoded));
	throttle_hash_part(hasher, decoded, len);
	if (value.len == 0)
		return;
	/* Too long for one part: pieces, and their total length, so that bounds stay clear. */
	uint64_t total = len;
	while (value.len > 0) {
		len = decode(part, &value, decoded, sizeof(decoded));
		total += len;
		throttle_hash_part(hasher, decoded, len);
	}
	throttle_hash_part(hasher, &total, sizeof(total));
}

/* Parts of the usual keys; those of more are evaluated twice. */
#define PARTS_KEPT 4

struct values {
	struct slice items[PARTS_KEPT];
	uint8_t addresses[PARTS_KEPT][16];
};

static struct slice value_at(struct values *values, const struct key_alternative *alternative,
	struct identity_input *input, size_t i)
{
	size_t place = i < PARTS_KEPT ? i : PARTS_KEPT - 1;
	const struct key_part *part = &alternative->parts[i];

	values->items[place] = forms[part->kind].value(part, input, values->addresses[place]);
	return values->items[place];
}

/* Does every part have a value? */
static bool has_values(struct values *values, const struct key_alternative *alternative,
	struct identity_input *input)
{
	for (size_t i = 0; i < alternative->part_count; i++) {
		if (value_at(values, alternative, input, i).len == 0)
			return false;
	}
	return true;
}

/* Short keys of one part, which nearly all are: class and bytes in one string. */
#define SHORT_BYTES 95

static struct throttle_key hash_one(
	enum identity_class class, const void *bytes, size_t len, const struct throttle_seed *seed)
{
	struct throttle_hasher hasher;
	char joined[SHORT_BYTES + 1];

	if (len <= SHORT_BYTES) {
		joined[0] = (char)class;
		memcpy(joined + 1, bytes, len);
		return throttle_hash(seed, joined, len + 1);
	}
	throttle_hash_begin(&hasher, seed, class);
	throttle_hash_part(&hasher, bytes, len);
	return throttle_hash_end(&hasher);
}

static inline struct throttle_key hash_single(
	const struct key_part *part, struct slice value, const struct throttle_seed *seed)
{
	enum identity_class class = class_of(part->kind);
	struct throttle_hasher hasher;
	char decoded[IDENTITY_TEXT_BYTES];

	if (part->is_credentials) {
		throttle_hash_begin(&hasher, seed, class);
		hash_credentials(&hasher, value);
		return throttle_hash_end(&hasher);
	}
	if (!needs_decoding(part, value))
		return hash_one(class, value.at, value.len, seed);
	struct slice rest = value;
	size_t len = decode(part, &rest, decoded, sizeof(decoded));
	if (rest.len == 0)
		return hash_one(class, decoded, len, seed);
	throttle_hash_begin(&hasher, seed, class);
	hash_part(&hasher, part, value);
	return throttle_hash_end(&hasher);
}

/* The classes of a key's parts are digits of one number. The first seven are a digit each, none of
 * them 0; the others are such a digit and a 0 behind it. So no two sequences are the same, and the
 * joined keys of a state folder keep their hashes. */
#define CLASS_BITS 3
#define CLASS_ONE  (1 << CLASS_BITS) /* the first of two digits */
_Static_assert(CLASSES < 2 * CLASS_ONE, "a class is one or two digits of a joined key's domain");
_Static_assert(2 * CLASS_BITS * KEY_PARTS_MOST <= 64, "the domain has two digits for each part");

static uint64_t add_class(uint64_t domain, enum identity_class class)
{
	if (class < CLASS_ONE)
		return domain << CLASS_BITS | class;
	return (domain << CLASS_BITS | (class - CLASS_ONE + 1)) << CLASS_BITS;
}

static struct throttle_key hash_values(struct values *values,
	const struct key_alternative *alternative, struct identity_input *input,
	const struct throttle_seed *seed)
{
	struct throttle_hasher hasher;
	uint64_t domain = 0;

	if (alternative->part_count == 1)
		return hash_single(&alternative->parts[0], values->items[0], seed);
	for (size_t i = 0; i < alternative->part_count; i++)
		domain = add_class(domain, class_of(alternative->parts[i].kind));
	throttle_hash_begin(&hasher, seed, domain);
	for (size_t i = 0; i < alternative->part_count; i++) {
		struct slice value = alternative->part_count <= PARTS_KEPT
					     ? values->items[i]
					     : value_at(values, alternative, input, i);
		hash_part(&hasher, &alternative->parts[i], value);
	}
	return throttle_hash_end(&hasher);
}

bool identity_names_client(const struct key_alternative *alternative)
{
	if (is_plain_field(alternative))
		return true;
	for (size_t i = 0; i < alternative->part_count; i++) {
		if (forms[alternative->parts[i].kind].names_client)
			return true;
	}
	return false;
}

struct throttle_key identity_hash(
	const struct conf_key *key, struct identity_input *input, const struct throttle_seed *seed)
{
	const struct key_alternative *alternative;

	return identity_hash_by(key, input, seed, &alternative);
}

/* What most keys are, without the steps of the general way: a field as it stands. */
static inline struct slice find_plain_field(
	const struct conf_key *key, struct identity_input *input)
{
	if (key->alternative_count == 0 || !is_plain_field(&key->alternatives[0]))
		return SLICE_NONE;
	const struct key_part *part = key->alternatives[0].parts;
	return http_head_find_only(
		input->head, (struct slice){part->name, part->name_len}, &input->ambiguous);
}

/* The general way. */
static __attribute__((noinline)) struct throttle_key hash_any(const struct conf_key *key,
	struct identity_input *input, const struct throttle_seed *seed,
	const struct key_alternative **alternative)
{
	struct values values;

	for (size_t i = 0; i < key->alternative_count; i++) {
		if (has_values(&values, &key->alternatives[i], input)) {
			*alternative = &key->alternatives[i];
			return hash_values(&values, *alternative, input, seed);
		}
	}
	*alternative = NULL;
	return hash_one(CLASS_ADDRESS, input->address, sizeof(input->address), seed);
}

struct throttle_key identity_hash_by(const struct conf_key *key, struct identity_input *input,
	const struct throttle_seed *seed, const struct key_alternative **alternative)
{
	const struct slice value = find_plain_field(key, input);

	if (value.len == 0)
		return hash_any(key, input, seed, alternative);
	*alternative = &key->alternatives[0];
	return hash_one(CLASS_TEXT, value.at, value.len, seed);
}

struct throttle_key identity_hash_twice(const struct conf_key *key, struct identity_input *input,
	const struct throttle_seed *seed, const struct throttle_seed *other_seed,
	struct throttle_key *other, const struct key_alternative **alternative)
{
	const struct slice value = find_plain_field(key, input);
	char joined[SHORT_BYTES + 1];

	if (value.len == 0 || value.len > SHORT_BYTES) {
		*other = identity_hash_by(key, input, other_seed, alternative);
		return identity_hash_by(key, input, seed, alternative);
	}
	*alternative = &key->alternatives[0];
	joined[0] = CLASS_TEXT; /* as hash_one */
	memcpy(joined + 1, value.at, value.len);
	*other = throttle_hash(other_seed, joined, value.len + 1);
	return throttle_hash(seed, joined, value.len + 1);
}

bool identity_hash_text(const struct conf_key *key, struct slice text,
	const struct throttle_seed *seed, struct throttle_key *hash)
{
	struct identity_input input = {0};
	uint8_t network[16];

	if (forwarded_address_parse(text, input.address)) {
		const struct key_part *part = NULL;
		for (size_t i = 0; i < key->alternative_count; i++) {
			if (key->alternatives[i].part_count == 1 &&
				forms[key->alternatives[i].parts[0].kind].is_address)
				part = &key->alternatives[i].parts[0];
		}
		if (part && part->kind == KEY_IP_PREFIX) {
			struct slice value = network_value(part, &input, network);
			*hash = hash_one(CLASS_NETWORK, value.at, value.len, seed);
		} else {
			*hash = hash_one(CLASS_ADDRESS, input.address, 16, seed);
		}
		return true;
	}
	for (size_t i = 0; i < key->alternative_count; i++) {
		const struct key_alternative *alternative = &key->alternatives[i];
		if (alternative->part_count != 1 || forms[alternative->parts[0].kind].is_address)
			continue;
		*hash = alternative->parts[0].is_credentials
				? hash_single(&alternative->parts[0], text, seed)
				: hash_one(class_of(alternative->parts[0].kind), text.at, text.len,
					  seed);
		return true;
	}
	return false;
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct slice identity_text(const struct conf_key *key, struct identity_input *input,
	char scratch[static IDENTITY_TEXT_BYTES])
{
	const struct key_part *part = NULL;
	uint8_t address[16];
	struct values values;

	for (size_t i = 0; i < key->alternative_count && !part; i++) {
		if (!has_values(&values, &key->alternatives[i], input))
			continue;
		input->has_key = true;
		if (key->alternatives[i].part_count != 1)
			return SLICE_NONE;
		part = &key->alternatives[i].parts[0];
	}
	input->has_key = part != NULL;
	memcpy(address, input->address, sizeof(address));
	if (part && !forms[part->kind].is_address) {
		struct slice value = values.items[0];
		if (part->is_credentials && !credentials_are_canonical(value)) {
			if (value.len <= IDENTITY_TEXT_BYTES)
				return (struct slice){scratch, credentials_write(value, scratch)};
			input->ambiguous = true; /* too long to be looked up */
			return SLICE_NONE;
		}
		if (!needs_decoding(part, value))
			return value;
		size_t len = decode(part, &value, scratch, IDENTITY_TEXT_BYTES);
		return value.len > 0 ? SLICE_NONE : (struct slice){scratch, len};
	}
	if (part)
		memcpy(address, values.items[0].at, sizeof(address));
	return (struct slice){scratch, forwarded_address_text(address, scratch)};
}

/* The nibbles of 32 bits as hex digits, the highest first in memory. */
static void put_hex(uint32_t word, char out[static 8])
{
	uint64_t nibbles = word, digits;

	nibbles = (nibbles | nibbles << 16) & UINT64_C(0x0000ffff0000ffff);
	nibbles = (nibbles | nibbles << 8) & UINT64_C(0x00ff00ff00ff00ff);
	nibbles = (nibbles | nibbles << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	uint64_t letters =
		(nibbles + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
	digits = htobe64(nibbles + UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10));
	memcpy(out, &digits, sizeof(digits));
}

void identity_short(const struct throttle_key *hash, char out[static IDENTITY_SHORT_BYTES])
{
	put_hex((uint32_t)(hash->lo >> 32), out);
	put_hex((uint32_t)hash->lo, out + 8);
}

bool identity_of_short(struct slice text, struct throttle_key *hash)
{
	static const char digits[] = "0123456789abcdef";

	*hash = (struct throttle_key){0};
	for (size_t i = 0; i < text.len; i++) {
		const char *digit = memchr(digits, text.at[i], sizeof(digits) - 1);
		if (!digit)
			return false;
		hash->lo = hash->lo << 4 | (uint64_t)(digit - digits);
	}
	return text.len == IDENTITY_SHORT_BYTES;
}
