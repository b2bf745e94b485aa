/*
 * [listener NAME]: where clients connect, and the bounds on what they send. Of a snapshot (conf.h).
 */
#ifndef CONF_LISTENER_H
#define CONF_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/limit.h"
#include "conf/terms.h"

/* As many as descriptors allow; with several listeners, a tenth is left to the others. */
#define CONF_CONNECTIONS_AUTO UINT32_MAX

enum conf_proxy_protocol {
	CONF_PROXY_PROTOCOL_OFF,
	CONF_PROXY_PROTOCOL_ON,
	CONF_PROXY_PROTOCOL_REQUIRED
};

enum conf_verify { CONF_VERIFY_NONE, CONF_VERIFY_OPTIONAL, CONF_VERIFY_REQUIRED };

/* TLS of a listener; it has any if there is a certificate. */
struct conf_listener_tls {
	struct conf_text_list certificates;     /* PEM files; none: no TLS */
	struct conf_text_list certificate_keys; /* as many, or none: in the same files */
	const char *client_ca;                  /* PEM; NULL: clients need no certificate */
	const char *client_crl;                 /* PEM; NULL: none is revoked */
	enum conf_verify verify;                /* required */
	uint64_t versions;                      /* bits of enum conf_tls_version; 1.2 and 1.3 */
	struct conf_secret password;            /* of encrypted keys */
	bool refuses_unknown_names;             /* unknown_names = refuse, first */
	const char *groups;  /* OpenSSL's names, with colons; NULL: the default */
	const char *ciphers; /* OpenSSL's names, with colons; NULL: the default */
};

struct conf_listener {
	const char *name;
	unsigned line;
	struct conf_address
		*binds; /* bind = 0.0.0.0:8080, [::]:8080, unix:/path, systemd:NAME; repeatable */
	size_t bind_count;
	struct conf_cidrs trusted_proxies;
	enum conf_proxy_protocol proxy_protocol; /* headers from those, off */
	bool trust_priority;                     /* RFC 9218 urgency from clients */
	bool v6only;                             /* default on */
	uint32_t backlog;                        /* 1024 */
	uint32_t max_connections;   /* over all workers; 0: no bound; CONF_CONNECTIONS_AUTO */
	struct conf_limits limits;  /* of connections, judged when one comes */
	uint64_t protocols;         /* bits of enum conf_protocol; http/1.1 */
	uint32_t max_streams;       /* of HTTP/2: of one connection at once, 100 */
	uint32_t pipeline_depth;    /* requests of one connection on their way at once, 16 */
	uint64_t header_timeout_ms; /* from the first byte of a request to the end of its head, 10s
				     */
	uint64_t idle_timeout_ms;   /* keep-alive: between requests, 75s */
	uint64_t body_timeout_ms;   /* between two reads of a request body, 60s */
	uint64_t send_timeout_ms;   /* between two writes to a client that does not read, 60s */
	uint64_t linger_timeout_ms; /* reading on behind the last response, 30s */
	uint64_t linger_bytes;      /* the same in bytes, linger_size, 1G */
	uint32_t max_lingering;     /* connections that do so, over all workers, 1000 */
	uint32_t max_header_bytes;  /* max_header_size: 431 beyond, 16k */
	uint32_t max_uri_bytes;     /* max_uri_size: 414 beyond, 8k */
	uint32_t max_fields;        /* max_headers: field lines in a head, 431 beyond, 100 */
	struct conf_fields response_set; /* of all responses, also of those of sluice itself */
	struct conf_fields hsts;         /* Strict-Transport-Security; none: off */
	struct conf_fields all_set;      /* these and those, made of them */
	struct conf_text_list response_remove;
	bool health;                /* /healthz and /readyz are answered, off */
	bool passes_lookalikes;     /* lookalike_fields = pass; else dropped */
	const char *acme_challenge; /* a folder; NULL: off */
	uint16_t redirect_port;     /* redirect = https or https:PORT, 443; 0: off */
	enum conf_ratelimit_headers ratelimit_headers;
	bool is_internal; /* [fleet] bind: for other nodes */
	struct conf_listener_tls tls;
	uint64_t handshake_timeout_ms; /* from the acceptance to the handshake's end, 10s */
	uint32_t max_handshakes;       /* at once, over all workers, 1000 */
};

#endif
