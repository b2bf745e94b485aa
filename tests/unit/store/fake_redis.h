/*
 * A connection to Redis without sockets: what a unit sends is kept, and a test answers it. It takes
 * the place of hiredis's commands and of redis_peer.c (by --wrap: Makefile.inc).
 *
 *   redis_peer_open --> fake.peer --fake_connect--> calls->enter --> fake.commands
 *   fake_answer: to the oldest command      fake_report: to the last one once more
 */
#ifndef TESTS_UNIT_FLEET_FAKE_REDIS_H
#define TESTS_UNIT_FLEET_FAKE_REDIS_H

#include <hiredis/async.h>

#include "store/redis_peer.h"

#define FAKE_COMMANDS 128

struct fake_command {
	redisCallbackFn *answered;
	void *arg;
	char text[160]; /* its beginning */
};

struct fake_redis {
	redisAsyncContext context;
	struct redis_peer *peer; /* the one that was opened last */
	struct fake_command commands[FAKE_COMMANDS];
	unsigned count, answered;
	unsigned opened, entered, flushed, ended;
	bool is_full; /* takes no command */
};

extern struct fake_redis fake;

/* Forgets all. */
void fake_begin(void);
/* The peer that was opened is connected. */
void fake_connect(void);
/* Answers the oldest command that waits. */
void fake_answer(redisReply *reply);
/* Calls the last command's function, as for a message of a channel. */
void fake_report(redisReply *reply);
/* The text of the n-th command that waits; "": there is none. */
const char *fake_waiting(unsigned n);

/* Replies, which stay until fake_begin. */
redisReply *reply_text(const char *text);
redisReply *reply_bytes(const char *bytes, size_t len);
redisReply *reply_status(const char *text);
redisReply *reply_error(const char *text);
redisReply *reply_number(long long number);
redisReply *reply_nil(void);
redisReply *reply_array(size_t count, ...); /* of redisReply * */

#endif
