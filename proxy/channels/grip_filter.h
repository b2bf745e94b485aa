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
#ifndef CHANNELS_GRIP_FILTER_H
#define CHANNELS_GRIP_FILTER_H

#include <stdbool.h>

#include "base/slice.h"

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
