/* The loop: rounds run their stages in order until none has work, messages arrive on the right
 * thread, once and in the order of posting, and memory is freed at the end of a turn. */
#include "loop/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <unistd.h>

#include "base/container.h"
#include "loop/each.h"
#include "tests/unit/suite.h"

/* What happened, a letter each. */
static char trace[64];

static void note(char letter)
{
	size_t len = strlen(trace);

	assert_true(len + 1 < sizeof(trace));
	trace[len] = letter;
	trace[len + 1] = '\0';
}

struct item {
	struct message message;
	struct loop_stage stage;
	struct deferred_free deferred;
	struct loop *loop;
	struct item *posts; /* posted by run */
	char letter;
	unsigned work; /* rounds that a stage has something to do in */
};

static void on_message(struct message *message)
{
	struct item *item = CONTAINER_OF(message, struct item, message);

	assert_ptr_equal(loop_current(), item->loop);
	note(item->letter);
	if (item->posts)
		message_post(item->loop, &item->posts->message);
}

static bool on_stage(struct loop_stage *stage)
{
	struct item *item = CONTAINER_OF(stage, struct item, stage);

	if (item->work == 0)
		return false;
	item->work--;
	note(item->letter);
	return true;
}

static void on_free(struct deferred_free *deferred)
{
	note(CONTAINER_OF(deferred, struct item, deferred)->letter);
}

static struct item item_of(struct loop *loop, char letter)
{
	return (struct item){
		.message.run = on_message, .stage.run = on_stage, .loop = loop, .letter = letter};
}

static void begin(struct loop *loop)
{
	trace[0] = '\0';
	assert_int_equal(loop_init(loop), 0);
	loop_enter(loop);
}

static void end(struct loop *loop)
{
	loop_enter(NULL);
	loop_end(loop);
}

/* Read stages, messages, write stages, in the order of registering; again while there is work. */
static void a_round_has_an_order(void **state)
{
	struct loop loop;

	(void)state;
	begin(&loop);
	struct item read1 = item_of(&loop, 'r'), read2 = item_of(&loop, 's');
	struct item write = item_of(&loop, 'w'), message = item_of(&loop, 'm');
	read1.work = 2;
	read2.work = write.work = 1;
	loop_add_stage(&loop, LOOP_WRITE, &write.stage);
	loop_add_stage(&loop, LOOP_READ, &read1.stage);
	loop_add_stage(&loop, LOOP_READ, &read2.stage);
	message_post(&loop, &message.message);
	loop_free_later(&loop, &message.deferred, on_free);
	loop_finish_turn(&loop);
	assert_string_equal(trace, "rsmwrm");
	end(&loop);
}

/* A message that a message posts to its own loop runs in the same turn, in the next round. */
static void a_message_posts_another(void **state)
{
	struct loop loop;

	(void)state;
	begin(&loop);
	struct item first = item_of(&loop, '1'), second = item_of(&loop, '2');
	struct item third = item_of(&loop, '3');
	first.posts = &third;
	message_post(&loop, &first.message);
	message_post(&loop, &second.message);
	assert_true(loop_has_ready(&loop));
	loop_finish_turn(&loop);
	assert_false(loop_has_ready(&loop));
	assert_string_equal(trace, "123");
	message_post(&loop, &first.message); /* a message is used again */
	loop_finish_turn(&loop);
	assert_string_equal(trace, "12313");
	end(&loop);
}

/* The clock is read once a turn. */
static void a_turn_has_one_time(void **state)
{
	struct loop loop;

	(void)state;
	begin(&loop);
	uint64_t now_ns = loop_now_ns(&loop);
	assert_true(now_ns > 0 && loop_now_ns(&loop) == now_ns);
	assert_int_equal(loop_now_ms(&loop), now_ns / 1000000);
	loop_wake(&loop);
	assert_int_equal(loop_run_turn(&loop), 0);
	assert_true(loop_now_ns(&loop) > now_ns);
	end(&loop);
}

/* ---- between threads ------------------------------------------------------------------------- */

#define SENDERS  3
#define MESSAGES 2000

struct numbered {
	struct message message;
	struct receiver *receiver;
	unsigned sender, number;
};

struct receiver {
	struct loop loop;
	unsigned next[SENDERS], received;
};

struct sender {
	pthread_t thread;
	struct numbered messages[MESSAGES];
};

static void on_numbered(struct message *message)
{
	struct numbered *numbered = CONTAINER_OF(message, struct numbered, message);
	struct receiver *receiver = numbered->receiver;

	assert_int_equal(receiver->next[numbered->sender]++, numbered->number);
	receiver->received++;
}

static void *send_all(void *arg)
{
	struct sender *sender = arg;

	for (unsigned i = 0; i < MESSAGES; i++)
		message_post(&sender->messages[i].receiver->loop, &sender->messages[i].message);
	return NULL;
}

/* A stage that leaves work for the next turn has it come without an event, and only that one. */
static const struct timeval at_once = {0, 0};

struct again {
	struct event timer;
	unsigned runs;
};

static void set_again(evutil_socket_t fd, short what, void *arg)
{
	struct again *again = arg;

	(void)fd;
	(void)what;
	if (++again->runs < 1000)
		event_add(&again->timer, &at_once);
}

/* Its deadlines are computed from the turn's time, which does not pass within the turn. */
static void a_timer_that_sets_itself_ends_no_turn_late(void **state)
{
	struct again again = {.runs = 0};
	struct loop loop;

	(void)state;
	begin(&loop);
	evtimer_assign(&again.timer, loop.base, set_again, &again);
	event_add(&again.timer, &at_once);
	for (unsigned turns = 1; turns <= 3; turns++) {
		loop_hurry(&loop);
		assert_int_equal(loop_run_turn(&loop), 0);
		assert_true(again.runs <= turns);
	}
	event_del(&again.timer);
	end(&loop);
}

static void a_hurried_turn_waits_for_nothing(void **state)
{
	struct loop loop;
	struct item item;

	(void)state;
	begin(&loop);
	item = item_of(&loop, 's');
	loop_add_stage(&loop, LOOP_READ, &item.stage);
	uint64_t turn = loop.turn;
	item.work = 1;
	loop_hurry(&loop);
	alarm(10); /* nothing else would end the wait */
	assert_int_equal(loop_run_turn(&loop), 0);
	alarm(0);
	assert_string_equal(trace, "s");
	assert_int_equal(loop.turn, turn + 1);
	assert_false(loop.hurries);
	end(&loop);
}

static void threads_post_in_order(void **state)
{
	struct receiver *receiver = calloc(1, sizeof(*receiver));
	struct sender *senders = calloc(SENDERS, sizeof(*senders));

	(void)state;
	begin(&receiver->loop);
	for (unsigned s = 0; s < SENDERS; s++) {
		for (unsigned i = 0; i < MESSAGES; i++)
			senders[s].messages[i] =
				(struct numbered){{NULL, on_numbered}, receiver, s, i};
		pthread_create(&senders[s].thread, NULL, send_all, &senders[s]);
	}
	while (receiver->received < SENDERS * MESSAGES)
		assert_int_equal(loop_run_turn(&receiver->loop), 0);
	for (unsigned s = 0; s < SENDERS; s++)
		pthread_join(senders[s].thread, NULL);
	end(&receiver->loop);
	free(senders);
	free(receiver);
}

/* ---- each_loop ------------------------------------------------------------------------------- */

struct turner {
	struct loop loop;
	pthread_t thread;
	struct message stop;
	bool stopped;
};

static void on_stop(struct message *message)
{
	CONTAINER_OF(message, struct turner, stop)->stopped = true;
}

static void *turn(void *arg)
{
	struct turner *turner = arg;

	loop_enter(&turner->loop);
	while (!turner->stopped)
		loop_run_turn(&turner->loop);
	return NULL;
}

struct sum {
	struct loop *loops[SENDERS + 1];
	unsigned total, done;
};

static void on_each(void *ctx, unsigned index, void *answer)
{
	struct sum *sum = ctx;

	assert_ptr_equal(loop_current(), sum->loops[index]);
	*(unsigned *)answer = index + 1;
}

static void on_all(void *ctx, void *answers, unsigned count)
{
	struct sum *sum = ctx;

	assert_ptr_equal(loop_current(), sum->loops[SENDERS]);
	for (unsigned i = 0; i < count; i++)
		sum->total += ((unsigned *)answers)[i];
	sum->done++;
}

/* Each runs on its own thread, the asker's own loop among them; all answers come together. */
static void each_loop_answers(void **state)
{
	struct turner turners[SENDERS];
	struct loop asker;
	struct sum sum = {0};

	(void)state;
	begin(&asker);
	for (unsigned i = 0; i < SENDERS; i++) {
		turners[i].stopped = false;
		turners[i].stop.run = on_stop;
		assert_int_equal(loop_init(&turners[i].loop), 0);
		sum.loops[i] = &turners[i].loop;
		pthread_create(&turners[i].thread, NULL, turn, &turners[i]);
	}
	sum.loops[SENDERS] = &asker;
	for (unsigned n = 1; n <= 100; n++) {
		struct each_question question = {sizeof(unsigned), on_each, on_all, &sum};
		assert_true(each_loop(sum.loops, SENDERS + 1, &question));
		while (sum.done < n)
			assert_int_equal(loop_run_turn(&asker), 0);
	}
	assert_int_equal(sum.total, 100 * (1 + 2 + 3 + 4));
	for (unsigned i = 0; i < SENDERS; i++) {
		message_post(&turners[i].loop, &turners[i].stop);
		pthread_join(turners[i].thread, NULL);
		loop_end(&turners[i].loop);
	}
	end(&asker);
}

static void enter_again(evutil_socket_t fd, short what, void *base)
{
	(void)fd;
	(void)what;
	assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
}

/* As of name servers that do not answer. */
static void libevent_writes_to_the_error_log(void **state)
{
	struct loop loop;
	char text[500];
	int ends[2], stderr_before = dup(STDERR_FILENO);

	(void)state;
	begin(&loop);
	loop_log_libevent();
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	assert_int_equal(
		event_base_once(loop.base, -1, EV_TIMEOUT, enter_again, loop.base, NULL), 0);
	assert_int_equal(loop_run_turn(&loop), 0);
	dup2(stderr_before, STDERR_FILENO);
	event_set_log_callback(NULL);
	ssize_t len = read(ends[0], text, sizeof(text) - 1);
	assert_true(len > 0);
	text[len] = '\0';
	assert_non_null(strstr(text, "Z warn  libevent: event_base_loop: reentrant invocation"));
	close(ends[0]);
	close(ends[1]);
	close(stderr_before);
	end(&loop);
}

UNIT_SUITE(test_loop)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_round_has_an_order),
		cmocka_unit_test(a_message_posts_another),
		cmocka_unit_test(a_turn_has_one_time),
		cmocka_unit_test(a_timer_that_sets_itself_ends_no_turn_late),
		cmocka_unit_test(a_hurried_turn_waits_for_nothing),
		cmocka_unit_test(threads_post_in_order),
		cmocka_unit_test(each_loop_answers),
		cmocka_unit_test(libevent_writes_to_the_error_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
