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

struct daemon;
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

/* Reads the daemon's file again and prepares its contents; one that was prepared before is dropped.
 * `errors` are those of the file, for conf_errors_free; NULL: only the error log has them. Main
 * thread. */
enum reload_outcome daemon_reload(struct daemon *daemon, struct conf_errors *errors);

/* The same with settings changed and without the file (conf/revise.h): the next reload brings the
 * file's back. One that was prepared before must not be waiting. */
enum reload_outcome daemon_revise(struct daemon *daemon, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors);

/* The names are known, or the time for them is over. */
void reload_continue(struct daemon *daemon);
/* Drops what was prepared, if anything was. */
void reload_cancel(struct daemon *daemon);

/* The two steps. reload_prepare takes over the hold on `conf`; it returns NULL, with lines in the
 * error log, when something failed. Main thread. */
struct reload *reload_prepare(struct daemon *daemon, const struct conf *conf, bool is_revision);
void reload_commit(struct daemon *daemon, struct reload *reload);
void reload_discard(struct daemon *daemon, struct reload *reload);

/* Writes the warnings of a file that is taken to the error log. */
void reload_write_warnings(const struct conf *conf);

/* The throttles' table has moved: what it left is freed when all workers have seen that. */
void reload_note_change(struct daemon *daemon);

/* The worker has taken the site of the last reload: it is in no call that began before. */
void reload_seen(struct worker *worker);

/* Frees what the earlier limits left, once all workers have seen the last reload. Main thread. */
void reload_collect(struct daemon *daemon);

/* The table of the throttles, in conf's state folder or in memory. False with a line in the log. */
bool daemon_open_throttles(struct daemon *daemon, const struct conf *conf);
void daemon_close_throttles(struct daemon *daemon);

#endif
