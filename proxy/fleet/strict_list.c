#include "fleet/strict_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/container.h"
#include "store/integers.h"
#include "fleet/ladder.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker_clock.h"

enum {
	SILENCE_MS = 1000, /* without an answer the store is looked for again */
	SOON_MS = 20,
	WORDS = 7, /* of a request */
	COMMAND_BYTES = sizeof(((struct strict_list *)0)->command),
};

static const struct conf_fleet *conf_of(const struct strict_list *list)
{
	return &site_part(list->worker)->use->site->conf->fleet;
}

static void set_timer(struct strict_list *list, uint64_t wait_ms)
{
	uint64_t now_ms = worker_now_ms(list->worker);

	deadline_clear(&list->timer);
	deadline_set(&list->timer, now_ms + wait_ms, now_ms);
}

/* ---- the call -------------------------------------------------------------------------------- */

static size_t put_request(struct strict_list *list, uint8_t *out, bool leaves)
{
	const struct conf_fleet *conf = conf_of(list);
	struct strict_view view = strict_look(list->strict);
	/* A worker that had looked at the share before the answer may have used it since. */
	bool owes = !debts_is_clear(list->debts);
	const uint64_t words[WORDS] = {
		++list->number,
		leaves ? 0 : conf->membership_lease_ms * 1000,
		conf->lost_share_ms * 1000,
		conf->nodes,
		strict_held(&view, conf->lost_share_ms, worker_throttle_ns(list->worker)),
		owes ? 0 : list->echo_us,
		list->since_us,
	};
	size_t len = integers_head(out, WORDS);

	for (int i = 0; i < WORDS; i++)
		len += integers_put(out + len, words[i]);
	return len;
}

static bool compose(struct strict_list *list, struct store_call *call, char *command, bool leaves)
{
	uint8_t request[INTEGERS_HEAD_BYTES + WORDS * INTEGERS_MOST_BYTES];
	size_t prefix_len = strlen(list->prefix), request_len = put_request(list, request, leaves);
	char process[24];
	int digits = snprintf(process, sizeof(process), "%llu", (unsigned long long)list->process);

	if (prefix_len > 128)
		return false;
	int head = snprintf(command, COMMAND_BYTES,
		"*6\r\n$5\r\nFCALL\r\n$15\r\nsluice_strict_1\r\n$1\r\n1\r\n$%zu\r\n%s{strict}\r\n"
		"$%d\r\n%s\r\n$%zu\r\n",
		prefix_len + strlen("{strict}"), list->prefix, digits, process, request_len);
	memcpy(command + head, request, request_len);
	memcpy(command + head + request_len, "\r\n", 2);
	call->command = command;
	call->len = (size_t)head + request_len + 2;
	call->is_again = call->is_lone = false;
	return true;
}

/* One call at a time, so that they are answered in the order of their numbers. */
static void ask(struct strict_list *list)
{
	uint64_t patience_ms = 2 * conf_of(list)->store_timeout_ms;

	if (list->asked_ns != 0)
		return;
	list->asked_ns = worker_throttle_ns(list->worker);
	list->is_in = compose(list, &list->call, list->command, false) &&
		      store_link_send(list->store, &list->call);
	if (!list->is_in)
		list->asked_ns = 0;
	set_timer(list, !list->is_in               ? SOON_MS
			: patience_ms > SILENCE_MS ? patience_ms
						   : SILENCE_MS);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void adopt(struct strict_list *list, struct integers *numbers)
{
	uint64_t now_us = (uint64_t)integers_next(numbers);
	uint64_t since_us = (uint64_t)integers_next(numbers);
	struct strict_view view = {
		.asked_ns = list->asked_ns,
		.answered_ns = worker_throttle_ns(list->worker),
	};

	view.divisor = (uint64_t)integers_next(numbers);
	view.lost = (uint64_t)integers_next(numbers);
	if (numbers->wrong || view.lost > STRICT_PARTS)
		return;
	view.ahead_ns = view.answered_ns - worker_now_ms(list->worker) * CLOCK_NS_PER_MS;
	strict_set(list->strict, &view);
	/* The share is not used from here on: when nothing of it is owed, the node is live. */
	if (list->since_us != since_us)
		list->echo_us = 0;
	list->since_us = since_us;
	if (debts_is_clear(list->debts))
		list->echo_us = now_us;
}

static void on_answer(struct store_call *call, const char *bytes, size_t len)
{
	struct strict_list *list = CONTAINER_OF(call, struct strict_list, call);
	uint64_t age_ms = 0, pause_ms = conf_of(list)->membership_lease_ms / 3;
	struct integers numbers;

	if (bytes && list->is_in) {
		integers_begin(&numbers, bytes, len);
		adopt(list, &numbers);
		age_ms = (worker_throttle_ns(list->worker) - list->asked_ns) / CLOCK_NS_PER_MS;
	}
	list->asked_ns = 0;
	deadline_clear(&list->timer);
	if (list->store->state == STORE_READY && list->is_needed)
		set_timer(list,
			list->is_in && age_ms + SOON_MS < pause_ms ? pause_ms - age_ms : SOON_MS);
}

static void on_left(struct store_call *call, const char *bytes, size_t len)
{
	(void)call;
	(void)bytes;
	(void)len;
}

static void on_timer(struct deadline *deadline)
{
	struct strict_list *list = CONTAINER_OF(deadline, struct strict_list, timer);

	if (list->store->state != STORE_READY)
		return; /* strict_list_begin, when it is again */
	if (list->asked_ns != 0)
		store_link_drop_silent(list->store, list->call.sent_ms);
	else
		ask(list);
}

/* ---- its life -------------------------------------------------------------------------------- */

static void be_new(struct strict_list *list)
{
	if (getrandom(&list->process, sizeof(list->process), 0) != sizeof(list->process))
		list->process = clock_monotonic_ns();
	list->number = list->echo_us = list->since_us = 0;
	list->is_in = false;
}

/* Calls as a node that is new, or continues. */
static void go_on(struct strict_list *list)
{
	static const struct strict_view none = {0};

	if (!list->is_in)
		strict_set(list->strict, &none);
	ask(list);
}

void strict_list_init(struct strict_list *list, struct worker *worker, struct ladder *ladder,
	struct store_link *store)
{
	*list = (struct strict_list){.worker = worker,
		.strict = ladder ? &ladder->strict : NULL,
		.debts = ladder ? &ladder->debts : NULL,
		.store = store};
	be_new(list);
	list->call.answered = on_answer;
	list->leaving.answered = on_left;
	deadline_init(&list->timer, worker->loop.base, on_timer);
}

void strict_list_begin(struct strict_list *list, const char *prefix, bool is_needed)
{
	list->prefix = prefix;
	list->is_needed = is_needed;
	if (is_needed)
		go_on(list);
	else if (list->is_in)
		strict_list_leave(list);
}

void strict_list_leave(struct strict_list *list)
{
	struct strict_view view;

	deadline_clear(&list->timer);
	if (!list->is_in)
		return;
	view = strict_look(list->strict);
	view.divisor = 0; /* none uses a share; what is known of the others ends by itself */
	strict_set(list->strict, &view);
	if (list->store->state == STORE_READY && debts_is_clear(list->debts) &&
		compose(list, &list->leaving, list->leaving_command, true))
		store_link_send(list->store, &list->leaving);
	be_new(list);
}

void strict_list_end(struct strict_list *list)
{
	deadline_end(&list->timer);
}
