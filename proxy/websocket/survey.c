#include "websocket/survey.h"

#include "websocket/state.h"

static void on_done(struct message *message)
{
	struct socket_survey *survey = CONTAINER_OF(message, struct socket_survey, message);

	survey->done(survey);
}

static void on_arrival(struct message *message);

/* To the worker `survey->worker`, or home. */
static void travel(struct socket_survey *survey)
{
	struct node *node = survey->node;
	bool is_over = survey->is_over || survey->worker >= node->worker_count;

	survey->message.run = is_over ? on_done : on_arrival;
	message_post(
		is_over ? &node->loop : &node->workers[survey->worker]->loop, &survey->message);
}

static bool on_visit(struct socket_walk *walk, struct websocket *socket)
{
	struct socket_survey *survey = CONTAINER_OF(walk, struct socket_survey, walk);

	/* Ids of a worker rise, and the youngest are visited first. */
	if (survey->after != 0 && socket_id_worker(survey->after) == survey->worker &&
		socket->id >= survey->after)
		return true;
	if (!filter_fits(&survey->filter, socket))
		return true;
	survey->is_over = !survey->visit(survey, socket);
	return !survey->is_over;
}

static void on_walked(struct socket_walk *walk)
{
	struct socket_survey *survey = CONTAINER_OF(walk, struct socket_survey, walk);

	survey->worker++;
	travel(survey);
}

static void look_up(struct socket_survey *survey, struct websockets *all)
{
	struct websocket *socket = websockets_find(all, survey->id);

	if (socket && filter_fits(&survey->filter, socket))
		survey->visit(survey, socket);
	survey->is_over = true;
	travel(survey);
}

static void on_arrival(struct message *message)
{
	struct socket_survey *survey = CONTAINER_OF(message, struct socket_survey, message);
	struct worker *worker = survey->node->workers[survey->worker];

	if (survey->id != 0) {
		look_up(survey, websockets_of(worker));
		return;
	}
	survey->walk = (struct socket_walk){.visit = on_visit, .done = on_walked};
	walk_begin(&survey->walk, worker);
}

void survey_begin(struct socket_survey *survey, struct node *node)
{
	uint64_t from = survey->id != 0 ? survey->id : survey->after;

	survey->node = node;
	survey->is_over = false;
	survey->worker = from != 0 ? socket_id_worker(from) : 0;
	travel(survey);
}
