/*
 * Calls from the admin server's threads to the main thread, and their answers.
 */
#ifndef ADMIN_ASK_H
#define ADMIN_ASK_H

#include <stdbool.h>

struct loop;
struct asker;

/* `main_loop` runs what is asked. NULL without memory. */
struct asker *asker_new(struct loop *main_loop);

/* Runs `run(ctx)` on the main thread and returns when it has; false: it will not run, as the asker
 * was closed. Any thread but the main one. */
bool asker_run(struct asker *asker, void (*run)(void *ctx), void *ctx);

/* Makes asker_run return false from now on, also in the calls that wait. On the main thread. */
void asker_close(struct asker *asker);

/* No thread asks any more. */
void asker_free(struct asker *asker);

#endif
