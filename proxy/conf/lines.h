/*
 * Lines over several files. Every line that is read has one number over all files, in the order of
 * reading; what is built keeps that number, and messages translate it.
 *
 *   sluice.ini:1..4   include = conf.d/a.ini   a.ini:1..9      sluice.ini:5..20
 *   1 .. 4                                     5 .. 13         14 .. 29
 *
 * In a configuration of a single file both are the same.
 */
#ifndef CONF_LINES_H
#define CONF_LINES_H

#include <stddef.h>

struct arena;

struct conf_place {
	const char *path;
	unsigned line; /* 0: the file as a whole */
};

/* Lines that follow each other in one file. */
struct line_run {
	unsigned first;          /* the number over all files */
	struct conf_place place; /* of that line */
};

/* All zero is an empty one. Its memory is the arena's. */
struct conf_lines {
	struct line_run *runs;
	size_t count;
	unsigned last; /* the number of the line that was read last */
};

/* The following lines are those of `path`, from its line `line`. */
void lines_begin(struct conf_lines *lines, struct arena *arena, const char *path, unsigned line);

/* Where the line is. For 0, or before any file has begun: the first file as a whole. */
struct conf_place lines_place(const struct conf_lines *lines, unsigned line);

#endif
