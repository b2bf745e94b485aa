#include "ownership/owner_line.h"

#include <stdlib.h>

#include "base/container.h"
#include "ownership/owner_table.h"
#include "worker/worker.h"

void owner_line_deliver(struct owner_session *session)
{
	session->is_posted = session->first != NULL;
	if (session->first)
		message_post(&session->first->worker->loop, &session->first->message);
}

/* With the lock. */
static void take_out(struct owner_wait *wait)
{
	*wait->at = wait->next;
	if (wait->next)
		wait->next->at = wait->at;
	else
		wait->session->end = wait->at;
	free(wait);
}

static void on_answer(struct message *message)
{
	struct owner_wait *wait = CONTAINER_OF(message, struct owner_wait, message);
	struct owner_stripe *stripe = owner_stripe_of(wait->owners, wait->session->key);
	struct owner_session *session = wait->session;
	struct owner_use *use = wait->use;

	/* While anybody is in line, nothing is asked that would change what is noted. */
	pthread_mutex_lock(&stripe->lock);
	enum owner_sight sight = session->sight;
	if (use)
		owner_session_note(session, use);
	pthread_mutex_unlock(&stripe->lock);
	if (use) {
		use->wait = NULL;
		use->answered(use, sight);
	}
	pthread_mutex_lock(&stripe->lock);
	take_out(wait);
	owner_line_deliver(session);
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
	wait->at = session->end;
	*session->end = wait;
	session->end = &wait->next;
	return true;
}

void owner_cancel(struct owner_use *use)
{
	struct owner_wait *wait = use->wait;

	if (!wait)
		return;
	use->wait = NULL;
	struct owner_session *session = wait->session;
	struct owner_stripe *stripe = owner_stripe_of(wait->owners, session->key);
	pthread_mutex_lock(&stripe->lock);
	if (session->is_posted && session->first == wait)
		wait->use = NULL; /* its message is under way */
	else
		take_out(wait);
	pthread_mutex_unlock(&stripe->lock);
}

void owner_line_free(struct owner_session *session)
{
	while (session->first) {
		struct owner_wait *wait = session->first;
		session->first = wait->next;
		free(wait);
	}
}
