/*
 * The types that several sections share: addresses, networks, lists, fields, secrets. All is the
 * snapshot's (conf.h).
 */
#ifndef CONF_TERMS_H
#define CONF_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Versions of HTTP; a listener has several, as bits. */
enum conf_protocol { CONF_PROTOCOL_HTTP1 = 1, CONF_PROTOCOL_HTTP2 = 2 };

/* A network or address: `prefix` bits of `address` (16 bytes; IPv4 as ::ffff:a.b.c.d, prefix + 96).
 */
struct conf_cidr {
	uint8_t address[16];
	uint8_t prefix;
};

struct conf_cidrs {
	struct conf_cidr *items;
	size_t count;
};

/* Where to listen or connect. `host` is a name when it is not a literal address. Only a `bind` can
 * be systemd:NAME, a socket that systemd opened and passes by that name. */
enum conf_address_kind {
	CONF_ADDRESS_INET,
	CONF_ADDRESS_NAME,
	CONF_ADDRESS_UNIX,
	CONF_ADDRESS_SYSTEMD
};
struct conf_address {
	enum conf_address_kind kind;
	unsigned line;
	const char *text; /* as written */
	const char *host; /* address, name, unix path, or systemd's name */
	uint16_t port;
	struct sockaddr_storage socket; /* INET and UNIX */
	socklen_t socket_len;
};

struct conf_text_list {
	const char **items;
	size_t count;
};

/* A field to set: `Name: value`. */
struct conf_field {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

struct conf_fields {
	struct conf_field *items;
	size_t count;
};

/* A regular expression, compiled twice: pcre2_code, anchored at neither end. */
struct conf_regex {
	void *code;
	void *counted; /* the same with a callout at each step */
};

enum conf_ratelimit_headers {
	CONF_RATELIMIT_DRAFT_11,
	CONF_RATELIMIT_DRAFT_7,
	CONF_RATELIMIT_X,      /* X-RateLimit-Reset in seconds from now */
	CONF_RATELIMIT_X_UNIX, /* the same as a unix time */
	CONF_RATELIMIT_OFF,
	CONF_RATELIMIT_INHERIT, /* on a route: the listener's value */
};

/* Bytes that are never shown. */
struct conf_secret {
	const char *at; /* NULL: there is none */
	size_t len;
};

enum conf_tls_version { CONF_TLS_1_2 = 1, CONF_TLS_1_3 = 2 };

/* TLS towards a server of any kind. */
struct conf_tls {
	bool is_on;       /* for servers that do not say it, off */
	const char *ca;   /* NULL: the system's authorities */
	const char *crl;  /* NULL: no revocation */
	const char *name; /* in SNI and in the certificate; NULL: the host of the address */
	const char *certificate, *key; /* NULL: none; `key` NULL: in the certificate's file */
	bool verifies;                 /* on */
	uint64_t versions;             /* bits of enum conf_tls_version; 1.2 and 1.3 */
};

#endif
