#include "loop/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static _Thread_local struct loop *current;

struct loop *loop_current(void)
{
	return current;
}

void loop_enter(struct loop *loop)
{
	current = loop;
}

uint64_t loop_read_clock(struct loop *loop)
{
	loop->now_ns = clock_monotonic_ns();
	loop->now_ms = loop->now_ns / CLOCK_NS_PER_MS;
	loop->now_known = true;
	return loop->now_ns;
}

/* ---- libevent's own words -------------------------------------------------------------------- */

static void on_said(int severity, const char *text)
{
	/* MSG: that a name server has failed, of each, with each try */
	static const enum log_level levels[] = {[EVENT_LOG_DEBUG] = LOG_LEVEL_DEBUG,
		[EVENT_LOG_MSG] = LOG_LEVEL_DEBUG,
		[EVENT_LOG_WARN] = LOG_LEVEL_WARN,
		[EVENT_LOG_ERR] = LOG_LEVEL_ERROR};

	if (log_enabled(levels[severity]))
		log_line(levels[severity], "libevent: %s", text);
}

void loop_log_libevent(void)
{
	event_set_log_callback(on_said);
}

/* ---- messages -------------------------------------------------------------------------------- */

void loop_wake(struct loop *loop)
{
	uint64_t one = 1;

	while (write(loop->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void message_post(struct loop *to, struct message *message)
{
	if (to == current) {
		message->next = to->ready;
		to->ready = message;
		return;
	}
	struct message *head = atomic_load_explicit(&to->inbox, memory_order_relaxed);
	do {
		message->next = head;
		/* release: pairs with the acquire in on_wake, so the message is seen whole */
	} while (!atomic_compare_exchange_weak_explicit(
		&to->inbox, &head, message, memory_order_release, memory_order_relaxed));
	if (!head)
		loop_wake(to); /* the others found it not empty: its first message woke the loop */
}

/* A list, newest first, becomes oldest first. */
static struct message *reverse(struct message *newest)
{
	struct message *oldest = NULL;

	while (newest) {
		struct message *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

static void run_messages(struct message *newest)
{
	struct message *message = reverse(newest);

	while (message) {
		struct message *next = message->next;
		message->run(message);
		message = next;
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	uint64_t count;

	(void)what;
	/* Emptied before the inbox is read: a message that comes later wakes the loop again. */
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	/* acquire: pairs with the release in message_post */
	run_messages(atomic_exchange_explicit(&loop->inbox, NULL, memory_order_acquire));
}

/* ---- turns ----------------------------------------------------------------------------------- */

void loop_add_stage(struct loop *loop, enum loop_phase phase, struct loop_stage *stage)
{
	struct loop_stage **at = &loop->stages[phase];

	while (*at)
		at = &(*at)->next;
	stage->next = NULL;
	*at = stage;
}

static bool run_stages(struct loop_stage *stage)
{
	bool worked = false;

	for (; stage; stage = stage->next)
		worked |= stage->run(stage);
	return worked;
}

static bool run_round(struct loop *loop)
{
	bool worked = run_stages(loop->stages[LOOP_READ]);
	struct message *ready = loop->ready;

	if (ready) {
		loop->ready = NULL;
		run_messages(ready);
	}
	return run_stages(loop->stages[LOOP_WRITE]) || worked || ready;
}

static void free_deferred(struct loop *loop)
{
	while (loop->deferred) {
		struct deferred_free *item = loop->deferred;
		loop->deferred = item->next;
		item->free(item);
	}
}

void loop_finish_turn(struct loop *loop)
{
	while (run_round(loop))
		;
	free_deferred(loop);
}

int loop_run_turn(struct loop *loop)
{
	/* A message posted between two turns is an event, too. */
	bool waits = !loop->ready && !loop->hurries;

	loop->now_known = loop->hurries = false;
	loop->turn++;
	/* ONCE in either case: NONBLOCK alone runs events as long as there are any, while the
	 * turn's time stands still: slow timers that set themselves again would never end it. */
	if (event_base_loop(loop->base, EVLOOP_ONCE | (waits ? 0 : EVLOOP_NONBLOCK)) < 0)
		return errno ? errno : EINVAL;
	loop_finish_turn(loop);
	return 0;
}

void loop_free_later(struct loop *loop, struct deferred_free *item,
	void (*free_item)(struct deferred_free *item))
{
	item->free = free_item;
	item->next = loop->deferred;
	loop->deferred = item;
}

/* ---- life ------------------------------------------------------------------------------------ */

int loop_init(struct loop *loop)
{
	memset(loop, 0, sizeof(*loop));
	loop->base = event_base_new();
	if (!loop->base)
		return ENOMEM;
	loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int error = loop->wake_fd < 0 ? errno : ENOMEM;
	if (loop->wake_fd >= 0)
		loop->wake_event =
			event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	if (loop->wake_event && event_add(loop->wake_event, NULL) == 0)
		return 0;
	loop_end(loop);
	return error;
}

void loop_finish_callbacks(struct loop *loop)
{
	if (!loop->base)
		return;
	event_del(loop->wake_event);
	event_base_loop(loop->base, EVLOOP_NONBLOCK);
}

void loop_end(struct loop *loop)
{
	if (!loop->base)
		return;
	free_deferred(loop);
	if (loop->wake_event)
		event_free(loop->wake_event);
	event_base_free(loop->base);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	*loop = (struct loop){0};
}
