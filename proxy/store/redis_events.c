/*
 * hiredis asks to be told when its socket can be read or written. Its own adapter would ask the
 * kernel for each command that is sent; here a turn's commands are written at once, and the socket
 * is watched only while it takes no more.
 */
#include "store/redis_events.h"

#include <hiredis/async.h>
#include <stdlib.h>

#include "store/redis_bounds.h"
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
