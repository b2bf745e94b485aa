/*
 * Requests from other nodes of the fleet, of sessions that this one owns, at the internal listener
 * ([fleet] bind).
 *
 *   connection --hello, proof--> proven --request, with its field-->
 *
 *   Sluice-Hop: 1 LISTENER PEER INSTANCE MARK FENCE [WAITED] [tls VERSION SNI SUBJECT SAN
 * FINGERPRINT]
 *
 * A connection that has not proven that it has the secret gets nothing but the greeting
 * (upstream/greeting.h is the other side), nor does one that has proven it by a secret that a
 * reload has replaced. A request goes on as if its client had connected to the
 * listener of that name here, from the address PEER. FENCE names the ownership that it is for:
 * under another one it could come behind what has gone since. WAITED is the part of queue_timeout
 * that has passed at the other node, in milliseconds. It is never forwarded to a third
 * node: one that is not served here is answered 421 with a Sluice-Hop field that says why, and has
 * gone nowhere.
 */
#ifndef EXCHANGE_HOP_H
#define EXCHANGE_HOP_H

#include "base/hop_proof.h"
#include "conf/conf.h"
#include "exchange/client.h"
#include "http/forwarded.h"
#include "http/field_sink.h"
#include "listen/idle_list.h"
#include "net/tls_facts.h"

struct exchange;

enum hop_state { HOP_NEW, HOP_CHALLENGED, HOP_PROVEN };

#define HOP_CLIENT_BYTES 128

/* Longest silence of a peer that has not proven to be a node, which sends its hello at once. */
#define HOP_SILENCE_MS 10000

/* Unproven peers that a worker keeps; for one more, the oldest of them is closed. */
#define HOP_UNPROVEN_MOST 2048

/* A connection's. */
struct hop {
	enum hop_state state;
	struct idle_link unproven; /* among its listener's that have proven nothing */
	struct client *asker;      /* its own, while it is among them */
	char theirs[HOP_NONCE_BYTES], ours[HOP_NONCE_BYTES];
	char proof[HOP_PROOF_BYTES]; /* PROVEN: what proved it, */
	size_t proof_len;
	uint64_t proven_to;         /* and the site, by its serial, whose secret that was last */
	struct forwarded_peer peer; /* of the request under way */
	const struct conf_listener *listener; /* of its site */
	/* `LISTENER PEER INSTANCE` of the request before: mostly of this one, too. Then peer,
	 * instance and what was composed for them (forwarding.h) stay. */
	struct {
		char text[HOP_CLIENT_BYTES];
		uint8_t len;   /* 0: none, or too long */
		uint64_t site; /* serial */
		const struct conf_listener *listener;
	} client;
	uint64_t instance, mark, fence, waited_ms;
	struct tls_identity identity;      /* of the client, if it has come by TLS; */
	char *texts;                       /* else NULL */
	char field[HOP_PROOF_BYTES + 128]; /* Sluice-Hop of an answer of our own; "": none */
};

/* A connection to the internal listener is there. Its list has HOP_UNPROVEN_MOST of them at most:
 * the oldest beyond that is returned, which is the caller's to close; NULL: none. Without memory it
 * is in no list. */
struct client *hop_open(struct client *client, uint64_t now_ms);
/* It ends; frees client->hop. Of any connection. */
void hop_close(struct client *client);

/* Has it come to the internal listener, and not proven that it is a node? */
static inline bool hop_is_unproven(const struct client *client)
{
	return client->hop && client->hop->state != HOP_PROVEN;
}

/* Is it another node's, which has proven that it is one? */
static inline bool hop_is_proven(const struct client *client)
{
	return client->hop && client->hop->state == HOP_PROVEN;
}

/* The TLS identity of the request's client at the other node; NULL: none. */
static inline const struct tls_identity *hop_identity(const struct hop *hop)
{
	return hop->texts ? &hop->identity : NULL;
}

/* A request has come to the internal listener. False: it was answered. */
bool hop_begin(struct exchange *exchange);

/* The request under way has ended. */
static inline void hop_end(struct hop *hop)
{
	hop->listener = NULL; /* of a site that may go */
	hop->field[0] = '\0';
}

/* It is not served here: `why` goes into the answer's Sluice-Hop. */
void hop_refuse(struct exchange *exchange, const char *why);

/* Is it a request that another node has forwarded? */
static inline bool hop_is_from_node(const struct client *client)
{
	return client && client->hop;
}

/* The listener that its client has connected to, here or at another node. */
const struct conf_listener *client_listener(const struct client *client);

/* The request's Sluice-Hop, from the node that forwards it. */
void hop_put(struct field_sink *sink, const struct exchange *exchange);

#endif
