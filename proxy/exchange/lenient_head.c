#include "exchange/lenient_head.h"

#include "exchange/exchange.h"
#include "http/lenient.h"
#include "http/out.h"
#include "upstream/server_connection.h"

/* Puts the clean head in place of the `len` bytes that it was. False without memory. */
static bool replace(struct buffer *in, struct buffer_pool *pool, size_t len, const char *clean,
	size_t clean_len)
{
	size_t used = buffer_used(in), rest = used - len, wanted = clean_len + rest;

	if (!buffer_reserve(in, pool, wanted > used ? wanted : used))
		return false;
	memmove(buffer_head(in) + clean_len, buffer_head(in) + len, rest);
	memcpy(buffer_head(in), clean, clean_len);
	in->end = in->start + (uint32_t)wanted;
	return true;
}

bool lenient_head_is_ready(struct exchange *x)
{
	struct server_connection *connection = x->connection;
	struct http_parser *parser = &connection->parser;
	struct buffer *in = &connection->in;
	char *scratch = x->worker->path_scratch;
	size_t room = sizeof(x->worker->path_scratch);

	if (parser->is_begun)
		return true;
	size_t used = buffer_used(in);
	size_t len = http_lenient_end(buffer_head(in), used, parser->fed);
	/* Cleaning adds a byte a line at most. */
	if (len == 0 && used < room / 2) {
		parser->fed = (uint32_t)used;
		return false;
	}
	parser->fed = 0;
	if (len == 0)
		return true;
	struct http_out out = http_out_over(scratch, room);
	unsigned found = http_lenient_clean(
		(struct slice){buffer_head(in), len}, (unsigned)x->upstream->conf->lenient, &out);
	if (found != 0 && replace(in, &x->worker->blocks, len, scratch, (size_t)(out.at - scratch)))
		connection->is_doubtful |= (found & HTTP_LENIENT_DOUBTFUL) != 0;
	return true;
}
