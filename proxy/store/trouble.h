/*
 * Why a node is without its store, for people: the last errors of its workers, and their beginning.
 * Any worker notes what it finds; a reader on any thread sees it until all of them are well again.
 *
 *   worker: connection lost, or a call refused --trouble_note(why)--+--> trouble_look: admin
 *           connected, or a call answered ------trouble_note(NULL)--'
 */
#ifndef STORE_TROUBLE_H
#define STORE_TROUBLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define TROUBLE_BYTES 256

/* The part that all threads of the process share. */
struct trouble {
	pthread_mutex_t lock;
	unsigned count;    /* of marks that are set */
	uint64_t since_ns; /* when the first of them was; monotonic */
	char why[TROUBLE_BYTES];
};

/* A worker's own, zeroed: one for its connection, one for its calls. */
struct trouble_mark {
	bool is_set;
};

struct trouble_sight {
	unsigned count; /* 0: all is well, as far as the workers know */
	uint64_t since_ns;
	char why[TROUBLE_BYTES]; /* the last of them, in words; printable ASCII */
};

void trouble_init(struct trouble *trouble);
void trouble_end(struct trouble *trouble);
/* Sets the mark, and notes `why`; NULL: clears it. `now_ns` is monotonic. Any thread. */
void trouble_note(
	struct trouble *trouble, struct trouble_mark *mark, const char *why, uint64_t now_ns);
/* A copy. Any thread. */
void trouble_look(struct trouble *trouble, struct trouble_sight *sight);

#endif
