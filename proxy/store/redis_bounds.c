#include "store/redis_bounds.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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
