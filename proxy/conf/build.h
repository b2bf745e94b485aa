/*
 * A snapshot in the making.
 *
 *   reader --section, setting--> build: instance, row of the table, value --> check, order --> conf
 *
 * An instance is one section of the file: its struct, and its settings as they were written, which
 * later checks point at and `sluice check --dump` prints.
 */
#ifndef CONF_BUILD_H
#define CONF_BUILD_H

#include "conf/arena.h"
#include "conf/conf.h"
#include "conf/errors.h"
#include "conf/lines.h"
#include "conf/name_index.h"
#include "conf/text_index.h"
#include "conf/options.h"
#include "conf/reader.h"

/* A reference, by name, to a section elsewhere in the file: looked up when all is read. */
struct reference {
	const struct option *option;
	const char *name;
	unsigned line;
};

struct setting {
	const struct option *option;
	const char *text; /* as written: variables by their names */
	unsigned line;
	bool wrong; /* an error was added */
	struct setting *next;
};

struct instance {
	const struct option_section *section;
	const char *name; /* "" when the section has none */
	unsigned line;
	const char *folder; /* what relative paths in it are taken from */
	void *object;       /* the section's struct */
	struct setting *settings, **settings_tail;
	struct reference *references;
	size_t reference_count;
	bool revised; /* has settings that the file does not have: conf_revise */
	bool unclear; /* a line of it can't be read */
	/* Bit n % 64 of word n / 64: an unknown key is near to the section's option n. */
	uint64_t meant[OPTIONS_MOST / 64];
	struct instance *next;
};

/* The object of conf.source: the file as it was written, for dumps. */
struct conf_source {
	struct instance *instances, **instances_tail;
	struct conf_lines lines;
	const char *folder; /* as conf_parse was given it */
};

struct build_file;

struct build {
	struct arena *arena;
	struct conf *conf;
	struct conf_source *source;
	struct conf_errors *errors;
	struct conf_lines lines;       /* those read so far */
	const char *name;              /* of the main file, in messages */
	const char *folder;            /* what relative paths are taken from; may be "" */
	const struct build_file *file; /* that is being read. include.c */
	unsigned included;             /* files so far */
	struct instance *top;          /* for `include` before any section */
	struct name_index names;       /* the sections that were kept */
	struct text_index texts;       /* of lists in which each is once */
	struct instance *current;      /* NULL: in an unknown section */
	bool outside;                  /* before the first section */
	bool section_wrong;            /* a section is not what it was meant to be */
	bool incomplete;               /* a file could not be included: do not miss its sections */
	bool names_files;              /* are files looked at? Not when fuzzing */
	bool only_admin;               /* all but [admin] and `include` is skipped */
	bool is_revision;              /* all sections come by themselves, also included ones */
};

/* Hands all sections and settings to the handler, in their order. */
typedef void build_feed(struct build *build, const struct reader_handler *handler, void *ctx);

/* Takes all sections and settings, applies the defaults and collects the sections' structs. */
void build_take(struct build *build, build_feed *feed, void *ctx);

/* The whole way from what `feed` gives to a snapshot, as conf_parse describes it. snapshot.c */
struct conf *conf_build(const char *name, const char *folder, build_feed *feed, void *ctx,
	struct conf_errors *errors);

/* Reads `text`, the file `path`, after what was read before. */
void build_read_file(struct build *build, const char *path, struct slice text);

/* Remembers which file the main one is, so that none includes it. include.c */
void build_open_main(struct build *build);

/* Checks of the whole configuration: references, required keys, keys that exclude each other.
 * check.c */
void check_snapshot(struct build *build);

/* Does the section's value of another option give this one an effect? options.h: needs. check.c */
bool check_has_effect(const struct instance *instance, const struct option *option);

/* Check one [match], and all of them together. check_match.c */
void check_match(struct build *build, const struct instance *instance);
void check_matches(struct build *build);
/* Fills `when` from the names that the section's option `key` has. */
void check_when(struct build *build, const struct instance *instance, const char *key,
	struct conf_when *when);

/* The part of that which is about limits: one [limit], and those of all routes. check_limits.c */
void check_limit(struct build *build, const struct instance *instance);
void check_limits_of_routes(struct build *build);
bool check_limits_have(const struct conf_limits *limits, const struct conf_limit *limit);

/* Checks a route's options of WebSockets. check_websocket.c */
void check_websocket(struct build *build, const struct instance *instance);
/* Runs after the checks of all limits. */
void check_max_sockets(struct build *build, const struct instance *instance);
/* Finds the routes whose servers also serve a gateway, after all routes. */
void check_servers_of_gateways(const struct build *build);

/* Check [fleet], and a [limit] with scope = fleet. check_fleet.c */
void check_fleet(struct build *build, const struct instance *instance);
void check_limit_of_fleet(struct build *build, const struct instance *instance);
/* Checks a [route]'s session_scope. */
void check_session_scope(struct build *build, const struct instance *instance);
/* Checks an [upstream]'s health_shared. */
void check_health_shared(struct build *build, const struct instance *instance);

/* Warns of options of TLS that have no effect, as nothing of the section has TLS, and of
 * tls_verify = off; `of` is what would have TLS, `to` the peer. check_tls.c */
void check_tls_effects(struct build *build, const struct instance *instance,
	const struct conf_tls *tls, bool has_tls, const char *of, const char *to);

/* Checks an [upstream]'s TLS. check_tls.c */
void check_upstream_tls(struct build *build, const struct instance *instance);

/* Checks a [semaphore]. check_semaphore.c */
void check_semaphore(struct build *build, const struct instance *instance);
/* Counts a node once for each of its upstreams with the semaphore, as each has a share of its own.
 * After all upstreams. check_semaphore.c */
void check_semaphore_nodes(const struct build *build);

/* Routes that another route always precedes. check_routes.c */
void check_routes_are_reached(struct build *build);

/* Sorts the routes and makes the table of hosts. order.c */
void order_routes(struct build *build);

/* `[kind name]` for messages, from the arena. */
const char *instance_title(struct build *build, const struct instance *instance);

/* The first line of a setting by its key, or NULL when the file does not have it. */
const struct setting *instance_setting(const struct instance *instance, const char *key);

/* Its line, or that of the section when the file does not have it. */
unsigned instance_setting_line(const struct instance *instance, const char *key);

/* Is the key not there, and no slip hides it? */
bool instance_lacks(const struct instance *instance, const char *key);

/* `line 12`, for a message about the line `from`; `FILE:12` when that is in another file. */
const char *build_where(struct build *build, unsigned line, unsigned from);

/* `name:line: [section] what` */
void build_fail(struct build *build, const struct instance *instance, unsigned line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same, but no error: it is added to the snapshot's warnings. */
void build_warn(struct build *build, const struct instance *instance, unsigned line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
