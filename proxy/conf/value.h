/*
 * Reading one value of one option. Functions that all parsers share.
 */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "conf/build.h"

struct value {
	struct build *build;
	struct instance *instance;
	const struct option *option;
	unsigned line;
	struct slice text;
	const char *written; /* when that is with variables replaced; else NULL */
	void *at;            /* where it is stored */
};

/*
 * Adds the error `file:line: [section] key: ...; expected ...` and returns false. The expected
 * value comes from the option's row.
 */
bool value_fail(struct value *value, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same when the text itself has the expected value. */
bool value_fail_plainly(struct value *value, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The text is a URL, of which an address with its port, or a host, is expected. */
bool value_fail_url(struct value *value, struct slice text, bool has_port);

/* Adds a warning that begins in the same way. */
void value_warn(struct value *value, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Does `text` hold what other formats' users take for a comment, a blank and a '#'? inih leaves it
 * in the value; only ';' begins a comment there.
 */
bool scan_comment(struct slice text);

/* The text to add to an error about `text`, a hint when it does, has a ';', or is quoted; else
 * "". */
const char *value_hint(struct slice text);

/* A NUL-terminated copy in the arena. */
char *value_text(struct value *value, struct slice text);

/*
 * Scalars, used inside larger values too. Each reads the whole slice; false when it is none of its
 * kind or does not fit in 64 bits.
 */
bool scan_digits(struct slice text, uint64_t *number);  /* 12 */
bool scan_count(struct slice text, uint64_t *count);    /* 12, 10k, 1M, 2G */
bool scan_size(struct slice text, uint64_t *bytes);     /* 12, 16k, 1M, 2G */
bool scan_duration_ms(struct slice text, uint64_t *ms); /* 500ms, 10s, 1h30m */
bool scan_word(const struct option_word *words, struct slice text, unsigned *value);

/* A number in front, the rest of the slice after it. */
bool scan_number_before(struct slice *text, uint64_t *number);

/* Takes the next run of non-blanks off `rest`; false at its end. */
bool scan_next_token(struct slice *rest, struct slice *token);

/* Is it a token (RFC 9110 section 5.6.2), as field names and cookie names are? */
bool scan_is_token(struct slice text);

/* Is it a word that turns something on or off (off, on, no, none, any, ...), in any case of
 * letters? In a list, or instead of a name, it is hardly meant as one. */
bool scan_is_switch(struct slice text);

/* Has it a scheme, as in http://10.0.0.5? */
bool scan_is_url(struct slice text);

/* Does it begin with a quote, which would be part of it? */
bool scan_is_quoted(struct slice text);

/* Is `number` within the option's bounds? Says so when not. */
bool value_in_bounds(struct value *value, uint64_t number);

/* Appends to arrays in the arena. */
void value_list_add(struct value *value, struct conf_text_list *list, const char *text);

/* value_address.c: `text` as address/prefix. */
bool scan_cidr(struct slice text, struct conf_cidr *cidr);
/* Are all bits after the prefix 0? 10.0.0.1/8 is a slip of the pen more often than not. */
bool cidr_is_clear(const struct conf_cidr *cidr);
void value_cidrs_add(struct value *value, struct conf_cidrs *list, struct conf_cidr cidr);

/* value_address.c: HOST:PORT, [IPV6]:PORT, unix:/PATH and, with `bind`, systemd:NAME. */
bool value_read_address(
	struct value *value, struct slice text, bool bind, struct conf_address *address);

/* value_key.c: a key expression; NULL when it is wrong and the error was added. */
struct conf_key *value_read_key(struct value *value);

/* value_key.c: one part of a key, as `header:X-Api-Key`. */
bool value_read_key_part(struct value *value, struct slice text, struct key_part *part);

/* value_key.c: is it the word of a form of key, as `path`? */
bool value_is_key_word(struct slice word);

/* value_path.c: compiles an expression twice, the second time so that its steps are counted
 * (gate/route_table.h). */
bool value_compile_regex(struct value *value, struct slice pattern, struct conf_regex *regex);

/* value_path.c: is it a path in the normal form, in which paths are compared? Says what the other
 * form is. */
bool value_check_path_is_normal(struct value *value, struct slice path);

/* value.c: a name that is looked up when all sections are read. */
void value_add_reference(struct value *value, struct slice name);

/* value.c: names with commas, each a reference of the section. */
bool value_parse_references(struct value *value);

/* value_limit.c: AMOUNT per DURATION, both above 0. */
bool scan_per(struct slice text, uint64_t *amount, uint64_t *per_ns);

/*
 * value_file.c: a file's path, relative ones from the folder of the ini. An apparent comment or
 * quote in it is an error, as a path that is created, or only read later, would hide the mistake.
 */
bool value_check_path(struct value *value, struct slice path);
const char *value_resolve_path(struct value *value, struct slice path);

/* Takes line `number` of the file at `path`; false when it is wrong and the error was added. */
typedef bool value_take_line(
	struct value *value, const char *path, unsigned number, struct slice line, void *user);

/*
 * Gives `take` the lines of the file that `file:PATH` names, without blanks around them; '#'
 * comments and empty lines are left out. False when one was wrong or the file can't be read.
 */
bool value_read_lines(struct value *value, struct slice path, value_take_line *take, void *user);

/* build.c: sets the options of a pseudo-section such as a server's. */
bool value_set_option(struct value *value, const struct option_section *section, void *object,
	struct slice name, struct slice text);
void value_set_defaults(struct value *value, const struct option_section *section, void *object);

#endif
