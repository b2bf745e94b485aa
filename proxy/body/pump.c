#include "body/pump.h"

struct slice pump_trailers(const struct pump *pump)
{
	return body_trailers(&pump->decoder);
}

static bool put_last_chunk(struct pump *pump)
{
	return body_encode_tail(&pump->encoder, pump->flow, pump->pool, pump_trailers(pump));
}

static inline bool put_content(struct pump *pump, struct slice content)
{
	return body_encode(&pump->encoder, pump->flow, pump->pool, content,
		pump->encoder.tail_due && pump_trailers(pump).len > 0);
}

/* Takes the next run of content out of the buffer, of at most `most` bytes. */
static inline __attribute__((always_inline)) enum pump_result decode(
	struct pump *pump, size_t most, struct slice *content)
{
	if (!body_decode(&pump->decoder, pump->in, most, content))
		return PUMP_SOURCE_BROKEN;
	pump->content_bytes += content->len;
	if (pump->max_bytes > 0 && pump->content_bytes > pump->max_bytes)
		return PUMP_TOO_LARGE;
	return pump->decoder.decoded ? PUMP_DONE : PUMP_WANTS_READ;
}

/* An emptied source buffer goes back, unless the flow still borrows from it. */
static void release(struct pump *pump)
{
	if (pump->in->at && buffer_used(pump->in) == 0 &&
		(!pump->sink || pump->flow->body.len == 0 || pump->flow->kept.at))
		buffer_release(pump->in, pump->pool);
}

/* The front of the spool is sent; it stays there until then. */
static enum pump_result fill_from_spool(struct pump *pump)
{
	struct slice content = spool_front(pump->spool);

	if (!flow_takes_prefix(pump->flow))
		return PUMP_WANTS_WRITE;
	pump->encoder.tail_due = pump->decoder.decoded && pump->encoder.chunked &&
				 content.len == spool_bytes(pump->spool);
	pump->borrowed = content.len;
	return put_content(pump, content) ? PUMP_WANTS_READ : PUMP_NO_MEMORY;
}

static bool is_lost(const struct pump *pump)
{
	return (pump->spool && spool_is_lost(pump->spool)) ||
	       (pump->sink && flow_is_lost(pump->flow));
}

bool pump_has_content(const struct pump *pump)
{
	return (pump->spool && spool_bytes(pump->spool) > 0) ||
	       (!pump->decoder.decoded && pump->in->at && buffer_used(pump->in) > 0);
}

enum pump_result pump_fill(struct pump *pump)
{
	struct slice content;

	if (is_lost(pump))
		return PUMP_SPOOL_FAILED;
	if (pump->spool && spool_bytes(pump->spool) > 0)
		return fill_from_spool(pump);
	if (pump->decoder.decoded)
		return PUMP_DONE;
	if (pump->sink && !flow_takes_prefix(pump->flow))
		return PUMP_WANTS_WRITE;
	enum pump_result result = decode(pump, SIZE_MAX, &content);
	if (result != PUMP_DONE && result != PUMP_WANTS_READ)
		return result;
	if (!pump->sink)
		return result;
	pump->encoder.tail_due = pump->decoder.decoded && pump->encoder.chunked;
	if (content.len > 0 && !put_content(pump, content))
		return PUMP_NO_MEMORY;
	if (pump->encoder.tail_due && flow_takes_prefix(pump->flow) && !put_last_chunk(pump))
		return PUMP_NO_MEMORY;
	return result;
}

bool pump_unchunk(struct pump *pump)
{
	char *bytes = buffer_head(pump->in);
	size_t consumed, produced;

	if (http_parser_chunked(pump->decoder.parser, bytes, buffer_used(pump->in), &consumed,
		    &produced) != HTTP_PARSE_DONE)
		return false;
	memmove(bytes + consumed - produced, bytes, produced);
	pump->in->start += (uint32_t)(consumed - produced);
	return true;
}

void pump_finish(struct pump *pump)
{
	if (pump->encoder.tail_due && !put_last_chunk(pump))
		pump->decoder.body = HTTP_BODY_UNTIL_CLOSE; /* none are looked for later */
}

/* What the sink does not take goes out of the way of what comes next. */
static bool spill(struct pump *pump)
{
	const struct flow *flow = pump->flow;

	if (!pump->spills || pump->decoder.decoded)
		return false;
	if (pump->decoder.body == HTTP_BODY_LENGTH) {
		uint64_t space = flow->spool ? spool_space(flow->spool)
					     : pump->kept.memory + pump->kept.file;
		if (pump->decoder.left + flow_bytes(flow) > space)
			return false;
	}
	return flow_spill(pump->flow, pump->pool, pump->store, pump->kept);
}

/* Sends what the flow holds, and the last chunk behind it when that is due. */
static enum pump_result send_all(struct pump *pump)
{
	while (pump->sink) {
		if (!flow_is_empty(pump->flow)) {
			enum stream_result result = STREAM_AGAIN;
			if (pump->sink->writable)
				result = flow_write(
					pump->flow, pump->sink, pump->pool, &pump->written);
			switch (result) {
			case STREAM_OK:
				break;
			case STREAM_AGAIN:
				if (spill(pump))
					break;
				return is_lost(pump) ? PUMP_SPOOL_FAILED : PUMP_WANTS_WRITE;
			case STREAM_END:
			case STREAM_FAILED:
				return is_lost(pump) ? PUMP_SPOOL_FAILED : PUMP_SINK_FAILED;
			}
		}
		if (!pump->encoder.tail_due)
			break;
		if (!put_last_chunk(pump))
			return PUMP_NO_MEMORY;
	}
	release(pump);
	if (pump->borrowed > 0) {
		size_t borrowed = pump->borrowed;
		pump->borrowed = 0;
		if (!spool_drop(pump->spool, borrowed))
			return PUMP_SPOOL_FAILED;
	}
	return PUMP_DONE;
}

/* The source has no more to say: the end of a body that is ended so, or too early. */
static enum pump_result source_ended(struct pump *pump)
{
	if (pump->source->failed || !body_decode_end(&pump->decoder))
		return PUMP_SOURCE_ENDED;
	pump->encoder.tail_due = pump->sink && pump->encoder.chunked;
	return PUMP_DONE;
}

/* Reads a block, or says why not. PUMP_DONE: there is something new to look at. */
static enum pump_result fetch(struct pump *pump, unsigned *turns)
{
	if (!pump->source)
		return PUMP_WANTS_READ; /* what comes is put into the spool */
	if (pump->source->read_ended)
		return source_ended(pump);
	if (!stream_may_have_more(pump->source) || (*turns)-- == 0)
		return PUMP_WANTS_READ;
	if (!pump->in->at && !buffer_acquire(pump->in, pump->pool))
		return PUMP_NO_MEMORY;
	if (buffer_used(pump->in) == 0)
		pump->in->start = pump->in->end = 0;
	switch (stream_read(pump->source, pump->in)) {
	case STREAM_OK:
		return PUMP_DONE;
	case STREAM_AGAIN:
		release(pump);
		return PUMP_WANTS_READ;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	release(pump);
	return source_ended(pump);
}

enum pump_result pump_run(struct pump *pump, unsigned turns)
{
	for (;;) {
		if (is_lost(pump))
			return PUMP_SPOOL_FAILED;
		enum pump_result result = send_all(pump);
		if (result != PUMP_DONE)
			return result;
		if (!pump_has_content(pump)) {
			if (pump->decoder.decoded)
				return PUMP_DONE;
			result = fetch(pump, &turns);
			if (result != PUMP_DONE)
				return result;
			if (pump->decoder.decoded)
				continue;
		}
		result = pump_fill(pump);
		if (result != PUMP_DONE && result != PUMP_WANTS_READ)
			return result;
	}
}

enum pump_result pump_collect(struct pump *pump, unsigned turns)
{
	while (!pump->decoder.decoded) {
		struct slice content;
		enum pump_result result = PUMP_DONE;
		if (spool_room(pump->spool, 1) == 0)
			return spool_failed(pump->spool) ? PUMP_SPOOL_FAILED : PUMP_WANTS_WRITE;
		if (!pump->in->at || buffer_used(pump->in) == 0)
			result = fetch(pump, &turns);
		if (result != PUMP_DONE || pump->decoder.decoded)
			return result; /* what ends with its source ends here */
		result = decode(pump, spool_room(pump->spool, buffer_used(pump->in)), &content);
		if (result != PUMP_DONE && result != PUMP_WANTS_READ)
			return result;
		if (spool_put(pump->spool, content) < content.len)
			return PUMP_SPOOL_FAILED;
		release(pump);
	}
	return is_lost(pump) ? PUMP_SPOOL_FAILED : PUMP_DONE;
}
