/*
 * The configuration: one immutable snapshot.
 *
 *   ini text --reader (inih)--> rows of the option table --parse, bounds, cross checks--> snapshot
 *
 * A snapshot is built whole or not at all: conf_load returns every error it found, each with
 * file:line. Once built nothing in it changes; a reload builds another. It is freed when its last
 * holder lets go (conf_hold, conf_release), so exchanges in flight finish on the one they began
 * with.
 *
 * All texts are NUL-terminated and owned by the snapshot. All arrays are in file order, but for
 * `routes`, which are sorted from the most specific. Times are in milliseconds unless the name has
 * another unit.
 *
 * The structs of a section are in a header of their own: listener.h, upstream.h, match.h, limit.h,
 * route.h, fleet.h.
 */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "conf/fleet.h"
#include "conf/key.h"
#include "conf/limit.h"
#include "conf/lines.h"
#include "conf/listener.h"
#include "conf/match.h"
#include "conf/route.h"
#include "conf/terms.h"
#include "conf/upstream.h"

struct arena;
struct conf_source;

/* Warnings: valid, but hardly meant. For people, without `file:line: ` in front. */
struct conf_warning {
	unsigned line; /* for conf_place */
	const char *text;
};

/* [admin]: none without a bind */
struct conf_admin {
	struct conf_address *binds;
	size_t bind_count;
	const char *token_path; /* NULL: none is asked for */
	unsigned token_line;
	const char *certificate, *certificate_key; /* PEM; NULL: http; NULL: in the same file */
	unsigned certificate_line;
	bool dashboard;
};

enum conf_traceparent { CONF_TRACEPARENT_PASS, CONF_TRACEPARENT_BEGIN, CONF_TRACEPARENT_OFF };

/* Fields that sluice adds to requests about their way. */
struct conf_hop {
	const char *via; /* pseudonym in Via; NULL when off, the default */
	enum conf_traceparent traceparent;
	bool forwarded; /* send Forwarded (RFC 7239) too, on */
};

/* A claim of Grip-Sig, and of no publisher's token. The same key signs both: without it, a program
 * that reads one request to a backend could publish for an hour. */
#define CONF_GRIP_REQUEST_CLAIM "request"

/* The signatures between sluice and the backends of gateways. */
struct conf_grip {
	struct conf_secret key;
	const char *issuer;
};

enum conf_access_format { CONF_ACCESS_COMBINED, CONF_ACCESS_JSON };

/* The callers' use of their limits, in files for invoices. */
struct conf_usage {
	uint64_t interval_ms; /* `usage`; 0: it is not kept */
	uint64_t bytes;       /* of its files, 1G */
};

/* The bounds on what is kept of all callers and clients. */
struct conf_totals {
	uint64_t callers;             /* table capacity for each limit, 1M */
	uint64_t sessions;            /* sessions kept at most, 1M */
	uint64_t queue;               /* waiting over all sessions, 100k */
	uint64_t queue_bytes;         /* what these hold in memory, 512M; 0: no bound */
	uint64_t socket_gather_bytes; /* what messages hold until passed on, 256M; 0: no bound */
	uint64_t socket_queue_bytes;  /* what the send queues of sockets hold, 256M; 0: no bound */
	uint64_t channels;            /* of GRIP that sockets are subscribed to, 1M */
};

/* Where bodies are kept for slow clients. */
struct conf_body_store {
	uint64_t memory_bytes, disk_bytes; /* of all bodies kept: 64M, 1G */
	const char *folder;                /* /var/tmp */
};

/* The contents and destinations of the logs. */
struct conf_logs {
	enum log_level level;
	struct log_target error, access;
	enum conf_access_format access_format;
};

/* Forms that occur in any key of the snapshot. */
struct conf_key_facts {
	struct conf_text_list query; /* query parameters: secrets */
	bool has_tls;                /* tls:FACT */
};

struct conf {
	const char *path; /* the main file */
	/* [sluice] */
	struct conf_text_list includes; /* the patterns, absolute or as conf.path is */
	unsigned workers;               /* auto: one a processor */
	const char *state;              /* folder for the throttle counters; NULL: memory only */
	bool state_required;            /* no: fall back to memory when the folder can't be used */
	struct conf_usage usage;
	struct conf_totals totals;
	uint64_t lame_duck_ms;        /* 0 */
	uint64_t shutdown_timeout_ms; /* 30s */
	uint32_t buffer_bytes;        /* buffer_size: one read, 32k */
	struct conf_body_store body_store;
	struct conf_logs logs;
	const char *request_id_field; /* request_id = X-Request-Id; NULL when off */
	struct conf_hop hop;
	const char *pid_file;
	const char *user; /* after binding, drop to this user; NULL: stay */
	struct conf_grip grip;
	struct conf_admin admin;
	struct conf_fleet fleet;

	struct conf_listener *listeners;
	size_t listener_count;
	struct conf_upstream *upstreams;
	size_t upstream_count;
	struct conf_matches matches;
	struct conf_limit *limits;
	size_t limit_count;
	struct conf_key_facts keys;
	const struct conf_key *plans_key; /* [plans] key; NULL without plans */
	enum conf_unknown unknown;        /* [plans] unknown */
	struct conf_plan *plans;
	size_t plan_count;
	const struct conf_plan *default_plan; /* [plan default]; NULL: no limits for the unlisted */
	struct conf_route *routes;            /* most specific first */
	size_t route_count;
	struct conf_hosts hosts;

	struct conf_warning *warnings; /* by line */
	size_t warning_count;

	/* conf/'s own */
	struct arena *arena; /* owns all of the above and this struct */
	const struct conf_source *source;
	atomic_uint *holders;
};

/* One error, for people: `file:line: what is wrong; what was expected`. */
struct conf_error {
	char *text;
	unsigned line; /* over all files (conf/lines.h); 0: the main file as a whole */
};

struct conf_errors {
	struct conf_error *items;
	size_t count;
	const struct conf_lines *lines; /* of the files read so far; NULL before and after */
	bool incomplete;                /* memory ran out: there may be more, and none in `items` */
};

/*
 * Reads and checks the file at `path`. Returns a snapshot held once, or NULL with at least one
 * error in `errors`, sorted by line, all of them unless `incomplete`. The caller frees the errors
 * with conf_errors_free in either case.
 */
struct conf *conf_load(const char *path, struct conf_errors *errors);
/* The same for a process that serves, which must not wait: only a regular file is read, no pipe. */
struct conf *conf_load_again(const char *path, struct conf_errors *errors);

/* Reads only [admin] (and `include`), for a client of a sluice that runs: the snapshot has defaults
 * for all else, and neither errors nor unset variables elsewhere matter. Returns as conf_load. */
struct conf *conf_load_admin(const char *path, struct conf_errors *errors);

/* The same from a text in memory; Messages name the file `name`. Relative file: paths are taken
 * from `folder`; when it is NULL, no file is looked at and those named are taken to be empty; nor
 * is a user looked up. */
struct conf *conf_parse(const char *text, size_t len, const char *name, const char *folder,
	struct conf_errors *errors);

void conf_errors_free(struct conf_errors *errors);

/* The line in which [sluice] sets `key`, for messages; 0 when the file does not set it. */
unsigned conf_line(const struct conf *conf, const char *key);

/* The file and the line of a `line` of the snapshot. For "%s:%u". */
struct conf_place conf_place(const struct conf *conf, unsigned line);
#define CONF_PLACE_ARGS(conf, at) conf_place(conf, at).path, conf_place(conf, at).line

/* Holders are counted atomically; the last release frees the snapshot. Any thread. */
const struct conf *conf_hold(const struct conf *conf);
void conf_release(const struct conf *conf);

#endif
