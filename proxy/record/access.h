/* The line in the access log of a request that continues as something else: kept until its end. */
#ifndef RECORD_ACCESS_H
#define RECORD_ACCESS_H

#include <stdint.h>

struct access_kept;
struct access_line;
struct site;
struct worker;

/* The request's part of a line: its texts (which it cuts to what is written), limit, verdict and
 * wait, with its times. The caller frees it. The names in it live as long as the site. NULL without
 * memory. */
struct access_kept *access_keep(struct access_line *line, uint64_t began_ns, uint64_t started_ns);

/* Writes that line, in which the caller has filled in what came of it: all but the texts, the
 * limit, the verdict and the times. */
void access_log_kept(struct worker *worker, const struct site *site, const struct access_kept *kept,
	struct access_line *line);

#endif
