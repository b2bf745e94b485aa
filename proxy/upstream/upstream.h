/*
 * A site's upstreams and their servers: which server is asked next, and which is left out.
 *
 *   upstream --balance--> server --state--> in flight, failures, addresses, idle connections
 *        `--state--> run queue, pace                      (upstream/server_state.h: over reloads)
 *
 * A server that fails max_fails times in a row is left out for fail_timeout, then twice that, up to
 * fail_timeout_max; one success forgets it all. When all are left out, all are asked: a wrong guess
 * must not take the service down. But a server that an operator drains or disables is never asked.
 */
#ifndef UPSTREAM_UPSTREAM_H
#define UPSTREAM_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "queue/run_queue.h"
#include "upstream/pace.h"
#include "upstream/server_state.h"

/* A mask of those tried fits a word. */
_Static_assert(CONF_SERVERS_MAX <= 64, "bits of struct exchange's tried");

struct pace_change;
struct tls_client;
struct upstream;

/* A server as one site describes it. Lives as long as the site does. */
struct server {
	struct upstream *upstream;
	const struct conf_server *conf;
	unsigned index;
	struct server_state *state; /* held */
	struct tls_client *tls;     /* held; NULL: plain. site/servers_tls.h */
};

struct upstream {
	const struct conf_upstream *conf;
	struct upstream_state *state; /* held */
	struct server *servers;
	size_t server_count;
	bool is_node; /* another node: its connections begin with upstream/greeting.h */
	struct run_queue_config bounds; /* what upstream_commit sets in force */
	/* until then: the pace of an upstream that had none, or how the one that it has changes */
	struct pace *new_pace;
	struct pace_change *pace_change;
};

/* Prepares an upstream of a site to come; `description` must outlive it. Nothing that others see
 * changes. NULL without memory. Main thread. */
struct upstream *upstream_new(
	struct upstream_states *states, const struct conf_upstream *description);
/* Its bounds (max_in_flight, pace, quantum, shedding) take effect. Main thread. */
void upstream_commit(struct upstream *upstream);
/* Also when it was never committed. The idle connections of servers that no other site has must be
 * closed by then. Any thread. NULL is ignored. */
void upstream_free(struct upstream *upstream);

/* Is there a bound on the requests that are at the upstream, or at one of its servers, at once? */
static inline bool upstream_bounds_requests(const struct upstream *upstream)
{
	const struct run_queue_config *bounds = &upstream->bounds;

	return bounds->max_in_flight > 0 || bounds->adaptive || bounds->takes_slots ||
	       bounds->capacity != NULL;
}

/* The upstream's server of that state, or NULL. */
struct server *upstream_server_of(
	const struct upstream *upstream, const struct server_state *state);

/* The servers (a mask of indexes) that one more exchange may be sent to now, whether they have a
 * place for it or not: enabled, not ejected, not in the mask `tried`. Where all these are ejected,
 * they are asked nevertheless. 0: none. */
uint64_t upstream_serving(const struct upstream *upstream, uint64_t tried, uint64_t now_ms);

/*
 * The one of `servers` (a mask of indexes) to ask for one more exchange, and takes a place of it
 * (server_done gives it back). `hash`: for balance = hash (rendezvous hashing, so that a server's
 * absence moves only its own callers). NULL when none of them has a place.
 */
struct server *upstream_pick(struct upstream *upstream, unsigned worker, uint64_t servers,
	uint64_t hash, uint64_t now_ms);
void server_done(struct server *server);

/* The slot of the address whose turn it is (upstream/server_addresses.h). */
unsigned server_choose_address(
	struct server *server, unsigned worker, uint64_t hash, uint64_t now_ms);

/* A place at this very server; false if max_in_flight leaves none. server_done gives it back. */
bool server_take_place(struct server *server);

/* Any thread. */
enum server_mode server_mode(const struct server *server);
void server_set_mode(struct server *server, enum server_mode mode);
/* An active check has found it failing, or not any more. Any thread. */
void server_set_unhealthy(struct server_state *server, bool unhealthy);
/* `enabled`, `draining`, `disabled` */
const char *server_mode_name(enum server_mode mode);

/* Its weight, which an operator may have set until the next start; 0 makes it the file's again. */
unsigned server_weight(const struct server *server);
void server_set_weight(struct server *server, unsigned weight);

/* Is it in, or the only one? Whatever its mode is. */
bool server_may_serve(struct server *server, uint64_t now_ms);

/* May one be asked now that is none of `others` (a mask of indexes)? */
bool upstream_has_another(const struct upstream *upstream, uint64_t others, uint64_t now_ms);

/* Is one of `servers` (a mask of indexes) neither drained nor disabled? */
bool upstream_has_enabled(const struct upstream *upstream, uint64_t servers);

/* May a failure have a line in the log (base/log_pace.h)? `unlogged` is how many had none since the
 * last line. */
bool server_may_log(struct server *server, uint64_t now_ms, unsigned *unlogged);

/* How many failures have had no line, if the last line is that old: they count as written then. */
unsigned server_take_unlogged(struct server *server, uint64_t now_ms);
bool server_has_unlogged(const struct server *server);

/* After a handshake of TLS: a line in the log, once a day, if the certificate expires soon. */
void server_warn_of_expiry(struct server *server);

/* How it went, for the passive check. */
void server_succeeded(struct server *server);
void server_failed(struct server *server, const char *why, uint64_t now_ms);

#endif
