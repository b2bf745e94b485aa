/*
 * The error of a node of a Redis Cluster when a call is not for it, or cannot be served now. In all
 * of these cases it has not done the call. Pure; private to the fleet.
 */
#ifndef STORE_REDIRECT_H
#define STORE_REDIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/redis_peer.h"

enum redirect_kind {
	REDIRECT_NONE,     /* another error */
	REDIRECT_MOVED,    /* another node has the slot: now, and from now on */
	REDIRECT_ASK,      /* another node has these keys: once, behind ASKING */
	REDIRECT_LATER,    /* TRYAGAIN: keys of one call are on two nodes while a slot moves */
	REDIRECT_UNSERVED, /* CLUSTERDOWN: no node has the slot */
	REDIRECT_DOWN,     /* CLUSTERDOWN: the cluster serves nothing at this node */
};

struct redirect {
	enum redirect_kind kind;
	uint16_t slot; /* of MOVED and ASK, as the next two */
	char host[REDIS_HOST_BYTES];
	uint16_t port;
};

/* Reads an error's text. A redirect without a host is to `host`, the node that said it. False: it
 * is none of them. */
bool redirect_read(struct redirect *redirect, const char *error, const char *host);

#endif
