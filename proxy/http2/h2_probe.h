/*
 * The probe of a health check by HTTP/2: one GET on a connection of its own, whose status counts.
 *
 *   h2_probe_new --> h2_probe_send --> bytes come: h2_probe_receive, h2_probe_send --> a status
 */
#ifndef HTTP2_H2_PROBE_H
#define HTTP2_H2_PROBE_H

#include <stdbool.h>
#include <stddef.h>

struct h2_probe;
struct stream;

/* NULL: no memory. The texts need not stay. */
struct h2_probe *h2_probe_new(const char *host, const char *path, bool is_https);
/* NULL is ignored. */
void h2_probe_free(struct h2_probe *probe);

/* Writes what is due: the request at first. False: that failed, or the stream takes no more. */
bool h2_probe_send(struct h2_probe *probe, struct stream *stream);

enum h2_probe_result {
	H2_PROBE_WAITS,
	H2_PROBE_ANSWERED, /* by h2_probe_status */
	H2_PROBE_BROKEN,   /* by bytes that are no HTTP/2, or by a reset */
};

enum h2_probe_result h2_probe_receive(struct h2_probe *probe, const char *bytes, size_t len);

/* The status of the response, three digits. */
const char *h2_probe_status(const struct h2_probe *probe);

#endif
