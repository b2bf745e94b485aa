/* The dashboard's files, which are part of the binary (embed.sh). */
#ifndef ADMIN_DASHBOARD_FILES_H
#define ADMIN_DASHBOARD_FILES_H

#include <stddef.h>

struct dashboard_file {
	const char *name;
	const unsigned char *at;
	size_t bytes; /* 0: this build has none, as uplot.js without npm */
};

extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_file_count;

#endif
