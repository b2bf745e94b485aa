#include "http1/http1_source.h"

#include "base/container.h"

static struct http1_source *of(struct body_source *source)
{
	return CONTAINER_OF(source, struct http1_source, source);
}

static size_t here(const struct body_source *source)
{
	const struct buffer *in = ((const struct http1_source *)source)->in;

	return in->at ? buffer_used(in) : 0;
}

static __attribute__((noinline)) bool lend_chunk(
	struct http1_source *s, size_t used, struct slice *run)
{
	size_t consumed = 0, produced = 0;

	if (used == 0)
		return true;
	switch (http_parser_chunked(s->parser, buffer_head(s->in), used, &consumed, &produced)) {
	case HTTP_PARSE_BAD:
		return false;
	case HTTP_PARSE_DONE:
		s->source.ended = true;
		s->source.trailers = (struct slice){
			s->parser->chunked.trailers, s->parser->chunked.trailers_len};
		break;
	case HTTP_PARSE_MORE:
		break;
	}
	s->in->start += (uint32_t)consumed;
	run->len = produced;
	return true;
}

static bool lend(struct body_source *source, size_t most, struct slice *run)
{
	struct http1_source *s = of(source);
	struct buffer *in = s->in;
	size_t used = buffer_used(in);

	if (used > most)
		used = most;
	*run = (struct slice){buffer_head(in), 0};
	switch (s->body) {
	case HTTP_BODY_NONE:
		source->ended = true;
		return true;
	case HTTP_BODY_CHUNKED:
		return lend_chunk(s, used, run);
	case HTTP_BODY_LENGTH:
		if (used > source->left)
			used = (size_t)source->left;
		source->left -= used;
		source->ended = source->left == 0;
		break;
	case HTTP_BODY_UNTIL_CLOSE:
		break;
	}
	in->start += (uint32_t)used;
	run->len = used;
	return true;
}

/* An emptied block goes back. */
static void release(struct body_source *source)
{
	struct http1_source *s = of(source);

	if (s->in->at && buffer_used(s->in) == 0)
		buffer_release(s->in, s->pool);
}

/* The connection has no more to say: the end of a body that ends so, or too early. */
static enum body_fetch ended(struct http1_source *s)
{
	if (s->stream->failed || s->body != HTTP_BODY_UNTIL_CLOSE)
		return BODY_CUT;
	s->source.ended = true;
	return BODY_FETCHED;
}

static enum body_fetch fetch(struct body_source *source, unsigned *turns)
{
	struct http1_source *s = of(source);

	if (s->stream->read_ended)
		return ended(s);
	if (!stream_may_have_more(s->stream) || (*turns)-- == 0) {
		release(source);
		return BODY_NOT_NOW;
	}
	if (!s->in->at && !buffer_acquire(s->in, s->pool))
		return BODY_NO_MEMORY;
	if (buffer_used(s->in) == 0)
		s->in->start = s->in->end = 0;
	switch (stream_read(s->stream, s->in)) {
	case STREAM_OK:
		return BODY_FETCHED;
	case STREAM_AGAIN:
		release(source);
		return BODY_NOT_NOW;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	release(source);
	return ended(s);
}

static void read_again(struct body_source *source)
{
	stream_read_again(of(source)->stream);
}

static bool take_back(struct body_source *source, uint32_t bytes)
{
	struct http1_source *s = of(source);

	if (bytes == 0)
		return true;
	if (s->body == HTTP_BODY_CHUNKED)
		return false;
	s->in->start -= bytes;
	if (s->body == HTTP_BODY_LENGTH)
		source->left += bytes;
	source->ended = false;
	return true;
}

void http1_source_init(struct http1_source *s, struct stream *stream, struct buffer *in,
	struct buffer_pool *pool, struct http_parser *parser)
{
	static const struct body_source_calls calls = {
		here, lend, release, fetch, read_again, take_back};

	_Static_assert(offsetof(struct http1_source, source) == 0, "it begins with its source");
	*s = (struct http1_source){
		.source.calls = &calls, .stream = stream, .in = in, .pool = pool, .parser = parser};
}

struct body_source *http1_source_open(struct http1_source *s, const struct http_framing *framing)
{
	s->body = framing->body;
	s->source.left = framing->body == HTTP_BODY_LENGTH ? framing->length : 0;
	s->source.ended = framing->body == HTTP_BODY_NONE;
	s->source.trailers = SLICE_NONE;
	s->is_open = true;
	return &s->source;
}

bool http1_source_unchunk(struct http1_source *s)
{
	char *bytes = buffer_head(s->in);
	size_t consumed, produced;

	if (http_parser_chunked(s->parser, bytes, buffer_used(s->in), &consumed, &produced) !=
		HTTP_PARSE_DONE)
		return false;
	memmove(bytes + consumed - produced, bytes, produced);
	s->in->start += (uint32_t)(consumed - produced);
	return true;
}
