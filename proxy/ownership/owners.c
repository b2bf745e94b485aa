#include "ownership/owners.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ownership/owner_use.h"
#include "ownership/owner_nodes.h"
#include "ownership/owner_sweep.h"
#include "ownership/owner_table.h"

enum { FIRST_BUCKETS = 16 };

struct owners *owners_new(const struct owner_store *store, struct upstream_states *states)
{
	struct owners *owners = aligned_alloc(64, sizeof(*owners));
	bool good = owners != NULL;

	if (!owners)
		return NULL;
	memset(owners, 0, sizeof(*owners));
	owners->store = store;
	owners->states = states;
	owners->born_ns = clock_boot_ns();
	owners->most = SIZE_MAX; /* until owners_set_self: other workers may serve before */
	pthread_mutex_init(&owners->lock, NULL);
	if (getrandom(&owners->instance, sizeof(owners->instance), 0) != sizeof(owners->instance))
		owners->instance = clock_wall_ns();
	snprintf(owners->instance_text, sizeof(owners->instance_text), "%llu",
		(unsigned long long)(owners->instance >> 4));
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		pthread_mutex_init(&stripe->lock, NULL);
		stripe->bucket_count = FIRST_BUCKETS;
		stripe->buckets = calloc(FIRST_BUCKETS, sizeof(struct owner_session *));
		good = good && stripe->buckets;
	}
	if (good)
		return owners;
	owners_free(owners);
	return NULL;
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		for (size_t j = 0; stripe->buckets && j < stripe->bucket_count; j++) {
			while (stripe->buckets[j]) {
				struct owner_session *session = stripe->buckets[j];
				stripe->buckets[j] = session->next;
				owner_line_free(session);
				owner_session_free(session);
			}
		}
		free(stripe->buckets);
		pthread_mutex_destroy(&stripe->lock);
	}
	owner_nodes_free(owners);
	while (owners->selves) {
		struct owner_self *self = owners->selves;
		owners->selves = self->next;
		free(self);
	}
	pthread_mutex_destroy(&owners->lock);
	free(owners);
}

/* With the lock. NULL without memory. */
static struct owner_self *self_of(struct owners *owners, const char *text)
{
	struct owner_self *self = owners->selves;

	while (self && strcmp(self->text, text) != 0)
		self = self->next;
	if (self)
		return self;
	self = calloc(1, sizeof(*self));
	if (!self)
		return NULL;
	snprintf(self->text, sizeof(self->text), "%s", text);
	self->next = owners->selves;
	owners->selves = self;
	return self;
}

bool owners_set_self(struct owners *owners, const char *name, const char *address,
	uint64_t lease_ms, size_t sessions_most)
{
	char text[OWNER_NODE_BYTES];

	/* relaxed: settings */
	atomic_store_explicit(&owners->most, sessions_most, memory_order_relaxed);
	atomic_store_explicit(&owners->lease_ms, lease_ms, memory_order_relaxed);
	snprintf(text, sizeof(text), "%016llx/%s/%s", (unsigned long long)owners->instance, name,
		address);
	pthread_mutex_lock(&owners->lock);
	struct owner_self *self = self_of(owners, text);
	/* release: pairs with the acquire in owner_self */
	struct owner_self *before =
		self ? atomic_exchange_explicit(&owners->self, self, memory_order_acq_rel) : NULL;
	pthread_mutex_unlock(&owners->lock);
	if (!before || before == self)
		return false;
	owners_yield(owners); /* what it owns under the other address */
	return true;
}

bool owners_unset_self(struct owners *owners)
{
	/* relaxed: nothing is read through it */
	if (!atomic_exchange_explicit(&owners->self, NULL, memory_order_relaxed))
		return false;
	owners_yield(owners);
	return true;
}

struct slice owners_instance(const struct owners *owners)
{
	return slice_of(owners->instance_text);
}

bool owners_are_none(const struct owners *owners)
{
	/* relaxed: a number alone */
	return atomic_load_explicit(&owners->count, memory_order_relaxed) == 0;
}

bool owners_are_replaced(const struct owners *owners)
{
	/* relaxed: a flag alone */
	return atomic_load_explicit(&owners->is_replaced, memory_order_relaxed);
}

void owners_describe(struct owners *owners, struct session_key key, char name[CONF_NODE_BYTES])
{
	struct owner_stripe *stripe = owner_stripe_of(owners, key);

	name[0] = '\0';
	pthread_mutex_lock(&stripe->lock);
	const struct owner_session *session = *owner_session_find(stripe, key);
	if (session && session->side == OWNER_SIDE_ELSEWHERE) {
		snprintf(name, CONF_NODE_BYTES, "%s", session->node->name);
	} else if (session && session->side == OWNER_SIDE_HERE) {
		const struct owner_self *self = owner_self(owners);
		const char *begin = self ? strchr(self->text, '/') : NULL;
		if (begin)
			snprintf(name, CONF_NODE_BYTES, "%.*s", (int)strcspn(begin + 1, "/"),
				begin + 1);
	}
	pthread_mutex_unlock(&stripe->lock);
}
