/* See administer.h. */
#include "semaphore/administer.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- the mutex ------------------------------------------------------------------------------- */

/*
 * The mutex of a semaphore's administrators: the exclusive queue NAME. The broker deletes it with
 * the connection of the administrator, however that ends, so that no administrator who died keeps
 * others out. All that the holder of the mutex changes must be by the same connection: when the
 * broker takes the mutex away, it takes no more orders from there either.
 */

enum mutex_result {
	MUTEX_HELD,
	MUTEX_BUSY,    /* another had it all the time */
	MUTEX_FOREIGN, /* the broker refuses it, or a queue of that name is no mutex */
	MUTEX_LOST,    /* the broker is */
};

/* Between two tries: what an administrator does takes a few ms a slot. */
enum { PAUSE_MS = 50 };

/* Takes the mutex, or tries again until `timeout_ms` is over. The broker's `why` has the reason for
 * MUTEX_FOREIGN and MUTEX_LOST. */
static enum mutex_result mutex_lock(struct broker *broker, const char *name, uint64_t timeout_ms)
{
	uint64_t begin_ms = broker->calls->now_ms(broker);

	for (;;) {
		enum broker_result result = broker->calls->declare(broker, name, BROKER_EXCLUSIVE);
		if (result == BROKER_DONE)
			return MUTEX_HELD;
		if (result != BROKER_LOCKED)
			return result == BROKER_LOST ? MUTEX_LOST : MUTEX_FOREIGN;
		/* A queue that is nobody's own is locked to who would have it exclusively. */
		if (broker->calls->look(broker, name) == BROKER_DONE) {
			snprintf(broker->why, sizeof(broker->why),
				"queue '%s' exists and is not exclusive: it can't be the mutex",
				name);
			return MUTEX_FOREIGN;
		}
		if (broker->calls->now_ms(broker) - begin_ms >= timeout_ms)
			return MUTEX_BUSY;
		broker->calls->pause(broker, PAUSE_MS);
	}
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Between two looks at the holders of removed slots. */
enum { LOOK_MS = 100 };

/* What is done under the mutex. `count` is the command's. */
typedef enum administer_result administer_work(
	const struct administrator *admin, uint32_t count, struct administer_report *report);

__attribute__((format(printf, 2, 3))) static enum administer_result refuse(
	struct administer_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->why, sizeof(report->why), format, args);
	va_end(args);
	return ADMINISTER_REFUSED;
}

/* `result` is the broker's, and not BROKER_DONE. */
static enum administer_result fail(const struct administrator *admin, enum broker_result result,
	struct administer_report *report)
{
	snprintf(report->why, sizeof(report->why), "%s", admin->slots.broker->why);
	return result == BROKER_LOST ? ADMINISTER_LOST : ADMINISTER_FAILED;
}

static enum administer_result with_mutex(const struct administrator *admin, administer_work *work,
	uint32_t count, struct administer_report *report)
{
	struct broker *broker = admin->slots.broker;
	enum administer_result result;
	enum broker_result found;

	*report = (struct administer_report){0};
	switch (mutex_lock(broker, admin->slots.name, admin->timeout_ms)) {
	case MUTEX_BUSY:
		refuse(report, "another administrator is at work");
		return ADMINISTER_BUSY;
	case MUTEX_FOREIGN:
		return fail(admin, BROKER_REFUSED, report);
	case MUTEX_LOST:
		return fail(admin, BROKER_LOST, report);
	case MUTEX_HELD:
		break;
	}
	found = slots_count(&admin->slots, &report->max);
	if (found == BROKER_DONE)
		result = work(admin, count, report);
	else
		result = fail(admin, found, report);
	/* Where that fails the end of the connection gives it back. */
	broker->calls->remove(broker, admin->slots.name);
	return result;
}

/* ---- one slot -------------------------------------------------------------------------------- */

/* Makes sure that the slot is there, and is a slot: a queue that was declared in another way is
 * refused by the broker. */
static enum broker_result declare_slot(const struct administrator *admin, uint32_t number)
{
	struct broker *broker = admin->slots.broker;
	char queue[SLOTS_QUEUE_BYTES];

	slots_name_queue(&admin->slots, number, SLOTS_A, queue);
	return broker->calls->declare(broker, queue, BROKER_DURABLE);
}

/* Looks first that it is a slot: others' queues are not deleted. */
static enum broker_result remove_slot(const struct administrator *admin, uint32_t number)
{
	struct broker *broker = admin->slots.broker;
	enum broker_result result = declare_slot(admin, number);
	char queue[SLOTS_QUEUE_BYTES];

	slots_name_queue(&admin->slots, number, SLOTS_A, queue);
	return result == BROKER_DONE ? broker->calls->remove(broker, queue) : result;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Removes the strays behind slot `last`, which may be one that is not there yet. */
static enum administer_result remove_strays(
	const struct administrator *admin, uint32_t last, struct administer_report *report)
{
	struct slots_set strays = {0};
	enum broker_result result =
		slots_find(&admin->slots, SLOTS_A, last + 1, last, admin->overshoot, &strays);

	for (uint32_t number = SLOTS_MOST + SLOTS_GAP_MOST;
		result == BROKER_DONE && report->strays < strays.count; number--) {
		if (!slots_set_has(&strays, number))
			continue;
		result = remove_slot(admin, number);
		report->strays += result == BROKER_DONE;
	}
	return result == BROKER_DONE ? ADMINISTER_DONE : fail(admin, result, report);
}

static enum administer_result raise_to(
	const struct administrator *admin, uint32_t target, struct administer_report *report)
{
	enum administer_result result = remove_strays(admin, target, report);

	for (uint32_t number = 1; result == ADMINISTER_DONE && number <= target; number++) {
		enum broker_result declared = declare_slot(admin, number);
		if (declared != BROKER_DONE)
			return fail(admin, declared, report);
		if (number > report->max) {
			report->max = number;
			report->added++;
		}
	}
	return result;
}

static enum administer_result lower_to(
	const struct administrator *admin, uint32_t target, struct administer_report *report)
{
	enum administer_result result = remove_strays(admin, report->max, report);

	while (result == ADMINISTER_DONE && report->max > target) {
		enum broker_result removed = remove_slot(admin, report->max);
		if (removed != BROKER_DONE)
			return fail(admin, removed, report);
		report->max--;
		report->removed++;
	}
	return result;
}

/* ---- the commands ---------------------------------------------------------------------------- */

static enum administer_result create(
	const struct administrator *admin, uint32_t size, struct administer_report *report)
{
	if (report->max > 0)
		return refuse(report, "it exists, with %u slot%s", report->max,
			report->max == 1 ? "" : "s");
	return raise_to(admin, size, report);
}

static enum administer_result ensure_size(
	const struct administrator *admin, uint32_t size, struct administer_report *report)
{
	return raise_to(admin, size > report->max ? size : report->max, report);
}

enum administer_result administer_create(const struct administrator *admin, uint32_t size,
	bool ensure, struct administer_report *report)
{
	return with_mutex(admin, ensure ? ensure_size : create, size, report);
}

static enum administer_result refuse_missing(struct administer_report *report)
{
	return refuse(report, "there is no such semaphore at the broker");
}

static enum administer_result add(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	if (report->max == 0)
		return refuse_missing(report);
	if (count > SLOTS_MOST || report->max + count > SLOTS_MOST)
		return refuse(report, "it has %u slots, and can have %u at most", report->max,
			SLOTS_MOST);
	return raise_to(admin, report->max + count, report);
}

enum administer_result administer_add(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	return with_mutex(admin, add, count, report);
}

static enum administer_result take_away(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	if (report->max == 0)
		return refuse_missing(report);
	if (count > report->max)
		return refuse(report, "it has %u slot%s", report->max, report->max == 1 ? "" : "s");
	return lower_to(admin, report->max - count, report);
}

enum administer_result administer_remove(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	return with_mutex(admin, take_away, count, report);
}

static enum administer_result destroy(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	enum administer_result result = lower_to(admin, 0, report);

	(void)count;
	if (result == ADMINISTER_DONE && report->removed + report->strays == 0)
		return refuse_missing(report);
	return result;
}

enum administer_result administer_destroy(
	const struct administrator *admin, struct administer_report *report)
{
	return with_mutex(admin, destroy, 0, report);
}

static enum administer_result prune(
	const struct administrator *admin, uint32_t count, struct administer_report *report)
{
	(void)count;
	return remove_strays(admin, report->max, report);
}

enum administer_result administer_prune(
	const struct administrator *admin, struct administer_report *report)
{
	return with_mutex(admin, prune, 0, report);
}

/* ---- the holders ----------------------------------------------------------------------------- */

/* Holders of slots from `first` on; of removed ones, any that there may have been. */
static enum broker_result find_holders(
	const struct administrator *admin, uint32_t first, struct slots_set *held)
{
	return slots_find(&admin->slots, SLOTS_B, first, SLOTS_MOST, admin->overshoot, held);
}

/* Of the removed slots in `held`, or where there are none, of all. One after the other, as a search
 * for all takes its time. */
static enum broker_result look_at_removed(
	const struct administrator *admin, uint32_t max, struct slots_set *held)
{
	enum broker_result result = BROKER_DONE;
	uint32_t highest;

	while (result == BROKER_DONE && (highest = slots_set_below(held, SLOTS_SET_END)) != 0) {
		struct slots_set still = {0};
		if (highest > max)
			result = slots_find(&admin->slots, SLOTS_B, highest, highest, 0, &still);
		if (still.count > 0)
			return BROKER_DONE;
		slots_set_remove(held, highest);
	}
	return result == BROKER_DONE ? find_holders(admin, max + 1, held) : result;
}

enum administer_result administer_look(
	const struct administrator *admin, struct slots_set *held, struct administer_report *report)
{
	*report = (struct administer_report){0};
	*held = (struct slots_set){0};
	enum broker_result result = slots_count(&admin->slots, &report->max);
	if (result == BROKER_DONE)
		result = find_holders(admin, 1, held);
	if (result != BROKER_DONE)
		return fail(admin, result, report);
	return report->max + held->count > 0 ? ADMINISTER_DONE : refuse_missing(report);
}

enum administer_result administer_wait(
	const struct administrator *admin, struct administer_report *report)
{
	struct broker *broker = admin->slots.broker;
	uint64_t begin_ms = broker->calls->now_ms(broker);

	struct slots_set held = {0};

	for (;;) {
		*report = (struct administer_report){0};
		enum broker_result result = slots_count(&admin->slots, &report->max);
		if (result == BROKER_DONE)
			result = look_at_removed(admin, report->max, &held);
		if (result != BROKER_DONE)
			return fail(admin, result, report);
		if (held.count == 0)
			return ADMINISTER_DONE;
		if (broker->calls->now_ms(broker) - begin_ms >= admin->timeout_ms) {
			refuse(report, "%u removed slot%s still held", held.count,
				held.count == 1 ? " is" : "s are");
			return ADMINISTER_BUSY;
		}
		broker->calls->pause(broker, LOOK_MS);
	}
}
