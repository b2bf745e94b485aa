/* JSON as text for people: a table of the objects in an array, or the members of one object.
 * Control characters of a value become question marks. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum table_kind {
	TABLE_TEXT,   /* to the left */
	TABLE_NUMBER, /* to the right */
	TABLE_MS,     /* milliseconds, as `1m 30s` */
};

struct table_column {
	const char *title;
	const char *member; /* `a` or `a.b` */
	enum table_kind kind;
};

/* Writes a line of titles and one for each object of `rows`; only the titles when there is none. */
void table_print(
	FILE *out, const json_t *rows, const struct table_column *columns, size_t column_count);

/* Writes `name  value` for each member that is neither object nor array; members of objects in it
 * as `object.name`. */
void table_print_members(FILE *out, const json_t *object);

/* `250ms`, `1.5s`, `1m 30s`, `2h 5m`, `3d 4h`. */
#define TABLE_MS_BYTES 32
void table_format_ms(unsigned long long ms, char text[static TABLE_MS_BYTES]);

/* ---- usage ---------------------------------------------------------------------------------- */

/*
 * Usage texts: entries that begin with `       sluice COMMAND`, each with the deeper indented lines
 * below it.
 */

/* Prints the entries of one command, the first behind `usage: `; and the last line of `usage`,
 * which names the options of all its commands. */
void usage_print_command(FILE *out, const char *usage, const char *command);

/* After the message about a wrong command line, to stderr: one line that names the help. */
void usage_refer(const char *command);

#endif
