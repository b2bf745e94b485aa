/* The commands of `sluice semaphore`: what they do, and how they answer. */
#ifndef CLI_SEMAPHORE_VERBS_H
#define CLI_SEMAPHORE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

struct semaphore_verb;

/* The contents of the command line. */
struct semaphore_call {
	const struct semaphore_verb *verb;
	const char *path, *name;
	uint32_t count, overshoot;
	bool ensure, json, has_timeout;
	uint64_t timeout_ms;
};

/* NULL when there is none of that word; then stderr has the error. */
const struct semaphore_verb *semaphore_verb_find(const char *word);
bool semaphore_verb_takes_count(const struct semaphore_verb *verb);
bool semaphore_verb_takes_ensure(const struct semaphore_verb *verb);

/* Reads the configuration, asks the broker and prints. Returns the exit status (semaphore.h). */
int semaphore_verb_run(const struct semaphore_call *call);

#endif
