/*
 * One control message of GRIP (Generic Realtime Intermediary Protocol), as a backend of gateway
 * sends it beside messages for the client:
 *
 *   c:{"type": "subscribe", "channel": "room"}
 *
 * The prefix is not part of what is parsed here.
 */
#ifndef CHANNELS_GRIP_CONTROL_H
#define CHANNELS_GRIP_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "frames/frames.h"

/* A channel's name has at most so many bytes, and at least one. */
#define GRIP_CHANNEL_BYTES 1024

/* A keep-alive message's content has at most so many. */
#define GRIP_KEEP_ALIVE_BYTES 1024

/* The name of a value that is set. */
#define GRIP_META_NAME_BYTES 256

#define GRIP_KEEP_ALIVE_DEFAULT_S 55
#define GRIP_KEEP_ALIVE_MAX_S     86400

enum grip_control_type {
	GRIP_SUBSCRIBE,   /* to `name` */
	GRIP_UNSUBSCRIBE, /* from it */
	GRIP_DETACH,      /* the backend wants nothing more of the client */
	GRIP_KEEP_ALIVE,  /* what the client is sent now and then; without content: no more */
	GRIP_SET_META,    /* a value of the socket's, for filters; empty: none any more */
};

struct grip_control {
	enum grip_control_type type;
	/* SUBSCRIBE, UNSUBSCRIBE: the channel; KEEP_ALIVE: the content; SET_META: the value */
	size_t bytes;
	char text[GRIP_CHANNEL_BYTES];
	unsigned filters; /* SUBSCRIBE: see grip_control.h */
	/* SET_META */
	size_t name_bytes;
	char name[GRIP_META_NAME_BYTES];
	/* KEEP_ALIVE */
	bool has_content;
	uint8_t opcode; /* of the frame with it: FRAME_TEXT, FRAME_BINARY, FRAME_PING, FRAME_PONG */
	bool is_interval;   /* at all events; else only when nothing else was sent meanwhile */
	uint32_t timeout_s; /* at least 1 */
};

_Static_assert(GRIP_KEEP_ALIVE_BYTES <= GRIP_CHANNEL_BYTES, "both are in `text`");

/* Parses `json`. NULL, or a constant text with the error and the expected value; `*control` is
 * undefined then. Members that are not known are ignored, as is prev-id. */
const char *grip_control_parse(struct slice json, struct grip_control *control);

/* The text of a member. `text->at` is NULL where there is none, or null. False: it is something
 * else. */
bool grip_find_text(const json_t *object, const char *name, struct slice *text);

/* The kind of frame that a member names; unchanged where there is none. False: it names no kind. */
bool grip_find_type(const json_t *object, const char *name, uint8_t *opcode);

/* May a channel have this name? It is UTF-8 with 1 to GRIP_CHANNEL_BYTES bytes. */
bool grip_channel_is_valid(struct slice name);

/* ---- grip filter ---------------------------------------------------------------------------- */

/*
 * GRIP's filters: a subscription may name some, by which its socket does not get all that is
 * published to the channel (Pushpin, "Message Filters").
 *
 *   skip-self     not what meta `sender` of the publication says that the socket's user has sent
 *   skip-users    not what meta `skip_users`, a list with commas, excludes its user from
 *   require-sub   only where the socket is subscribed to meta `require_sub`, too
 *
 * A socket's user is its value `user`, by the control message `set-meta`.
 */

enum grip_filter { GRIP_SKIP_SELF = 1, GRIP_SKIP_USERS = 2, GRIP_REQUIRE_SUB = 4 };

#define GRIP_FILTER_NAMES "skip-self, skip-users or require-sub"

/* The filter of this name, or 0. */
unsigned grip_filter_find(struct slice name);

/* What a publication says for filters; empty texts: nothing. */
struct grip_meta {
	struct slice sender, skip_users, require_sub;
};

/* Bytes of each. */
#define GRIP_META_BYTES 65536

static inline bool grip_meta_is_empty(const struct grip_meta *meta)
{
	return meta->sender.len == 0 && meta->skip_users.len == 0 && meta->require_sub.len == 0;
}

/* Do these filters keep it from this user? But for require-sub. */
bool grip_filter_skips(unsigned filters, const struct grip_meta *meta, struct slice user);

#endif
