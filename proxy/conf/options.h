/*
 * The option table: one row an option. It is what the reader knows, what `sluice check --keys`
 * prints, and what the sample ini and the man page are held against by `make check`.
 */
#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct value;

/* A word of an enumeration and what it is stored as. */
struct option_word {
	const char *word; /* NULL ends the list */
	unsigned value;
};

/*
 * How a value is written, read and stored. `parse` stores the value at `value->at`, or reports the
 * error by value_fail and returns false.
 */
struct option;
struct option_type {
	const char *name;     /* for the reference: `duration`, `size`, ... */
	const char *expected; /* for error texts: what a good value looks like */
	bool (*parse)(struct value *value);
	/* Do two sections have the same value, however it was written? conf/same.h. NULL: if its
	 * bytes are the same, as it has neither pointers nor padding. */
	bool (*same)(const struct option *option, const void *a, const void *b);
	/* `parse` adds to a list, of which all zero is an empty one. The default is cleared before
	 * the first value that is written, so that it is replaced. */
	bool adds;
};

/* When a reload brings a new value into effect. Every row has it. */
enum option_reload {
	RELOAD_UNSET,
	RELOAD_LIVE,        /* from the next request on, or the next time it is looked at */
	RELOAD_CONNECTIONS, /* for connections that come to it from then on */
	RELOAD_SOCKETS,     /* for WebSockets that are opened from then on */
	RELOAD_START, /* at the next start; until then each reload warns that it has changed */
};

/* Whether it matters to a request that a route with this setting serves it, and no other route.
 * Every row of [route] has it: a route that has a restriction takes no path that some servers
 * assign to another route (gate/readings.h). */
enum option_route {
	ROUTE_UNSET,
	ROUTE_RESTRICTS, /* bounds, refuses or rewrites requests or responses */
	ROUTE_FREE,
};

enum option_flags {
	OPTION_REPEATABLE = 1, /* each line adds to the list */
	OPTION_REQUIRED = 2,
	OPTION_DURATION = 4, /* how `min` and `max` are written */
	OPTION_SIZE = 8,
	OPTION_WRITTEN = 16, /* a path: the file is written, so its folder must be there */
	OPTION_QUERY = 32,   /* a path: a query may follow */
	OPTION_URL = 128,    /* `scheme://user:password@host`: the questioner is not shown */
	OPTION_SECRET = 64,  /* `Name: value`, whose value is never shown */
	OPTION_TLS = 256,    /* a part of a listener's TLS, which a change rebuilds */
};

/* The setting of another option of the section without which an option has no effect. */
struct option_need {
	const char *key;   /* NULL: no need */
	const char *value; /* a word of that option; else in capitals: any value, but not unset */
	const char *or_value; /* another word; NULL: none */
	const char *or_flag;  /* an option that gives an effect as well unless it is off; NULL */
	bool fails;           /* refuses the file; else it is a warning */
};

struct option {
	const char *name;
	const struct option_type *type;
	size_t offset, size;  /* in the section's struct: OPTION_AT */
	const char *fallback; /* the default as it would be written; NULL: none */
	uint64_t min, max;    /* both 0: the type's own bounds */
	const struct option_word *words;
	unsigned flags;
	struct option_need needs;
	enum option_reload reload;
	enum option_route route; /* rows of [route] */
	const char *help;        /* one sentence */
};

#define OPTION_AT(section, field)                                                                  \
	.offset = offsetof(section, field), .size = sizeof(((section *)NULL)->field)

enum section_id {
	SECTION_SLUICE,
	SECTION_ADMIN,
	SECTION_LISTENER,
	SECTION_UPSTREAM,
	SECTION_SERVER, /* not a section of the file: the options on a `server` line */
	SECTION_MATCH,
	SECTION_LIMIT,
	SECTION_PLANS,
	SECTION_PLAN,
	SECTION_FLEET,
	SECTION_SEMAPHORE,
	SECTION_ROUTE,
	SECTIONS,
};

struct option_section {
	enum section_id id;
	const char *kind; /* the word in brackets */
	bool named;       /* [kind name], as many as there are names; else once */
	bool inside_conf; /* offsets are those of struct conf */
	size_t size;      /* of the section's struct when not */
	const struct option *options;
	const size_t *option_count;
	const char *help;
};

/* A section's rows are bits of what an instance of it has (struct instance). Behind each table. */
#define OPTIONS_MOST 128
#define OPTIONS_FIT(rows)                                                                          \
	_Static_assert(sizeof(rows) / sizeof((rows)[0]) <= OPTIONS_MOST, "options are bits")

extern const struct option_section option_sections[SECTIONS];

/* NULL when there is none. */
const struct option_section *option_section_find(struct slice kind);
const struct option *option_find(const struct option_section *section, struct slice name);

/* Writes a bound, as the option's values are written, to `out`. */
void option_bound_text(const struct option *option, uint64_t bound, char *out, size_t size);

/* The rows of each section. */
extern const struct option_word option_tls_versions[];
extern const struct option options_sluice[], options_admin[], options_listener[];
extern const struct option options_upstream[], options_server[];
extern const struct option options_match[], options_limit[], options_plans[], options_plan[];
extern const struct option options_fleet[], options_semaphore[], options_route[];
extern const size_t options_sluice_count, options_admin_count, options_listener_count;
extern const size_t options_upstream_count, options_server_count;
extern const size_t options_match_count;
extern const size_t options_limit_count, options_plans_count, options_plan_count;
extern const size_t options_fleet_count, options_semaphore_count, options_route_count;

/* The types, by the file they are in. value.c: */
extern const struct option_type type_count32, type_count64, type_size32, type_size64;
extern const struct option_type type_duration, type_flag, type_word, type_words, type_choice;
extern const struct option_type type_text, type_workers;
extern const struct option_type type_token, type_token_or_off, type_reference, type_references;
/* value_address.c: */
extern const struct option_type type_binds, type_admin_binds, type_networks, type_server,
	type_tls_name;
/* value_secret.c: */
extern const struct option_type type_secret;
/* value_file.c: */
extern const struct option_type type_path, type_paths, type_secret_file, type_log_target,
	type_callers, type_user;
/* value_fleet.c: */
extern const struct option_type type_store, type_secret_line, type_node_bind;
/* value_semaphore.c: */
extern const struct option_type type_broker;
/* include.c: */
extern const struct option_type type_include;
/* value_key.c: */
extern const struct option_type type_key;
/* value_match.c: */
extern const struct option_type type_tests, type_when;
/* value_limit.c: */
extern const struct option_type type_rate, type_concurrency, type_precision, type_ban;
extern const struct option_type type_on_exceed, type_pace, type_in_flight;
/* value_body.c: */
extern const struct option_type type_buffering;
/* value_path.c: */
extern const struct option_type type_path_match;
/* value_route.c: */
extern const struct option_type type_hosts, type_methods, type_statuses;
extern const struct option_type type_cost, type_access, type_upgrades;
/* value_websocket.c: */
extern const struct option_type type_websocket, type_message_exceed, type_origins, type_tokens;
/* value_field.c: */
extern const struct option_type type_field, type_field_names, type_uri_path, type_host_field,
	type_media_types;
/* value_https.c: */
extern const struct option_type type_redirect, type_hsts;

#endif
