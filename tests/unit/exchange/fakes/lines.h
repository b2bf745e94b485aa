/* The lines of both logs, kept for the test in place of being written: log_line, log_access and
 * log_access_enabled are replaced at link time. */
#ifndef TESTS_EXCHANGE_FAKES_LINES_H
#define TESTS_EXCHANGE_FAKES_LINES_H

#include <stdbool.h>

struct lines {
	char text[65536]; /* each `level text\n`, and those of the access log as they are */
	bool has_no_access;
};

extern struct lines lines;

/* Forgets them. From the first call on lines are kept; before it they are dropped. */
void lines_clear(void);

#endif
