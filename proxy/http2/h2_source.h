/*
 * The body that a stream of HTTP/2 brings, as a source (body/source.h). The stream's window is its
 * credit: as much as the pump has released is given back to the client, and no more than the window
 * is ever here.
 *
 *   DATA --h2_source_put--> blocks --lend, release--> pump
 *                                        `--> credit --> WINDOW_UPDATE
 */
#ifndef HTTP2_H2_SOURCE_H
#define HTTP2_H2_SOURCE_H

#include "base/buffer.h"
#include "body/source.h"

struct h2_block;

struct h2_source {
	struct body_source source;
	struct buffer_pool *pool;
	struct h2_block *first, *last;
	uint64_t here;  /* bytes */
	uint64_t total; /* came so far */
	uint32_t lent;  /* of the first block */
	bool is_open, has_length;
	bool came_whole; /* END_STREAM */
	bool is_cut;     /* the stream was reset */
	char *trailers;  /* a field a line */
	uint32_t trailers_len;
	/* So many bytes were released. */
	void (*credit)(struct h2_source *source, size_t bytes);
};

void h2_source_init(struct h2_source *source, struct buffer_pool *pool,
	void (*credit)(struct h2_source *source, size_t bytes));

/* Frees what is here. What was lent is gone. */
void h2_source_end(struct h2_source *source);

/* The block of which a run is lent, if any, is `kept`'s from now on. */
void h2_source_give(struct h2_source *source, struct buffer *kept);

/* `has_length`: the content's length is `length`. */
struct body_source *h2_source_open(struct h2_source *source, bool has_length, uint64_t length);

/* Content has come. False: no memory. */
bool h2_source_put(struct h2_source *source, const uint8_t *bytes, size_t len);

/* A trailer section has come. False: no memory. */
bool h2_source_put_trailers(struct h2_source *source, struct slice lines);

#endif
