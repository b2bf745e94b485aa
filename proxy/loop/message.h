/*
 * Messages between threads: a struct with a function, posted to the loop of a thread, which calls
 * the function there. An object that sends messages to another thread embeds one; posting allocates
 * nothing and never blocks.
 *
 *   any thread --message_post--> [inbox of the loop] --wake-up--> run(message), on its thread
 *
 * Order: messages that one thread posts to one loop run in the order of posting. Of different
 * threads there is no order.
 */
#ifndef LOOP_MESSAGE_H
#define LOOP_MESSAGE_H

struct loop;

/*
 * From message_post until `run` is called the message belongs to the loop and must stay in place;
 * `run` may free it or post it again. Only one post may be under way.
 */
struct message {
	struct message *next; /* while posted */
	void (*run)(struct message *message);
};

/* Has message->run called on the loop's thread: in the present round of its turn when the caller
 * is that thread, else in the turn that the wake-up begins. Any thread. Can't fail. */
void message_post(struct loop *to, struct message *message);

#endif
