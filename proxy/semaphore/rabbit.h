/*
 * A broker that is a RabbitMQ, over one connection that waits for each answer (librabbitmq): what
 * the commands use, which do nothing else meanwhile.
 *
 *   channel 1   declare, look, remove: a refusal costs the channel, which is opened again
 *   channel 2   probe: mandatory messages to the queues by their names, with confirms. The broker
 *               returns those for which there is no queue, and confirms all; none costs a channel,
 *               and a batch costs one round trip. The messages are empty and expire on arrival.
 *
 * A look by passive declare instead costs a channel and three round trips for each queue that is
 * missing or another's: for the slots of a semaphore that is for all but one of them.
 */
#ifndef SEMAPHORE_RABBIT_H
#define SEMAPHORE_RABBIT_H

#include "conf/conf.h"
#include "semaphore/broker.h"

struct rabbit;

/*
 * Connects and logs in, as the section says, within its broker_timeout in all; what is called until
 * rabbit_set_timeout must be answered within that, too. `purpose` is shown by the broker as the
 * connection's name. NULL when that fails, with the reason in `why`: the broker's words where it
 * has spoken (a wrong password, a virtual host that is not there). The section is only read during
 * the call.
 */
struct rabbit *rabbit_open(
	const struct conf_semaphore *semaphore, const char *purpose, char *why, size_t why_bytes);

/* Longest wait for each answer, from now on. */
void rabbit_set_timeout(struct rabbit *rabbit, uint64_t timeout_ms);

/* The heartbeat that was agreed on with the broker; 0: none. */
uint64_t rabbit_heartbeat_ms(const struct rabbit *rabbit);

#define RABBIT_WAKES 2

/* Waits until one of `wakes` is readable (-1: none), the time is over, or the connection has ended;
 * false, with `why` in the broker, when it has. NULL waits without a connection. */
bool rabbit_wait(struct rabbit *rabbit, const int wakes[RABBIT_WAKES], uint64_t timeout_ms);

/* From another thread: what is awaited from the broker, now or later, fails. */
void rabbit_interrupt(const struct rabbit *rabbit);

/* Its calls; borrowed from `rabbit`. */
struct broker *rabbit_broker(struct rabbit *rabbit);

/* Closes the connection, and waits until the broker has deleted what was exclusive to it. Frees. */
void rabbit_close(struct rabbit *rabbit);

#endif
