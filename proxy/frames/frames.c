#include "frames/frames.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>
#include <wslay/wslay.h>

/* ---- wslay's callbacks: their user data is the pool ------------------------------------------ */

static ssize_t give_input(uint8_t *at, size_t room, int flags, void *user)
{
	struct frame_pool *pool = user;
	size_t len = pool->input->len < room ? pool->input->len : room;

	(void)flags;
	if (len == 0)
		return -1;
	memcpy(at, pool->input->at, len);
	pool->input->at += len;
	pool->input->len -= len;
	pool->reading->ahead += len;
	return (ssize_t)len;
}

static ssize_t take_output(const uint8_t *bytes, size_t len, int flags, void *user)
{
	struct frame_pool *pool = user;
	struct slice text = {(const char *)bytes, len};

	(void)flags;
	return pool->sink->put(pool->sink, text) ? (ssize_t)len : -1;
}

static int next_mask(uint8_t *mask, size_t len, void *user)
{
	struct frame_pool *pool = user;

	assert(len == FRAME_MASK_BYTES);
	if (pool->masks_left == 0) {
		if (getentropy(pool->masks, sizeof(pool->masks)) != 0)
			return -1;
		pool->masks_left = sizeof(pool->masks);
	}
	pool->masks_left -= len;
	memcpy(mask, pool->masks + pool->masks_left, len);
	return 0;
}

_Static_assert(FRAME_MASKS_AHEAD *FRAME_MASK_BYTES <= 256, "getentropy gives no more");

/* ---- the pool -------------------------------------------------------------------------------- */

void frame_pool_init(struct frame_pool *pool)
{
	memset(pool, 0, sizeof(*pool));
}

void frame_pool_clear(struct frame_pool *pool)
{
	for (unsigned masked = 0; masked < 2; masked++) {
		while (pool->kept_count[masked] > 0)
			wslay_frame_context_free(pool->kept[masked][--pool->kept_count[masked]]);
	}
}

/* NULL without memory. */
static struct wslay_frame_context *take_context(struct frame_pool *pool, bool masked)
{
	static const struct wslay_frame_callbacks callbacks = {take_output, give_input, next_mask};
	struct wslay_frame_context *context;

	if (pool->kept_count[masked] > 0)
		return pool->kept[masked][--pool->kept_count[masked]];
	return wslay_frame_context_init(&context, &callbacks, pool) == 0 ? context : NULL;
}

/* It is between frames, as a new one. */
static void keep_context(struct frame_pool *pool, struct wslay_frame_context *context, bool masked)
{
	if (pool->kept_count[masked] < FRAME_POOL_KEPT)
		pool->kept[masked][pool->kept_count[masked]++] = context;
	else
		wslay_frame_context_free(context);
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t head_bytes(const struct frame *frame)
{
	return 2 +
	       (frame->length > 65535        ? 8
		       : frame->length > 125 ? 2
					     : 0) +
	       (frame->masked ? FRAME_MASK_BYTES : 0);
}

static void fill_piece(
	struct frame_reader *reader, const struct wslay_frame_iocb *iocb, struct frame_piece *piece)
{
	piece->begins = reader->left == 0;
	if (piece->begins) {
		reader->frame = (struct frame){
			.opcode = iocb->opcode,
			.rsv = iocb->rsv,
			.fin = iocb->fin,
			.masked = iocb->mask,
			.length = iocb->payload_length,
		};
		reader->left = iocb->payload_length;
		reader->ahead -= head_bytes(&reader->frame);
	}
	reader->left -= iocb->data_length;
	reader->ahead -= iocb->data_length;
	piece->frame = reader->frame;
	piece->ends = reader->left == 0;
	piece->data = (struct slice){(const char *)iocb->data, iocb->data_length};
}

enum frame_result frame_read(struct frame_pool *pool, struct frame_reader *reader,
	struct slice *input, struct frame_piece *piece)
{
	struct wslay_frame_iocb iocb;

	if (!reader->context && input->len == 0)
		return FRAME_MORE;
	if (!reader->context) {
		reader->context = take_context(pool, false);
		if (!reader->context)
			return FRAME_NO_MEMORY;
	}
	pool->reading = reader;
	pool->input = input;
	ssize_t result = wslay_frame_recv(reader->context, &iocb);
	pool->reading = NULL;
	pool->input = NULL;
	if (result >= 0) {
		fill_piece(reader, &iocb, piece);
		return FRAME_PIECE;
	}
	if (result != WSLAY_ERR_WANT_READ)
		return FRAME_BROKEN;
	if (reader->left == 0 && reader->ahead == 0) {
		keep_context(pool, reader->context, false);
		reader->context = NULL;
	}
	return FRAME_MORE;
}

void frame_reader_end(struct frame_pool *pool, struct frame_reader *reader)
{
	(void)pool;
	if (reader->context)
		wslay_frame_context_free(reader->context); /* it may be within a frame */
	*reader = (struct frame_reader){0};
}

/* ---- writing --------------------------------------------------------------------------------- */

bool frame_write(struct frame_pool *pool, struct frame_writer *writer, const struct frame *frame,
	struct slice data, struct frame_sink *sink)
{
	struct wslay_frame_iocb iocb = {
		.fin = frame->fin,
		.rsv = frame->rsv,
		.opcode = frame->opcode,
		.mask = frame->masked,
		.payload_length = frame->length,
		.data = (const uint8_t *)data.at,
		.data_length = data.len,
	};

	if (!writer->context) {
		writer->context = take_context(pool, frame->masked);
		if (!writer->context)
			return false;
		writer->left = frame->length;
	}
	assert(data.len <= writer->left);
	pool->sink = sink;
	ssize_t result = wslay_frame_send(writer->context, &iocb);
	pool->sink = NULL;
	if (result < 0 || (size_t)result != data.len) {
		frame_writer_end(pool, writer);
		return false;
	}
	writer->left -= data.len;
	if (writer->left == 0) {
		keep_context(pool, writer->context, frame->masked);
		writer->context = NULL;
	}
	return true;
}

bool frame_write_whole(struct frame_pool *pool, uint8_t opcode, uint8_t rsv, bool masked,
	struct slice data, struct frame_sink *sink)
{
	struct frame_writer writer = {0};
	struct frame frame = {
		.opcode = opcode, .rsv = rsv, .fin = true, .masked = masked, .length = data.len};

	return frame_write(pool, &writer, &frame, data, sink);
}

void frame_writer_end(struct frame_pool *pool, struct frame_writer *writer)
{
	(void)pool;
	if (writer->context)
		wslay_frame_context_free(writer->context);
	*writer = (struct frame_writer){0};
}
