/*
 * Key expressions: whom a limit is charged to, or whose requests stay in order.
 *
 *   header:X-Api-Key + path | cookie:sid | ip
 *   `-------- alternative ------'
 *
 * `+` joins parts. `|` separates alternatives: the next one is used when a part of the one before
 * is absent or empty. When no alternative has a value, the caller is its ip.
 *
 * This is the parsed form; gate/ evaluates it against a request.
 */
#ifndef CONF_KEY_H
#define CONF_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key has at most so many alternatives, each of at most so many parts. */
#define KEY_ALTERNATIVES_MOST 8
#define KEY_PARTS_MOST        8

enum key_part_kind {
	KEY_IP,
	KEY_IP_PREFIX, /* ip/64: the address cut to `prefix` bits; IPv4 callers under a prefix over
			  32 stay whole */
	KEY_HEADER,
	KEY_COOKIE,
	KEY_QUERY,
	KEY_HOST,
	KEY_PATH,
	KEY_METHOD,
	KEY_SCHEME,
	KEY_TLS_VERSION, /* from here on of struct tls_identity, in its order */
	KEY_TLS_NAME,
	KEY_TLS_SUBJECT,
	KEY_TLS_SAN,
	KEY_TLS_FINGERPRINT,
	KEY_ROUTE,
	KEY_ALL, /* one caller for all requests; joined with nothing */
	KEY_PART_KINDS,
};

enum key_argument {
	KEY_PLAIN,  /* `path` */
	KEY_NAMED,  /* `header:NAME` */
	KEY_PREFIX, /* `ip/BITS` */
};

/* How each kind is written. The kind of its value in a request: the table in gate/identity.c. */
struct key_form {
	const char *word;
	enum key_argument argument;
};
extern const struct key_form key_forms[KEY_PART_KINDS];

struct key_part {
	enum key_part_kind kind;
	uint8_t prefix;   /* KEY_IP_PREFIX */
	const char *name; /* KEY_HEADER (lower case), KEY_COOKIE, KEY_QUERY */
	size_t name_len;
	bool is_credentials; /* a field with a scheme, in its one form: conf/credentials.h */
};

struct key_alternative {
	struct key_part *parts;
	size_t part_count;
};

struct conf_key {
	const char *text; /* as written */
	struct key_alternative *alternatives;
	size_t alternative_count;
};

#endif
