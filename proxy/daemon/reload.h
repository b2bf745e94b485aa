/*
 * A reload (SIGHUP): the file is read and checked again, all that can fail is prepared, and what is
 * prepared is committed in one step that can't fail and allocates nothing.
 *
 *   SIGHUP --> prepare: conf, sockets, logs, limits, site, names, health checks
 *                 |-- something failed: all of it is dropped, nothing has changed
 *                 |-- new names of servers: wait for DNS, RESOLVE_START_MS at most
 *                 `-> commit: throttles, bounds, logs; every worker takes the site
 *
 * What was admitted still counts; exchanges under way finish by what they began with.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include <stdbool.h>

#include "conf/conf.h"
#include "conf/revise.h"

struct relay;
struct reload;
struct worker;

/* How long a start or a reload waits for the addresses of new names. */
#define RESOLVE_START_MS 3000

enum reload_outcome {
	RELOAD_FAILED,  /* nothing has changed; the error log has the reason */
	RELOAD_DONE,    /* it took effect */
	RELOAD_WAITING, /* it will, when new names of servers are looked up (reload_continue), or an
			   upgrade is over */
};

/* Reads the relay's file again and prepares its contents; one that was prepared before is dropped.
 * `errors` are those of the file, for conf_errors_free; NULL: only the error log has them. Main
 * thread. */
enum reload_outcome relay_reload(struct relay *relay, struct conf_errors *errors);

/* The same with settings changed and without the file (conf/revise.h): the next reload brings the
 * file's back. One that was prepared before must not be waiting. */
enum reload_outcome relay_revise(struct relay *relay, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors);

/* The names are known, or the time for them is over. */
void reload_continue(struct relay *relay);
/* Drops what was prepared, if anything was. */
void reload_cancel(struct relay *relay);

/* The two steps. reload_prepare takes over the hold on `conf`; it returns NULL, with lines in the
 * error log, when something failed. Main thread. */
struct reload *reload_prepare(struct relay *relay, const struct conf *conf, bool is_revision);
void reload_commit(struct relay *relay, struct reload *reload);
void reload_discard(struct relay *relay, struct reload *reload);

/* Writes the warnings of a file that is taken to the error log. */
void reload_write_warnings(const struct conf *conf);

/* The throttles' table has moved: what it left is freed when all workers have seen that. */
void reload_note_change(struct relay *relay);

/* The worker has taken the site of the last reload: it is in no call that began before. */
void reload_seen(struct worker *worker);

/* Frees what the earlier limits left, once all workers have seen the last reload. Main thread. */
void reload_collect(struct relay *relay);

/* The table of the throttles, in conf's state folder or in memory. False with a line in the log. */
bool relay_open_throttles(struct relay *relay, const struct conf *conf);
void relay_close_throttles(struct relay *relay);

#endif
