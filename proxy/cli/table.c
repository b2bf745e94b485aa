/* See table.h. */
#include "cli/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CELL_BYTES  256
#define COLUMNS_MAX 16
#define GAP         "  "

void table_format_ms(unsigned long long ms, char text[static TABLE_MS_BYTES])
{
	unsigned long long s = ms / 1000;

	if (ms < 1000)
		snprintf(text, TABLE_MS_BYTES, "%llums", ms);
	else if (s < 60)
		snprintf(text, TABLE_MS_BYTES, "%llu.%llus", s, ms % 1000 / 100);
	else if (s < 3600)
		snprintf(text, TABLE_MS_BYTES, "%llum %llus", s / 60, s % 60);
	else if (s < 86400)
		snprintf(text, TABLE_MS_BYTES, "%lluh %llum", s / 3600, s / 60 % 60);
	else
		snprintf(text, TABLE_MS_BYTES, "%llud %lluh", s / 86400, s / 3600 % 24);
}

static const json_t *find_member(const json_t *object, const char *path)
{
	char name[64];
	size_t len = strcspn(path, ".");

	if (len >= sizeof(name))
		return NULL;
	memcpy(name, path, len);
	name[len] = '\0';
	const json_t *member = json_object_get(object, name);
	return path[len] == '.' ? find_member(member, path + len + 1) : member;
}

/* A name may come from elsewhere, the fleet's store say, and moves no cursor here. */
static void hide_controls(char *text)
{
	for (; *text; text++) {
		bool is_c1 = text[0] == '\xc2' && (unsigned char)text[1] >= 0x80 &&
			     (unsigned char)text[1] < 0xa0;
		if (is_c1) /* in UTF-8 */
			*text++ = '?';
		if (is_c1 || (unsigned char)*text < ' ' || *text == '\x7f')
			*text = '?';
	}
}

static void format_cell(const json_t *value, enum table_kind kind, char text[static CELL_BYTES])
{
	if (kind == TABLE_MS && json_is_integer(value))
		table_format_ms((unsigned long long)json_integer_value(value), text);
	else if (json_is_integer(value))
		snprintf(text, CELL_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_string(value))
		snprintf(text, CELL_BYTES, "%s", json_string_value(value));
	else if (json_is_boolean(value))
		snprintf(text, CELL_BYTES, "%s", json_is_true(value) ? "yes" : "no");
	else
		snprintf(text, CELL_BYTES, "-");
	hide_controls(text);
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
	if (right)
		fprintf(out, "%*s%s", (int)width, text, last ? "\n" : GAP);
	else if (last)
		fprintf(out, "%s\n", text);
	else
		fprintf(out, "%-*s%s", (int)width, text, GAP);
}

void table_print(
	FILE *out, const json_t *rows, const struct table_column *columns, size_t column_count)
{
	size_t widths[COLUMNS_MAX], index;
	char text[CELL_BYTES];
	const json_t *row;

	for (size_t c = 0; c < column_count; c++) {
		widths[c] = strlen(columns[c].title);
		json_array_foreach((json_t *)(uintptr_t)rows, index, row)
		{
			format_cell(find_member(row, columns[c].member), columns[c].kind, text);
			if (strlen(text) > widths[c])
				widths[c] = strlen(text);
		}
	}
	for (size_t c = 0; c < column_count; c++)
		print_cell(out, columns[c].title, widths[c], columns[c].kind != TABLE_TEXT,
			c + 1 == column_count);
	json_array_foreach((json_t *)(uintptr_t)rows, index, row)
	{
		for (size_t c = 0; c < column_count; c++) {
			format_cell(find_member(row, columns[c].member), columns[c].kind, text);
			print_cell(out, text, widths[c], columns[c].kind != TABLE_TEXT,
				c + 1 == column_count);
		}
	}
}

static void print_members(FILE *out, const json_t *object, const char *prefix)
{
	char name[128], text[CELL_BYTES];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(value)) {
			print_members(out, value, name);
		} else if (!json_is_array(value)) {
			size_t len = strlen(name);
			bool is_ms = len > 3 && strcmp(name + len - 3, "_ms") == 0;
			format_cell(value, is_ms ? TABLE_MS : TABLE_TEXT, text);
			if (is_ms)
				name[len - 3] = '\0';
			fprintf(out, "%-24s%s\n", name, text);
		}
	}
}

void table_print_members(FILE *out, const json_t *object)
{
	print_members(out, object, "");
}

/* ---- usage ---------------------------------------------------------------------------------- */

/* See table.h. */

#define BEGIN "       sluice "

static bool is_entry_of(const char *line, const char *command)
{
	size_t len = strlen(command);

	line += strlen(BEGIN);
	return strncmp(line, command, len) == 0 && strchr(" \n", line[len]) != NULL;
}

void usage_print_command(FILE *out, const char *usage, const char *command)
{
	bool is_printed = false, is_first = true;

	for (const char *line = usage; *line;) {
		const char *next = strchr(line, '\n') + 1;
		if (strncmp(line, BEGIN, strlen(BEGIN)) == 0)
			is_printed = is_entry_of(line, command);
		else if (!*next)
			is_printed = true; /* the options of all commands */
		if (is_printed && is_first) {
			fputs("usage: ", out);
			line += strspn(line, " ");
			is_first = false;
		}
		if (is_printed)
			fwrite(line, 1, (size_t)(next - line), out);
		line = next;
	}
}

void usage_refer(const char *command)
{
	fprintf(stderr, "`sluice %s%s--help` shows the usage\n", command, *command ? " " : "");
}
