/*
 * What a look at all slots of a semaphore costs, when each is held by another: by mandatory
 * messages with confirms, as holders look, and by passive declarations, of which each about
 * another's queue costs a channel.
 *
 *   semaphore_looks PORT [SLOTS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "conf/conf.h"
#include "semaphore/rabbit.h"
#include "semaphore/slots.h"

enum { ROUNDS = 20, SLOTS = 50 };

static double now_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static struct broker *open_broker(const struct conf_semaphore *conf)
{
	char why[512];
	struct rabbit *rabbit = rabbit_open(conf, "bench", why, sizeof(why));

	if (!rabbit) {
		fprintf(stderr, "semaphore_looks: %s\n", why);
		exit(1);
	}
	rabbit_set_timeout(rabbit, conf->timeout_ms);
	return rabbit_broker(rabbit);
}

static void look_by_messages(const struct slots *slots, uint32_t count)
{
	static struct slots_set found;

	found = (struct slots_set){0};
	if (slots_find(slots, SLOTS_B, 1, count, 0, &found) != BROKER_DONE || found.count != count)
		exit(1);
}

static void look_by_declarations(const struct slots *slots, uint32_t count)
{
	char queue[SLOTS_QUEUE_BYTES];

	for (uint32_t n = 1; n <= count; n++) {
		slots_name_queue(slots, n, SLOTS_B, queue);
		if (slots->broker->calls->look(slots->broker, queue) != BROKER_LOCKED)
			exit(1);
	}
}

static void measure(const char *what, void (*look)(const struct slots *slots, uint32_t count),
	const struct slots *slots, uint32_t count)
{
	double began = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned i = 0; i < ROUNDS; i++)
		look(slots, count);
	printf("%s: %.2f ms a look at %u slots, %.3f ms of ours\n", what,
		(now_ms(CLOCK_MONOTONIC) - began) / ROUNDS, count,
		(now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu) / ROUNDS);
}

int main(int argc, char **argv)
{
	char host[] = "127.0.0.1";
	struct conf_semaphore conf = {.name = "looks", .heartbeat_ms = 10000, .timeout_ms = 10000};
	uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : SLOTS;

	if (argc < 2)
		return 2;
	conf.broker.address.host = host;
	conf.broker.address.port = (uint16_t)atoi(argv[1]);
	conf.broker.vhost = "/";
	struct slots held = {open_broker(&conf), "looks"}, looking = {open_broker(&conf), "looks"};
	for (uint32_t n = 1; n <= count; n++) {
		char queue[SLOTS_QUEUE_BYTES];
		slots_name_queue(&held, n, SLOTS_B, queue);
		held.broker->calls->declare(held.broker, queue, BROKER_EXCLUSIVE);
	}
	measure("messages    ", look_by_messages, &looking, count);
	measure("declarations", look_by_declarations, &looking, count);
	return 0;
}
