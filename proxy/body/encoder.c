#include "body/encoder.h"

#include <stdio.h>

static const struct slice crlf = {"\r\n", 2};
static const struct slice crlf_last_chunk = {"\r\n0\r\n\r\n", 7};

bool body_encode_tail(struct body_encoder *encoder, struct flow *flow, struct buffer_pool *pool,
	struct slice trailers)
{
	struct http_out out;

	if (!flow_reserve(flow, pool, trailers.len + 8, &out))
		return false;
	http_out_slice(&out, SLICE("0\r\n"));
	http_trailers_put(&out, trailers, &encoder->trailers);
	http_out_slice(&out, crlf);
	flow_commit(flow, &out);
	encoder->tail_due = false;
	return true;
}

bool body_encode_chunk(struct body_encoder *encoder, struct flow *flow, struct buffer_pool *pool,
	struct slice content, bool has_trailers)
{
	struct http_out out;
	char size[24];
	int len = snprintf(size, sizeof(size), "%zx\r\n", content.len);

	if (!flow_reserve(flow, pool, (size_t)len, &out))
		return false;
	http_out_slice(&out, (struct slice){size, (size_t)len});
	flow_commit(flow, &out);
	flow->suffix = crlf;
	if (encoder->tail_due && !has_trailers) {
		flow->suffix = crlf_last_chunk;
		encoder->tail_due = false;
	}
	return true;
}
