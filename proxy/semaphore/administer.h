/*
 * The operations of an administrator on a semaphore: makes slots, adds some, removes some.
 *
 *   a mutex: one administrator at a time    slots.h: which slots are there
 *
 * Slots are made ascending and removed descending, one after the other, each when the broker has
 * confirmed the one before. So an administrator that dies in the middle leaves slots without a gap,
 * some too few or too many, and the next command starts from those that it finds. Strays, behind a
 * gap, come from elsewhere (a broker that lost a queue, an order that was under way when its sender
 * died); each command that changes something removes those that its change could join to the slots.
 */
#ifndef SEMAPHORE_ADMINISTER_H
#define SEMAPHORE_ADMINISTER_H

#include "semaphore/slots.h"

enum administer_result {
	ADMINISTER_DONE,
	ADMINISTER_REFUSED, /* the semaphore's state does not allow it: nothing was changed */
	ADMINISTER_BUSY,    /* the time is over: another administrator, or holders that remain */
	ADMINISTER_FAILED,  /* the broker refused: what was done until then stays */
	ADMINISTER_LOST,    /* the broker was lost: so does that, and the last step may be done */
};

struct administrator {
	struct slots slots;
	uint32_t overshoot;  /* strays are looked for until so many in a row are missing */
	uint64_t timeout_ms; /* longest wait for the mutex; of administer_wait, for the holders */
};

/* The results, also of an operation that failed in the middle. */
struct administer_report {
	uint32_t max; /* slots that there are now */
	uint32_t added, removed, strays;
	char why[640]; /* after anything but ADMINISTER_DONE */
};

/* Each sets the whole report. */

/* Makes `size` slots. When there are some already: refused, or with `ensure` those that are missing
 * up to `size` are added. */
enum administer_result administer_create(const struct administrator *admin, uint32_t size,
	bool ensure, struct administer_report *report);

/* Adds `count` slots behind the last one. Refused when there are none, or would be too many. */
enum administer_result administer_add(
	const struct administrator *admin, uint32_t count, struct administer_report *report);

/* Removes the last `count` slots. Their holders continue until they look (administer_wait). Refused
 * when there are fewer. Without a slot there is no semaphore, as after administer_destroy. */
enum administer_result administer_remove(
	const struct administrator *admin, uint32_t count, struct administer_report *report);

/* Removes all slots and all strays. Refused when there are neither. */
enum administer_result administer_destroy(
	const struct administrator *admin, struct administer_report *report);

/* Removes strays only. */
enum administer_result administer_prune(
	const struct administrator *admin, struct administer_report *report);

/* Finds which slots are held, also removed ones; nothing is changed, and the
 * mutex is not needed. `held` is set whole. Refused when there are no slots and no holders. */
enum administer_result administer_look(const struct administrator *admin, struct slots_set *held,
	struct administer_report *report);

/* Waits until no removed slot is held. */
enum administer_result administer_wait(
	const struct administrator *admin, struct administer_report *report);

#endif
