/* See lines.h. */
#include "conf/lines.h"

#include "conf/arena.h"

void lines_begin(struct conf_lines *lines, struct arena *arena, const char *path, unsigned line)
{
	lines->runs = arena_grow(arena, lines->runs, lines->count, sizeof(*lines->runs));
	lines->runs[lines->count++] = (struct line_run){lines->last + 1, {path, line}};
}

struct conf_place lines_place(const struct conf_lines *lines, unsigned line)
{
	size_t low = 0, high = lines->count;

	if (lines->count == 0)
		return (struct conf_place){"", 0};
	if (line == 0)
		return (struct conf_place){lines->runs[0].place.path, 0};
	/* The last run that begins at the line or before it; the first begins at 1. */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (lines->runs[middle].first <= line)
			low = middle;
		else
			high = middle;
	}
	return (struct conf_place){lines->runs[low].place.path,
		lines->runs[low].place.line + (line - lines->runs[low].first)};
}
