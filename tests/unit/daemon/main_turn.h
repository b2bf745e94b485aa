/* The main thread's loop of a stage, turn by turn. */
#ifndef TESTS_DAEMON_MAIN_TURN_H
#define TESTS_DAEMON_MAIN_TURN_H

#include "tests/unit/exchange/fakes/flight.h"

/* One turn, which does not sleep: the loop is woken before. */
static inline void main_turn(struct stage *stage)
{
	struct loop *loop = &stage->daemon.node.loop;

	loop_enter(loop);
	loop_wake(loop);
	assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&stage->worker->loop);
}

/* Turns until the log has this, which waits for no longer than a timer takes that is its subject.
 */
static inline void main_turn_until(struct stage *stage, const char *line)
{
	struct loop *loop = &stage->daemon.node.loop;

	loop_enter(loop);
	while (!strstr(lines.text, line))
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&stage->worker->loop);
}

/* Another site, of these sections: the main thread's from now on. The workers stay with the first
 * one. */
static inline void main_reload(struct stage *stage, const char *sections)
{
	struct daemon *daemon = &stage->daemon;
	struct conf_errors errors;
	char text[4096];

	snprintf(text, sizeof(text),
		"[sluice]\nworkers = 1\n[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = "
		"127.0.0.1:9\n[route r]\nupstream = u\n%s",
		sections);
	struct conf *conf = conf_parse(text, strlen(text), "t", NULL, &errors);
	assert_int_equal(errors.count, 0);
	conf_errors_free(&errors);
	struct site *old = daemon->site;
	daemon->site = site_new(conf, old->serial + 1, daemon->states, daemon->node.throttles,
		daemon->roster, daemon->node.stats, NULL);
	assert_non_null(daemon->site);
	site_commit(daemon->site);
	site_release(old);
}

#endif
