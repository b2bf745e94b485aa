#include "lines.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct lines lines;
static bool are_kept;

void __wrap_log_line(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool __wrap_log_access_enabled(void);
void __wrap_log_access(const char *line, size_t len);

void lines_clear(void)
{
	lines.text[0] = '\0';
	are_kept = true;
}

static size_t room(void)
{
	return sizeof(lines.text) - strlen(lines.text);
}

void __wrap_log_line(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	char text[2048];
	va_list args;

	if (!are_kept)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert(strlen(text) + 10 < room());
	snprintf(lines.text + strlen(lines.text), room(), "%s %s\n", names[level], text);
}

bool __wrap_log_access_enabled(void)
{
	return are_kept && !lines.has_no_access;
}

void __wrap_log_access(const char *line, size_t len)
{
	assert(len < room() && memchr(line, '\0', len) == NULL);
	strncat(lines.text, line, len);
}
