#include "channels/channels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "throttle/throttle.h"

#define SHARDS        64
#define FIRST_BUCKETS 16

/* A subscriber with more subscriptions than this has a table of them: with fewer a walk is short.
 */
#define LISTED 32

struct channel_part {
	struct channel *channel;
	struct channel_part *next; /* of the channel; under the shard's lock */
	unsigned worker;
	struct subscription *first; /* the worker's own */
};

/* Under the lock of its shard, but for what never changes. */
struct channel {
	struct channel *next; /* of the bucket */
	uint64_t hash;
	uint64_t subscriptions;
	struct channel_part *parts;
	uint32_t holds; /* of publications */
	uint32_t bytes;
	char name[];
};

struct shard {
	pthread_mutex_t lock;
	struct channel **buckets;
	size_t mask, count;
};

struct channels {
	struct throttle_seed seed; /* clients may choose names */
	_Atomic uint64_t count, subscriptions;
	struct shard shards[SHARDS];
};

/* ---- life ------------------------------------------------------------------------------------ */

struct channels *channels_new(void)
{
	struct channels *channels = calloc(1, sizeof(*channels));

	if (!channels || getentropy(&channels->seed, sizeof(channels->seed)) != 0) {
		free(channels);
		return NULL;
	}
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&channels->shards[i].lock, NULL);
	return channels;
}

void channels_free(struct channels *channels)
{
	if (!channels)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_destroy(&channels->shards[i].lock);
		free(channels->shards[i].buckets);
	}
	free(channels);
}

uint64_t channels_count(const struct channels *channels)
{
	/* relaxed: a number for people */
	return atomic_load_explicit(&channels->count, memory_order_relaxed);
}

uint64_t channels_subscriptions(const struct channels *channels)
{
	return atomic_load_explicit(&channels->subscriptions, memory_order_relaxed); /* as above */
}

/* ---- the table: all with the shard's lock held ----------------------------------------------- */

static uint64_t hash_of(const struct channels *channels, struct slice name)
{
	return throttle_hash(&channels->seed, name.at, name.len).lo;
}

static struct shard *shard_of(struct channels *channels, uint64_t hash)
{
	return &channels->shards[hash >> 58];
}

_Static_assert(SHARDS == 1 << (64 - 58), "the upper bits choose the shard");

/* Where it is linked, or would be. */
static struct channel **find(const struct shard *shard, uint64_t hash, struct slice name)
{
	struct channel **at = &shard->buckets[hash & shard->mask];

	while (*at && ((*at)->hash != hash ||
			      !slice_equal((struct slice){(*at)->name, (*at)->bytes}, name)))
		at = &(*at)->next;
	return at;
}

/* One bucket a channel. Without memory the table stays as it is, with longer chains. */
static void grow(struct shard *shard)
{
	size_t size = shard->buckets ? 2 * (shard->mask + 1) : FIRST_BUCKETS;
	struct channel **buckets = calloc(size, sizeof(struct channel *));

	if (!buckets)
		return;
	for (size_t i = 0; shard->buckets && i <= shard->mask; i++) {
		struct channel *next;
		for (struct channel *channel = shard->buckets[i]; channel; channel = next) {
			struct channel **at = &buckets[channel->hash & (size - 1)];
			next = channel->next;
			channel->next = *at;
			*at = channel;
		}
	}
	free(shard->buckets);
	shard->buckets = buckets;
	shard->mask = size - 1;
}

/* A new one; NULL with `*result` set. */
static struct channel *add(struct channels *channels, struct shard *shard, uint64_t hash,
	struct slice name, uint64_t most, enum channel_result *result)
{
	struct channel *channel;

	if (!shard->buckets || shard->count > shard->mask)
		grow(shard);
	*result = CHANNEL_TOO_MANY;
	/* relaxed: it counts, and orders nothing */
	if (atomic_fetch_add_explicit(&channels->count, 1, memory_order_relaxed) < most) {
		*result = CHANNEL_NO_MEMORY;
		channel = shard->buckets ? malloc(sizeof(*channel) + name.len) : NULL;
		if (channel) {
			struct channel **at = &shard->buckets[hash & shard->mask];
			*channel = (struct channel){
				.next = *at, .hash = hash, .bytes = (uint32_t)name.len};
			memcpy(channel->name, name.at, name.len);
			*at = channel;
			shard->count++;
			return channel;
		}
	}
	atomic_fetch_sub_explicit(&channels->count, 1, memory_order_relaxed);
	return NULL;
}

static void drop_if_unused(struct channels *channels, struct shard *shard, struct channel *channel)
{
	if (channel->parts || channel->holds > 0)
		return;
	*find(shard, channel->hash, (struct slice){channel->name, channel->bytes}) = channel->next;
	shard->count--;
	atomic_fetch_sub_explicit(&channels->count, 1, memory_order_relaxed);
	free(channel);
}

static struct channel_part *find_part(const struct channel *channel, unsigned worker)
{
	struct channel_part *part = channel->parts;

	while (part && part->worker != worker)
		part = part->next;
	return part;
}

/* Its part of a worker, which may be new, with one subscription more. NULL without memory. */
static struct channel_part *take_part(struct channel *channel, unsigned worker)
{
	struct channel_part *part = find_part(channel, worker);

	if (!part) {
		part = malloc(sizeof(*part));
		if (!part)
			return NULL;
		*part = (struct channel_part){
			.channel = channel, .next = channel->parts, .worker = worker};
		channel->parts = part;
	}
	channel->subscriptions++;
	return part;
}

static void drop_part(struct channel_part *part)
{
	struct channel_part **at = &part->channel->parts;

	while (*at != part)
		at = &(*at)->next;
	*at = part->next;
	free(part);
}

/* ---- subscribing ----------------------------------------------------------------------------- */

/* The part of the view's worker; NULL: there is none. It stays until the worker ends its last
 * subscription. */
static struct channel_part *look_up(const struct channel_view *view, struct slice name)
{
	uint64_t hash = hash_of(view->channels, name);
	struct shard *shard = shard_of(view->channels, hash);
	struct channel_part *part = NULL;

	pthread_mutex_lock(&shard->lock);
	if (shard->buckets) {
		struct channel *channel = *find(shard, hash, name);
		part = channel ? find_part(channel, view->worker) : NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	return part;
}

/* The part with one subscription more; NULL with `*result` set. */
static struct channel_part *enter(const struct channel_view *view, struct slice name, uint64_t most,
	enum channel_result *result)
{
	struct channels *channels = view->channels;
	uint64_t hash = hash_of(channels, name);
	struct shard *shard = shard_of(channels, hash);
	struct channel_part *part = NULL;

	pthread_mutex_lock(&shard->lock);
	struct channel *channel = shard->buckets ? *find(shard, hash, name) : NULL;
	if (!channel)
		channel = add(channels, shard, hash, name, most, result);
	if (channel) {
		*result = CHANNEL_NO_MEMORY;
		part = take_part(channel, view->worker);
		if (!part)
			drop_if_unused(channels, shard, channel);
	}
	pthread_mutex_unlock(&shard->lock);
	return part;
}

static struct subscription **bucket_of(
	const struct subscriber *subscriber, const struct channel_part *part)
{
	uint64_t hash = (uint64_t)(uintptr_t)part * UINT64_C(0x9e3779b97f4a7c15);

	return &subscriber->buckets[(hash >> 32) & subscriber->mask];
}

static struct subscription *find_subscription(
	const struct subscriber *subscriber, const struct channel_part *part)
{
	struct subscription *subscription = subscriber->first;

	if (subscriber->buckets) {
		subscription = *bucket_of(subscriber, part);
		while (subscription && subscription->part != part)
			subscription = subscription->next_of_bucket;
	} else {
		while (subscription && subscription->part != part)
			subscription = subscription->next_of_subscriber;
	}
	return subscription;
}

static void put_into_bucket(struct subscriber *subscriber, struct subscription *subscription)
{
	struct subscription **at = bucket_of(subscriber, subscription->part);

	subscription->next_of_bucket = *at;
	*at = subscription;
}

/* Without memory it stays as it is, with longer walks. */
static void grow_table(struct subscriber *subscriber)
{
	size_t size = 2 * LISTED;
	struct subscription **buckets, *subscription = subscriber->first;

	if (subscriber->buckets)
		size = 2 * ((size_t)subscriber->mask + 1);
	buckets = calloc(size, sizeof(struct subscription *));
	if (!buckets)
		return;
	free(subscriber->buckets);
	subscriber->buckets = buckets;
	subscriber->mask = (uint32_t)size - 1;
	for (; subscription; subscription = subscription->next_of_subscriber)
		put_into_bucket(subscriber, subscription);
}

static void add_to_subscriber(struct subscriber *subscriber, struct subscription *subscription)
{
	uint32_t most = subscriber->buckets ? subscriber->mask : LISTED;

	CHAIN_PUSH(subscriber->first, subscription, prev_of_subscriber, next_of_subscriber);
	if (++subscriber->count > most)
		grow_table(subscriber);
	else if (subscriber->buckets)
		put_into_bucket(subscriber, subscription);
}

static void take_from_subscriber(struct subscriber *subscriber, struct subscription *subscription)
{
	CHAIN_REMOVE(subscriber->first, subscription, prev_of_subscriber, next_of_subscriber);
	subscriber->count--;
	if (!subscriber->buckets)
		return;
	struct subscription **at = bucket_of(subscriber, subscription->part);
	while (*at != subscription)
		at = &(*at)->next_of_bucket;
	*at = subscription->next_of_bucket;
	if (subscriber->count == 0) {
		free(subscriber->buckets);
		subscriber->buckets = NULL;
	}
}

enum channel_result channel_subscribe(struct channel_view *view, struct subscriber *subscriber,
	struct slice name, const struct channel_bounds *bounds)
{
	enum channel_result result = CHANNEL_NO_MEMORY;
	struct channel_part *part = look_up(view, name);

	if (part && find_subscription(subscriber, part))
		return CHANNEL_SUBSCRIBED;
	if (subscriber->count >= bounds->subscriptions)
		return CHANNEL_TOO_MANY_OF_SUBSCRIBER;
	struct subscription *subscription = malloc(sizeof(*subscription));
	if (!subscription)
		return CHANNEL_NO_MEMORY;
	part = enter(view, name, bounds->channels, &result);
	if (!part) {
		free(subscription);
		return result;
	}
	*subscription = (struct subscription){.part = part, .subscriber = subscriber};
	add_to_subscriber(subscriber, subscription);
	CHAIN_PUSH(part->first, subscription, prev, next);
	atomic_fetch_add_explicit(&view->channels->subscriptions, 1, memory_order_relaxed);
	return CHANNEL_SUBSCRIBED;
}

/* Takes it out of its channel, which may end with it. */
static void leave(struct channel_view *view, struct subscription *subscription)
{
	struct channel_part *part = subscription->part;
	struct channel *channel = part->channel;
	struct shard *shard = shard_of(view->channels, channel->hash);

	if (view->cursor == subscription)
		view->cursor = subscription->next;
	CHAIN_REMOVE(part->first, subscription, prev, next);
	pthread_mutex_lock(&shard->lock);
	channel->subscriptions--;
	if (!part->first) {
		drop_part(part);
		drop_if_unused(view->channels, shard, channel);
	}
	pthread_mutex_unlock(&shard->lock);
	atomic_fetch_sub_explicit(&view->channels->subscriptions, 1, memory_order_relaxed);
}

static void end_subscription(struct channel_view *view, struct subscription *subscription)
{
	take_from_subscriber(subscription->subscriber, subscription);
	leave(view, subscription);
	free(subscription);
}

void channel_unsubscribe(
	struct channel_view *view, struct subscriber *subscriber, struct slice name)
{
	const struct channel_part *part = look_up(view, name);
	struct subscription *subscription = part ? find_subscription(subscriber, part) : NULL;

	if (subscription)
		end_subscription(view, subscription);
}

void channel_set_filters(const struct channel_view *view, const struct subscriber *subscriber,
	struct slice name, unsigned filters)
{
	const struct channel_part *part = look_up(view, name);
	struct subscription *subscription = part ? find_subscription(subscriber, part) : NULL;

	if (subscription)
		subscription->filters = filters;
}

void channel_unsubscribe_all(struct channel_view *view, struct subscriber *subscriber)
{
	while (subscriber->first)
		end_subscription(view, subscriber->first);
}

bool channel_has_subscriber(
	const struct channel_view *view, const struct subscriber *subscriber, struct slice name)
{
	const struct channel_part *part = subscriber->first ? look_up(view, name) : NULL;

	return part && find_subscription(subscriber, part);
}

/* ---- publishing ------------------------------------------------------------------------------ */

struct channel *channel_hold(struct channels *channels, struct slice name, uint64_t *subscriptions,
	bool *workers, unsigned worker_count)
{
	uint64_t hash = hash_of(channels, name);
	struct shard *shard = shard_of(channels, hash);

	*subscriptions = 0;
	pthread_mutex_lock(&shard->lock);
	struct channel *channel = shard->buckets ? *find(shard, hash, name) : NULL;
	/* A channel that only another publication holds is as good as gone. */
	if (channel && !channel->parts)
		channel = NULL;
	if (channel) {
		*subscriptions = channel->subscriptions;
		channel->holds++;
		for (const struct channel_part *part = channel->parts; part; part = part->next)
			if (part->worker < worker_count)
				workers[part->worker] = true;
	}
	pthread_mutex_unlock(&shard->lock);
	return channel;
}

void channel_release(struct channels *channels, struct channel *channel)
{
	if (!channel)
		return;
	struct shard *shard = shard_of(channels, channel->hash);
	pthread_mutex_lock(&shard->lock);
	channel->holds--;
	drop_if_unused(channels, shard, channel);
	pthread_mutex_unlock(&shard->lock);
}

struct subscription *channel_first(const struct channel_view *view, struct channel *channel)
{
	struct shard *shard = shard_of(view->channels, channel->hash);

	pthread_mutex_lock(&shard->lock);
	const struct channel_part *part = find_part(channel, view->worker);
	pthread_mutex_unlock(&shard->lock);
	return part ? part->first : NULL;
}
