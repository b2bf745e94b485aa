/*
 * The header of the PROXY protocol, versions 1 and 2, as a proxy writes it before all else on a
 * connection (HAProxy's doc/proxy-protocol.txt, sections 2.1 and 2.2):
 *
 *   v1: PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n
 *   v2: signature, version and command, family, length | addresses | type, length, value ...
 *
 * Pure: bytes in, facts out. Reading never looks beyond the header, and the result for a part of a
 * header is PROXY_HEADER_MORE at every cut.
 */
#ifndef NET_PROXY_HEADER_H
#define NET_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/slice.h"

#define PROXY_V1_BYTES 107 /* the longest line of version 1, CRLF included */
/* The longest header that is read: a client's certificate fits. */
#define PROXY_HEADER_BYTES 16384
/* The longest header that is written. */
#define PROXY_WRITTEN_BYTES 128

enum proxy_header_result {
	PROXY_HEADER_WHOLE, /* `len` bytes are the header */
	PROXY_HEADER_MORE,  /* so far it may be one */
	PROXY_HEADER_NONE,  /* these bytes begin no header */
	PROXY_HEADER_BAD,   /* they do, and it is malformed */
};

/* The subject of a header. */
enum proxy_subject {
	PROXY_OF_CLIENT,  /* `source` is the client's address */
	PROXY_OF_UNIX,    /* the client came to the proxy by a unix socket */
	PROXY_OF_UNKNOWN, /* the proxy does not tell the client's address */
	PROXY_OF_ITSELF,  /* the connection is the proxy's own, as for a health check (LOCAL) */
};

/* All slices point into the bytes that were read, and are empty where the header has no such. */
struct proxy_header {
	size_t len; /* of the header */
	enum proxy_subject subject;
	struct sockaddr_storage source; /* PROXY_OF_CLIENT */
	socklen_t source_len;
	struct slice authority; /* the name that the client asked for (SNI) */
	/* The client's connection to the proxy, by PP2_TYPE_SSL: */
	bool is_tls;
	bool is_verified;         /* the client presented a certificate, which the proxy verified */
	struct slice tls_version; /* `TLSv1.3` */
	struct slice common_name; /* of its certificate, if is_verified */
	struct slice certificate; /* DER, if is_verified */
};

/* Reads the header at the beginning of `bytes`. BAD: `*why` is a text for the log. With NONE and
 * MORE, `*is_begun` says whether the bytes can be nothing but a header. */
enum proxy_header_result proxy_header_read(
	struct slice bytes, struct proxy_header *header, bool *is_begun, const char **why);

enum proxy_version { PROXY_VERSION_NONE, PROXY_VERSION_1, PROXY_VERSION_2 };

/* An end of a connection: an address as IPv6 has it, IPv4 as ::ffff:a.b.c.d. */
struct proxy_end {
	uint8_t address[16];
	uint16_t port;
};

/* Writes a header of that version (not NONE) for a connection from `source` to `destination`, and
 * returns its length. NULL for either: of no known client, which version 1 calls UNKNOWN and
 * version 2, with `is_local`, LOCAL. */
size_t proxy_header_write(enum proxy_version version, bool is_local, const struct proxy_end *source,
	const struct proxy_end *destination, char out[static PROXY_WRITTEN_BYTES]);

/* CRC32C (RFC 3720 section B.4) of bytes behind those of `crc`; 0 at the beginning. */
uint32_t proxy_header_crc(uint32_t crc, const void *bytes, size_t len);

#endif
