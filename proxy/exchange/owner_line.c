#include "exchange/owner_line.h"

#include <stdlib.h>

#include "base/container.h"
#include "exchange/owner_table.h"
#include "worker/worker.h"

void owner_line_deliver(struct owner_session *session)
{
	if (session->first)
		message_post(&session->first->worker->loop, &session->first->message);
}

static void leave_line(struct owner_wait *wait)
{
	struct owner_session *session = wait->session;

	session->first = wait->next;
	if (!session->first)
		session->end = &session->first;
	free(wait);
	owner_line_deliver(session);
}

static void on_answer(struct message *message)
{
	struct owner_wait *wait = CONTAINER_OF(message, struct owner_wait, message);
	struct owner_stripe *stripe = owner_stripe_of(wait->owners, wait->session->key);
	struct owner_use *use = wait->use;

	if (use) {
		use->wait = NULL;
		use->answered(use, wait->session->sight);
	}
	pthread_mutex_lock(&stripe->lock);
	leave_line(wait);
	pthread_mutex_unlock(&stripe->lock);
}

bool owner_line_enter(struct owners *owners, struct owner_use *use)
{
	struct owner_session *session = use->session;
	struct owner_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return false;
	wait->message.run = on_answer;
	wait->owners = owners;
	wait->session = session;
	wait->worker = use->worker;
	wait->use = use;
	use->wait = wait;
	*session->end = wait;
	session->end = &wait->next;
	return true;
}

void owner_cancel(struct owner_use *use)
{
	if (use->wait)
		use->wait->use = NULL;
	use->wait = NULL;
}

void owner_line_free(struct owner_session *session)
{
	while (session->first) {
		struct owner_wait *wait = session->first;
		session->first = wait->next;
		free(wait);
	}
}
