/* A command's own connection to the store's locks: the fleet's, on a loop of the command's thread.
 */
#ifndef CLI_LOCK_LOCK_STORE_H
#define CLI_LOCK_LOCK_STORE_H

#include <stdbool.h>

#include "conf/conf.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "store/locks.h"
#include "store/store_link.h"

/* Locks of commands are remembered for twice so long. */
#define LOCK_STORE_KEEP_MS (UINT64_C(24) * 60 * 60 * 1000)

struct lock_store {
	const char *command; /* for messages */
	const struct conf *conf;
	struct loop loop;
	struct stream_loop streams;
	struct store_link link;
	struct locks locks;
	struct loop_stage stage;
	bool is_refused; /* the store does not let us in, or do what is asked: why is on stderr */
	void (*changed)(struct lock_store *store); /* it is ready, or away; may be NULL */
};

/* Begins to connect to the store of [fleet]. `silence_ms`: the store may leave a call unanswered
 * for so long. False, with a message: there is no store in the file, or no memory. */
bool lock_store_open(struct lock_store *store, const char *command, const struct conf *conf,
	uint64_t silence_ms);
/* Pending questions are answered LOCK_UNKNOWN, or not at all. */
void lock_store_close(struct lock_store *store);

/* A turn of the loop. False: it has failed, with a message. */
bool lock_store_turn(struct lock_store *store);

/* Of an answer LOCK_UNKNOWN: has the store refused it, as a user who may not call the function?
 * Sets is_refused, with a message. */
bool lock_store_look_refused(struct lock_store *store);

/* The front of a message about the store: `FILE:LINE: [fleet] store: URL: `, on stderr. */
void lock_store_print_front(const struct lock_store *store);

#endif
