/*
 * The operations on a broker that the protocol of semaphores needs: queues are declared, looked for
 * and deleted. The seam between the protocol (slots.h, administer.h) and librabbitmq
 * (rabbit.h); tests have a broker of their own behind it. All calls wait for the broker's answer.
 */
#ifndef SEMAPHORE_BROKER_H
#define SEMAPHORE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum broker_result {
	BROKER_DONE,
	BROKER_MISSING, /* there is no such queue (NOT_FOUND) */
	BROKER_LOCKED,  /* it is exclusive to another connection (RESOURCE_LOCKED) */
	BROKER_REFUSED, /* any other refusal: the queue was declared with other arguments
			   (PRECONDITION_FAILED), or the user may not (ACCESS_REFUSED) */
	BROKER_LOST, /* the connection ended, or an answer took too long: no further call helps */
};

enum broker_queue {
	BROKER_DURABLE,   /* survives the broker; any connection may use it */
	BROKER_EXCLUSIVE, /* of this connection, deleted when that ends */
};

/* Queues that are probed at once at most. */
#define BROKER_BATCH_MOST 128

struct broker_calls;

struct broker {
	const struct broker_calls *calls;
	char why[512]; /* the broker's own words, after anything but BROKER_DONE */
};

struct broker_calls {
	/* Makes the queue, or does nothing where it is there with these properties. */
	enum broker_result (*declare)(
		struct broker *broker, const char *queue, enum broker_queue kind);
	/* Is it there, and could this connection use it? Never BROKER_REFUSED for how it was
	 * declared. */
	enum broker_result (*look)(struct broker *broker, const char *queue);
	/* Deletes the queue and waits until that is done; one that is not there, too. */
	enum broker_result (*remove)(struct broker *broker, const char *queue);
	/* Which of `count` queues (BROKER_BATCH_MOST at most) exist, whichever connection owns
	 * them: `present[i]` is about `queues[i]`. Leaves `present` as it is unless BROKER_DONE. */
	enum broker_result (*probe)(
		struct broker *broker, const char *const *queues, size_t count, bool *present);
	/* Monotonic, in ms. */
	uint64_t (*now_ms)(struct broker *broker);
	/* Waits about `ms`, up to twice as long: two that wait for each other differ. */
	void (*pause)(struct broker *broker, unsigned ms);
};

#endif
