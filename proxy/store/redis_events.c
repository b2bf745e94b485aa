/*
 * hiredis asks to be told when its socket can be read or written. Its own adapter would ask the
 * kernel for each command that is sent; here a turn's commands are written at once, and the socket
 * is watched only while it takes no more.
 */
#include "store/redis_events.h"

#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/redis_peer.h"

struct watch {
	struct redisAsyncContext *redis;
	struct redis_bounds bounds; /* of its replies */
	struct event *read, *write;
	bool reads, writes; /* is watched for it */
	bool is_open;       /* the first writable event, which ends connecting, has come */
	bool flushing;
};

/* The peer learns why; a connection that is nobody's any more just ends. */
static void end(struct redisAsyncContext *redis, const char *why)
{
	struct redis_peer *peer = redis_peer_of(redis);

	if (peer)
		redis_peer_drop(peer, why);
	else
		redisAsyncFree(redis);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct watch *watch = arg;

	(void)fd;
	(void)what;
	if (redis_bounds_is_full(&watch->bounds))
		end(watch->redis, "a reply has too many bytes");
	else
		redisAsyncHandleRead(watch->redis);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct watch *watch = arg;

	(void)fd;
	(void)what;
	watch->is_open = true;
	watch->flushing = true;
	struct redisAsyncContext *redis = watch->redis;
	redisAsyncHandleWrite(redis);
}

static void add_read(void *arg)
{
	struct watch *watch = arg;

	if (!watch->reads) /* where it fails, the next call tries again */
		watch->reads = event_add(watch->read, NULL) == 0;
}

static void del_read(void *arg)
{
	struct watch *watch = arg;

	if (watch->reads)
		event_del(watch->read);
	watch->reads = false;
}

static void add_write(void *arg)
{
	struct watch *watch = arg;

	if (watch->is_open && !watch->flushing)
		return; /* redis_events_flush will */
	if (!watch->writes)
		watch->writes = event_add(watch->write, NULL) == 0;
}

static void del_write(void *arg)
{
	struct watch *watch = arg;

	if (watch->writes)
		event_del(watch->write);
	watch->writes = false;
	watch->flushing = false;
}

static void clean_up(void *arg)
{
	struct watch *watch = arg;

	redis_bounds_release(&watch->bounds);
	watch->redis->ev.data = NULL;
	event_free(watch->read);
	event_free(watch->write);
	free(watch);
}

bool redis_events_attach(struct redisAsyncContext *redis, struct event_base *base)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return false;
	watch->redis = redis;
	watch->read = event_new(base, redis->c.fd, EV_READ | EV_PERSIST, on_readable, watch);
	watch->write = event_new(base, redis->c.fd, EV_WRITE | EV_PERSIST, on_writable, watch);
	if (!watch->read || !watch->write) {
		if (watch->read)
			event_free(watch->read);
		free(watch);
		return false;
	}
	redis_bounds_hold(&watch->bounds, redis);
	redis->ev.data = watch;
	redis->ev.addRead = add_read;
	redis->ev.delRead = del_read;
	redis->ev.addWrite = add_write;
	redis->ev.delWrite = del_write;
	redis->ev.cleanup = clean_up;
	return true;
}

void redis_events_flush(struct redisAsyncContext *redis)
{
	struct watch *watch = redis->ev.data;

	if (!watch->is_open)
		return;
	watch->flushing = true;
	redisAsyncHandleWrite(redis);
}

/* ---- redis bounds --------------------------------------------------------------------------- */

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static const char not_a_message[] = "it sends an invalid message of a channel";

static struct redis_bounds *bounds_of(const redisReadTask *task)
{
	return task->privdata;
}

static bool refuse(struct redis_bounds *bounds, const char *why)
{
	bounds->refused = why;
	return false;
}

static bool is_subscribed(const struct redis_bounds *bounds)
{
	return (bounds->redis->c.flags & REDIS_SUBSCRIBED) != 0;
}

/* A new reply. */
static bool may_begin(struct redis_bounds *bounds, const redisReadTask *task)
{
	bool is_message = is_subscribed(bounds) && task->type == REDIS_REPLY_ARRAY;

	bounds->elements = 0;
	if (task->type == REDIS_REPLY_ERROR || bounds->redis->replies.head || is_message)
		return true;
	return refuse(bounds, "it sent an answer without a question");
}

/* An element of a message of a channel, or of what has the same form. */
static bool is_of_message(struct redis_bounds *bounds, const redisReadTask *task)
{
	bool is_text = task->type == REDIS_REPLY_STRING;

	if (task->type != REDIS_REPLY_ARRAY && (task->idx > 1 || is_text))
		return true;
	return refuse(bounds, not_a_message);
}

static bool may_make(const redisReadTask *task)
{
	struct redis_bounds *bounds = bounds_of(task);

	if (!task->parent)
		return may_begin(bounds, task);
	return !is_subscribed(bounds) || is_of_message(bounds, task);
}

/* ---- around hiredis's functions -------------------------------------------------------------- */

/* hiredis takes NULL for a lack of memory, and closes the connection. */
static void *make_string(const redisReadTask *task, char *text, size_t len)
{
	static const char end[] = "unsubscribe";
	struct redis_bounds *bounds = bounds_of(task);
	size_t end_len = sizeof(end) - 1;

	if (!may_make(task))
		return NULL;
	if (is_subscribed(bounds) && task->parent && task->idx == 0 && len >= end_len &&
		strncasecmp(text + len - end_len, end, end_len) == 0) {
		refuse(bounds, "it ends a subscription");
		return NULL;
	}
	return bounds->plain->createString(task, text, len);
}

static void *make_array(const redisReadTask *task, element_count count)
{
	struct redis_bounds *bounds = bounds_of(task);
	size_t elements = (size_t)count;

	if (!may_make(task))
		return NULL;
	if (is_subscribed(bounds) && elements != 2 && elements != 3) {
		refuse(bounds, not_a_message);
		return NULL;
	}
	if (elements > REDIS_ELEMENTS_MOST - bounds->elements) {
		refuse(bounds, "a reply has too many elements");
		return NULL;
	}
	bounds->elements += elements;
	return bounds->plain->createArray(task, count);
}

static void *make_integer(const redisReadTask *task, long long number)
{
	return may_make(task) ? bounds_of(task)->plain->createInteger(task, number) : NULL;
}

/* An array or a string that is nil, too, which the task then is. */
static void *make_nil(const redisReadTask *task)
{
	struct redis_bounds *bounds = bounds_of(task);

	if (!may_make(task))
		return NULL;
	if (is_subscribed(bounds) &&
		(task->parent ? task->idx <= 1 : !bounds->redis->replies.head)) {
		refuse(bounds, not_a_message);
		return NULL;
	}
	return bounds->plain->createNil(task);
}

#if HIREDIS_MAJOR >= 1
static void *make_double(const redisReadTask *task, double number, char *text, size_t len)
{
	return may_make(task) ? bounds_of(task)->plain->createDouble(task, number, text, len)
			      : NULL;
}

static void *make_bool(const redisReadTask *task, int value)
{
	return may_make(task) ? bounds_of(task)->plain->createBool(task, value) : NULL;
}
#endif

/* ---- what others call ------------------------------------------------------------------------ */

void redis_bounds_hold(struct redis_bounds *bounds, struct redisAsyncContext *redis)
{
	redisReader *reader = redis->c.reader;

	*bounds = (struct redis_bounds){.redis = redis, .plain = reader->fn, .own = *reader->fn};
	bounds->own.createString = make_string;
	bounds->own.createArray = make_array;
	bounds->own.createInteger = make_integer;
	bounds->own.createNil = make_nil;
#if HIREDIS_MAJOR >= 1
	bounds->own.createDouble = make_double;
	bounds->own.createBool = make_bool;
#endif
	reader->fn = &bounds->own;
	reader->privdata = bounds;
}

void redis_bounds_release(struct redis_bounds *bounds)
{
	struct redisContext *context = &bounds->redis->c;

	context->reader->fn = bounds->plain;
	if (bounds->refused)
		snprintf(context->errstr, sizeof(context->errstr), "%s", bounds->refused);
}

bool redis_bounds_is_full(const struct redis_bounds *bounds)
{
	const redisReader *reader = bounds->redis->c.reader;

	return reader->len - reader->pos > REDIS_BYTES_MOST;
}
