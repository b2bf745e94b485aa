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

/* With the lock. The one that was taken longest ago makes room: a node that sends nothing for long
 * is gone. Marks themselves are by the clocks of different machines. */
static bool take_mark(struct owner_session *session, uint64_t instance, uint64_t mark)
{
	uint64_t now_ns = clock_boot_ns();
	unsigned oldest = 0;

	for (unsigned i = 0; i < OWNER_MARKS; i++) {
		if (session->marks[i].instance == instance && session->marks[i].taken_ns > 0) {
			if (mark < session->marks[i].mark)
				return false;
			session->marks[i].mark = mark;
			session->marks[i].taken_ns = now_ns;
			return true;
		}
		if (session->marks[i].taken_ns < session->marks[oldest].taken_ns)
			oldest = i;
	}
	session->marks[oldest].instance = instance;
	session->marks[oldest].mark = mark;
	session->marks[oldest].taken_ns = now_ns;
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
