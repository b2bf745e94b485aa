#include "cli/lock/lock_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "net/tls_client.h"
#include "net/tls_stream.h"
#include "site/servers_tls.h"

void lock_store_print_front(const struct lock_store *store)
{
	const struct conf *conf = store->conf;

	fprintf(stderr, "%s:%u: [fleet] store: %s: ",
		CONF_PLACE_ARGS(conf, conf->fleet.store.addresses[0].line), conf->fleet.store.text);
}

static void on_changed(struct store_link *link, bool failed)
{
	struct lock_store *store = CONTAINER_OF(link, struct lock_store, link);

	if (failed && !store->is_refused) {
		store->is_refused = store_why_is_lasting(link->why);
		lock_store_print_front(store);
		fprintf(stderr, "%s%s\n", link->why, store->is_refused ? "" : "; trying again");
	}
	if (store->changed)
		store->changed(store);
}

static void on_redirected(struct store_link *link, enum redirect_kind kind)
{
	(void)link;
	(void)kind;
}

bool lock_store_look_refused(struct lock_store *store)
{
	const char *why = store->link.server.peer.why;

	if (store->is_refused || store->link.cluster || store->link.state != STORE_READY ||
		!store_why_is_lasting(why))
		return store->is_refused;
	store->is_refused = true;
	lock_store_print_front(store);
	fprintf(stderr, "%s\n", why);
	return true;
}

/* At the end of a round. */
static bool send_all(struct loop_stage *stage)
{
	struct lock_store *store = CONTAINER_OF(stage, struct lock_store, stage);
	bool has_work = locks_send(&store->locks);

	store_link_flush(&store->link);
	return has_work;
}

static bool begin(struct lock_store *store, struct tls_client *tls, uint64_t silence_ms)
{
	uint64_t seed = clock_monotonic_ns() ^ (uint64_t)getpid() << 32;

	if (loop_init(&store->loop) != 0)
		return false;
	loop_enter(&store->loop);
	stream_loop_init(&store->streams, &store->loop);
	if (!store_link_init(&store->link, &store->loop, seed, on_changed, on_redirected)) {
		stream_loop_end(&store->streams);
		loop_end(&store->loop);
		return false;
	}
	store->link.streams = &store->streams;
	locks_init(&store->locks, &store->loop, &store->link);
	store->locks.prefix = store->conf->fleet.prefix;
	store->locks.silence_ms = silence_ms;
	store->stage.run = send_all;
	loop_add_stage(&store->loop, LOOP_WRITE, &store->stage);
	if (store_link_open(&store->link, &store->conf->fleet, tls))
		return true;
	lock_store_close(store);
	return false;
}

bool lock_store_open(
	struct lock_store *store, const char *command, const struct conf *conf, uint64_t silence_ms)
{
	struct tls_client *tls = NULL;
	char why[512];

	*store = (struct lock_store){.command = command, .conf = conf};
	if (!conf->fleet.store.text) {
		fprintf(stderr, "%s: there is no store in [fleet]; expected store = redis://...\n",
			conf->path);
		return false;
	}
	if (conf->fleet.store.has_tls) {
		tls = servers_tls_of_store(&conf->fleet, NULL, why, sizeof(why));
		if (!tls) {
			fprintf(stderr, "%s: [fleet]: %s\n", conf->path, why);
			return false;
		}
	}
	bool is_begun = begin(store, tls, silence_ms);
	tls_client_release(tls); /* the link holds it */
	if (is_begun)
		return true;
	fprintf(stderr, "%s: %s\n", command, strerror(ENOMEM));
	return false;
}

void lock_store_close(struct lock_store *store)
{
	store->changed = NULL;
	if (store->link.state != STORE_OFF)
		store_link_close(&store->link);
	loop_finish_turn(&store->loop);
	store_link_end(&store->link);
	locks_end(&store->locks);
	tls_end_leaving(&store->streams);
	stream_loop_end(&store->streams);
	loop_enter(NULL);
	loop_end(&store->loop);
}

bool lock_store_turn(struct lock_store *store)
{
	int error = loop_run_turn(&store->loop);

	if (error)
		fprintf(stderr, "%s: %s\n", store->command, strerror(error));
	return error == 0;
}
