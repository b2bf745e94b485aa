#include "loop/each.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "loop/loop.h"

struct each;

struct each_message {
	struct message message;
	struct each *each;
	unsigned index;
};

struct each {
	struct each_question question;
	struct loop *asker;
	unsigned count;
	atomic_uint left; /* loops that have not run it */
	struct message done;
	char *answers;
	struct each_message messages[];
};

static void on_done(struct message *message)
{
	struct each *each = (struct each *)((char *)message - offsetof(struct each, done));

	if (each->question.done)
		each->question.done(each->question.ctx, each->answers, each->count);
	free(each->answers);
	free(each);
}

static void on_question(struct message *message)
{
	struct each_message *mine = (struct each_message *)message;
	struct each *each = mine->each;
	size_t at = mine->index * each->question.answer_size;

	each->question.run(each->question.ctx, mine->index, each->answers + at);
	/* acq_rel: the last to finish sees all answers; message_post passes them on to the asker */
	if (atomic_fetch_sub_explicit(&each->left, 1, memory_order_acq_rel) == 1)
		message_post(each->asker, &each->done);
}

bool each_loop(struct loop *const *loops, unsigned count, const struct each_question *question)
{
	struct each *each = calloc(1, sizeof(*each) + count * sizeof(each->messages[0]));
	size_t answer_size = question->answer_size > 0 ? question->answer_size : 1;

	assert(loop_current() && count > 0);
	if (each)
		each->answers = calloc(count, answer_size);
	if (!each || !each->answers) {
		free(each);
		return false;
	}
	each->question = *question;
	each->asker = loop_current();
	each->count = count;
	each->done.run = on_done;
	atomic_init(&each->left, count);
	for (unsigned i = 0; i < count; i++) {
		each->messages[i] = (struct each_message){{NULL, on_question}, each, i};
		message_post(loops[i], &each->messages[i].message);
	}
	return true;
}
