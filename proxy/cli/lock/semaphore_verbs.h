/* The commands of `sluice semaphore`: what they do, and how they answer. */
#ifndef CLI_LOCK_SEMAPHORE_VERBS_H
#define CLI_LOCK_SEMAPHORE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

struct conf;
struct conf_semaphore;

struct semaphore_verb;

/* The contents of the command line. */
struct semaphore_call {
	const struct semaphore_verb *verb;
	const char *path, *name;
	char **command; /* of hold; NULL: none is given */
	uint32_t count, overshoot;
	uint32_t attempts; /* of hold, 0: any number */
	bool ensure, json, has_timeout, wait;
	uint64_t timeout_ms, grace_ms;
	const char *hold_option; /* one that only hold has, which was given; NULL: none */
};

/* NULL when there is none of that word; then stderr has the error. */
const struct semaphore_verb *semaphore_verb_find(const char *word);
bool semaphore_verb_takes_count(const struct semaphore_verb *verb);
bool semaphore_verb_takes_ensure(const struct semaphore_verb *verb);
bool semaphore_verb_takes_command(const struct semaphore_verb *verb);

/* Reads the configuration, asks the broker and prints. Returns the exit status (semaphore.h). */
int semaphore_verb_run(const struct semaphore_call *call);

/* Prints `file:line: [semaphore NAME] `, of the section or of a line in it. */
void semaphore_print_front(
	const struct conf *conf, const struct conf_semaphore *semaphore, unsigned line);

#endif
