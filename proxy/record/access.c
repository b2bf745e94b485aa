#include "record/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "record/access_line.h"
#include "worker/worker_clock.h"

struct access_kept {
	const char *limit, *verdict; /* of the site */
	uint64_t began_ns, started_ns, queue_us;
	uint16_t lengths[ACCESS_TEXTS];
	char texts[];
};

struct access_kept *access_keep(struct access_line *line, uint64_t began_ns, uint64_t started_ns)
{
	struct access_kept *kept;
	size_t bytes = 0;

	for (unsigned i = 0; i < ACCESS_TEXTS; i++) {
		if (line->texts[i].len > access_text_bytes[i] + 1ul)
			line->texts[i].len = access_text_bytes[i] + 1ul; /* still seen to be cut */
		bytes += line->texts[i].len;
	}
	kept = malloc(sizeof(*kept) + bytes);
	if (!kept)
		return NULL;
	kept->limit = line->limit;
	kept->verdict = line->verdict;
	kept->began_ns = began_ns;
	kept->started_ns = started_ns;
	kept->queue_us = line->queue_us;
	char *at = kept->texts;
	for (unsigned i = 0; i < ACCESS_TEXTS; i++) {
		kept->lengths[i] = (uint16_t)line->texts[i].len;
		if (line->texts[i].len > 0)
			memcpy(at, line->texts[i].at, line->texts[i].len);
		at += line->texts[i].len;
	}
	return kept;
}

void access_log_kept(struct worker *worker, const struct site *site, const struct access_kept *kept,
	struct access_line *line)
{
	uint64_t now_ns = worker_now_ns(worker);
	const char *at = kept->texts;

	if (!log_access_enabled())
		return;
	for (unsigned i = 0; i < ACCESS_TEXTS; i++) {
		line->texts[i] = (struct slice){at, kept->lengths[i]};
		at += kept->lengths[i];
	}
	line->limit = kept->limit;
	line->verdict = kept->verdict;
	line->queue_us = kept->queue_us;
	line->total_us = access_since_us(kept->began_ns, now_ns);
	line->upstream_us = access_since_us(kept->started_ns, now_ns);
	access_write(worker, site, line);
}
