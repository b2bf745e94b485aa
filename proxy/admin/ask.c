#include "admin/ask.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/container.h"
#include "loop/loop.h"

/* Questions wait in a list of ours and not in the loop's inbox: a call that gives up takes it out
 * again. One message tells the loop to look. */
struct question {
	struct question *next;
	void (*run)(void *ctx);
	void *ctx;
	bool done;
};

struct asker {
	struct loop *loop;
	struct message message;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct question *first; /* newest first */
	bool posted, closed;
};

static void on_message(struct message *message)
{
	struct asker *asker = CONTAINER_OF(message, struct asker, message);

	pthread_mutex_lock(&asker->lock);
	asker->posted = false;
	while (asker->first && !asker->closed) {
		struct question *question = asker->first;
		asker->first = question->next;
		pthread_mutex_unlock(&asker->lock);
		question->run(question->ctx);
		pthread_mutex_lock(&asker->lock);
		question->done = true;
		pthread_cond_broadcast(&asker->changed);
	}
	pthread_mutex_unlock(&asker->lock);
}

struct asker *asker_new(struct loop *main_loop)
{
	struct asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return NULL;
	asker->loop = main_loop;
	asker->message.run = on_message;
	pthread_mutex_init(&asker->lock, NULL);
	pthread_cond_init(&asker->changed, NULL);
	return asker;
}

static void take_out(struct asker *asker, struct question *question)
{
	struct question **at = &asker->first;

	while (*at && *at != question)
		at = &(*at)->next;
	if (*at)
		*at = question->next;
}

bool asker_run(struct asker *asker, void (*run)(void *ctx), void *ctx)
{
	struct question question = {.run = run, .ctx = ctx};

	pthread_mutex_lock(&asker->lock);
	question.next = asker->first;
	asker->first = &question;
	bool post = !asker->posted && !asker->closed;
	asker->posted |= post;
	if (post)
		message_post(asker->loop, &asker->message);
	while (!question.done && !asker->closed)
		pthread_cond_wait(&asker->changed, &asker->lock);
	if (!question.done)
		take_out(asker, &question);
	pthread_mutex_unlock(&asker->lock);
	return question.done;
}

void asker_close(struct asker *asker)
{
	pthread_mutex_lock(&asker->lock);
	asker->closed = true;
	pthread_cond_broadcast(&asker->changed);
	pthread_mutex_unlock(&asker->lock);
}

void asker_free(struct asker *asker)
{
	if (!asker)
		return;
	pthread_cond_destroy(&asker->changed);
	pthread_mutex_destroy(&asker->lock);
	free(asker);
}
