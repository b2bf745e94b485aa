/*
 * A line of the access log, from its values: Combined, with the proxy's own fields behind it, or a
 * JSON object.
 */
#ifndef RECORD_ACCESS_LINE_H
#define RECORD_ACCESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct site;
struct worker;

enum access_text {
	ACCESS_ADDRESS,
	ACCESS_METHOD,
	ACCESS_HOST,
	ACCESS_TARGET, /* without secrets */
	ACCESS_VERSION,
	ACCESS_REFERER, /* without secrets */
	ACCESS_USER_AGENT,
	ACCESS_CALLER,
	ACCESS_ID,
	ACCESS_TRACE, /* empty: no trace, nor a parent */
	ACCESS_PARENT,
	ACCESS_SCHEME,
};
#define ACCESS_TEXTS (ACCESS_SCHEME + 1)

/* Bounds of texts that may be long. */
#define ACCESS_TARGET_BYTES  3072
#define ACCESS_REFERER_BYTES 1024

/* Most bytes of each text in a line, escapes included. */
extern const uint16_t access_text_bytes[ACCESS_TEXTS];

/* The line owns none of its texts. */
struct access_line {
	struct slice texts[ACCESS_TEXTS];
	const char *route; /* NULL: none */
	const char *limit, *verdict, *upstream;
	const char *outcome; /* NULL: all went well */
	unsigned status, upstream_status;
	uint64_t received_bytes, sent_bytes; /* bodies, or messages */
	uint64_t queue_us, upstream_us, total_us;
	bool has_messages; /* the next two count */
	uint64_t messages_received, messages_sent;
};

/* Microseconds between two times, 0 if there was none. */
static inline uint64_t access_since_us(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns && to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
}

/* Writes it in the format of the site. */
void access_write(struct worker *worker, const struct site *site, const struct access_line *line);

#endif
