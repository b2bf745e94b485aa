/*
 * The fields of a head that leaves, as nghttp2 takes them: composed as lines of text, each of which
 * becomes a name and a value. Names leave in lower case, and no field of an HTTP/1 connection
 * leaves (RFC 9113 sections 8.2 and 8.2.2).
 *
 *   open --> sink --name: value--> text --close--> h2->fields, `count` of them --> nghttp2_submit_*
 */
#ifndef HTTP2_H2_FIELDS_H
#define HTTP2_H2_FIELDS_H

#include "http/field_sink.h"
#include "http2/h2_inside.h"

/* A head that is being composed, in a block of the worker's. */
struct h2_fields {
	struct h2_worker *h2;
	struct buffer text;
	struct field_sink sink;
	char *lines;  /* where those of the sink begin in the text */
	size_t count; /* of h2->fields */
	char status[4];
};

/* None yet. */
void h2_fields_begin(struct h2_fields *fields, struct worker *worker);

/* Adds one that is in none of the lines: of pseudo fields, which precede the others. Its bytes must
 * stay. False: no memory. */
bool h2_fields_put(struct h2_fields *fields, struct slice name, struct slice value);

/* Adds `:status`. False: no memory. */
bool h2_fields_put_status(struct h2_fields *fields, unsigned status);

/* Opens a sink of at most `bytes` for the others. False: no memory. */
bool h2_fields_open(struct h2_fields *fields, size_t bytes);

/* The head is composed: h2->fields has it, until the next one. False: no memory. */
bool h2_fields_close(struct h2_fields *fields);

/* Also when it was not opened. */
void h2_fields_free(struct h2_fields *fields);

/* Adds fields of the lines `name: value`, which are changed. False: no memory. */
bool h2_fields_read(struct h2_fields *fields, char *at, const char *end);

#endif
