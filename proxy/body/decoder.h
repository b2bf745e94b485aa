/*
 * The role of a source's bytes in a body: its content, without the framing.
 *
 *   bytes -> length, chunked, until close -> runs of content
 */
#ifndef BODY_DECODER_H
#define BODY_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "http/framing.h"
#include "http/parser.h"

struct body_decoder {
	enum http_body body;
	bool decoded;               /* the last byte of the body was read */
	uint64_t left;              /* HTTP_BODY_LENGTH */
	struct http_parser *parser; /* of the source; for chunked bodies */
	struct slice kept_trailers; /* when the parser has moved on to something else */
};

/* Takes the next run of content out of the buffer, of at most `most` bytes; it may be empty. False:
 * this is not the framing that was claimed. Inline, as each run of each body comes by. */
static inline bool body_decode(
	struct body_decoder *decoder, struct buffer *in, size_t most, struct slice *content)
{
	size_t used = buffer_used(in);

	if (used > most)
		used = most;
	size_t consumed = used, produced = used;

	*content = (struct slice){buffer_head(in), 0};
	switch (decoder->body) {
	case HTTP_BODY_NONE:
		decoder->decoded = true;
		return true;
	case HTTP_BODY_LENGTH:
		if (consumed > decoder->left)
			consumed = produced = (size_t)decoder->left;
		decoder->left -= consumed;
		decoder->decoded = decoder->left == 0;
		break;
	case HTTP_BODY_CHUNKED:
		if (used == 0)
			break;
		switch (http_parser_chunked(
			decoder->parser, buffer_head(in), used, &consumed, &produced)) {
		case HTTP_PARSE_BAD:
			return false;
		case HTTP_PARSE_DONE:
			decoder->decoded = true;
			break;
		case HTTP_PARSE_MORE:
			break;
		}
		break;
	case HTTP_BODY_UNTIL_CLOSE:
		break;
	}
	in->start += (uint32_t)consumed;
	content->len = produced;
	return true;
}

/* The source has ended. Is that the body's end? */
static inline bool body_decode_end(struct body_decoder *decoder)
{
	if (decoder->body != HTTP_BODY_UNTIL_CLOSE)
		return false;
	decoder->decoded = true;
	return true;
}

/* The trailer section of a body that is decoded, as it came; empty: none. Its source's. */
static inline struct slice body_trailers(const struct body_decoder *decoder)
{
	if (decoder->kept_trailers.len > 0)
		return decoder->kept_trailers;
	if (decoder->body != HTTP_BODY_CHUNKED || !decoder->parser)
		return SLICE_NONE;
	return (struct slice){
		decoder->parser->chunked.trailers, decoder->parser->chunked.trailers_len};
}

#endif
