#include "exchange/owner_marks.h"

#include "base/clock.h"
#include "exchange/owner_table.h"

uint64_t owner_mark(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	uint64_t mark = use->session->mark;
	pthread_mutex_unlock(&stripe->lock);
	return mark;
}

void owner_raise_mark(struct owners *owners, const struct owner_use *use)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	uint64_t now_ns = clock_boot_ns();
	use->session->mark = now_ns > use->session->mark ? now_ns : use->session->mark + 1;
	pthread_mutex_unlock(&stripe->lock);
}

/* With the lock. The oldest mark makes room: a node that sends nothing for long is gone. */
static bool take_mark(struct owner_session *session, uint64_t instance, uint64_t mark)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < OWNER_MARKS; i++) {
		if (session->marks[i].instance == instance && session->marks[i].mark > 0) {
			if (mark < session->marks[i].mark)
				return false;
			session->marks[i].mark = mark;
			return true;
		}
		if (session->marks[i].mark < session->marks[oldest].mark)
			oldest = i;
	}
	session->marks[oldest].instance = instance;
	session->marks[oldest].mark = mark;
	return true;
}

bool owner_take_mark(
	struct owners *owners, const struct owner_use *use, uint64_t instance, uint64_t mark)
{
	struct owner_stripe *stripe = owner_stripe_of(owners, use->session->key);

	pthread_mutex_lock(&stripe->lock);
	bool is_taken = take_mark(use->session, instance, mark);
	pthread_mutex_unlock(&stripe->lock);
	return is_taken;
}
