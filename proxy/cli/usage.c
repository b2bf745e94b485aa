/* See usage.h. */
#include "cli/usage.h"

#include <stdbool.h>
#include <string.h>

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
