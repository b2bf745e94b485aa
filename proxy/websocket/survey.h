/*
 * Finding sockets of all workers, or one by its id, from the main thread: a survey goes from worker
 * to worker, on each of which it walks (walk.h), and comes back.
 *
 *   main: survey_begin --> worker 0: visit those that fit --> worker 1 ... --> main: done
 *
 * It is on one thread at a time, so what `visit` writes needs no lock.
 */
#ifndef WEBSOCKET_SURVEY_H
#define WEBSOCKET_SURVEY_H

#include "loop/message.h"
#include "websocket/filter.h"
#include "websocket/sockets.h"

struct node;

struct socket_survey {
	struct socket_filter filter;
	uint64_t id;    /* of the only one that is looked for, or 0 */
	uint64_t after; /* 0, or where an earlier survey ended: it continues after that socket */
	/* On the thread of the socket's worker, for each that fits, of one worker from the youngest
	 * on. May end the socket. False: no further one. */
	bool (*visit)(struct socket_survey *survey, struct websocket *socket);
	/* On the main thread, once: the survey's memory is its owner's again. */
	void (*done)(struct socket_survey *survey);

	/* private */
	struct node *node;
	struct message message;
	struct socket_walk walk;
	unsigned worker;
	bool is_over;
};

/* On the main thread. All workers must turn until `done`: where one has ended, it is not called. */
void survey_begin(struct socket_survey *survey, struct node *node);

#endif
