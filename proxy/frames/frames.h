/*
 * WebSocket frames (RFC 6455 section 5.2) as wslay reads and writes them; no unit but this one
 * names it.
 *
 *   bytes --frame_read--> pieces of frames, unmasked       frames --frame_write--> sink, masked
 *                                                                                  where it is due
 *
 * wslay's state of a connection has a buffer of 4 KiB. A reader or writer has one only within a
 * frame: between frames it goes back to the pool of its thread, so that an idle connection has
 * none.
 */
#ifndef FRAMES_FRAMES_H
#define FRAMES_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct wslay_frame_context;

enum frame_opcode {
	FRAME_CONTINUATION = 0x0,
	FRAME_TEXT = 0x1,
	FRAME_BINARY = 0x2,
	FRAME_CLOSE = 0x8,
	FRAME_PING = 0x9,
	FRAME_PONG = 0xa,
};

/* RSV1 of `rsv`, which permessage-deflate sets (RFC 7692 section 6). */
#define FRAME_RSV1 4

/* The head of a frame has at most so many bytes. */
#define FRAME_HEAD_BYTES 14

/* The payload of a control frame has at most so many bytes. */
#define FRAME_CONTROL_BYTES 125

struct frame {
	uint8_t opcode; /* any of 4 bits */
	uint8_t rsv;
	bool fin, masked;
	uint64_t length; /* of its payload */
};

#define FRAME_POOL_KEPT   16
#define FRAME_MASK_BYTES  4
#define FRAME_MASKS_AHEAD 64

/* Of one thread. */
struct frame_pool {
	/* By whether they write masked frames: wslay never forgets that one did. */
	struct wslay_frame_context *kept[2][FRAME_POOL_KEPT];
	unsigned kept_count[2];
	struct frame_reader *reading; /* during a call */
	struct slice *input;
	struct frame_sink *sink;
	uint8_t masks[FRAME_MASKS_AHEAD * FRAME_MASK_BYTES]; /* random; the first `masks_left` */
	size_t masks_left;
};

void frame_pool_init(struct frame_pool *pool);
/* No reader or writer may be within a frame. */
void frame_pool_clear(struct frame_pool *pool);

/* ---- reading --------------------------------------------------------------------------------- */

/* All zero: before the first frame. */
struct frame_reader {
	struct wslay_frame_context *context; /* NULL: between frames, and nothing read ahead */
	struct frame frame;                  /* within one */
	uint64_t left;                       /* of its payload */
	uint64_t ahead;                      /* bytes taken and not yet returned, heads included */
};

/* Some of a frame's payload, or all of it. */
struct frame_piece {
	struct frame frame;
	bool begins, ends;
	struct slice data; /* unmasked; until the reader's next call */
};

enum frame_result {
	FRAME_PIECE,
	FRAME_MORE,   /* all input was taken, and more is needed */
	FRAME_BROKEN, /* a length that is not the shortest form, or a long or divided control frame
		       */
	FRAME_NO_MEMORY,
};

/*
 * The next piece. Takes what it needs off the front of `input`; some bytes behind the piece may be
 * taken as well, which later calls return. A frame is seen with the first byte of its payload,
 * unless it has none. After BROKEN or NO_MEMORY the reader is good for frame_reader_end only.
 */
enum frame_result frame_read(struct frame_pool *pool, struct frame_reader *reader,
	struct slice *input, struct frame_piece *piece);

/* Has it bytes that were taken and not yet returned? */
static inline bool frame_reader_is_ahead(const struct frame_reader *reader)
{
	return reader->ahead > 0;
}

/* Its memory is freed. */
void frame_reader_end(struct frame_pool *pool, struct frame_reader *reader);

/* ---- writing --------------------------------------------------------------------------------- */

/* Where frames are written to. */
struct frame_sink {
	/* Takes all of the bytes. False: there is no memory. */
	bool (*put)(struct frame_sink *sink, struct slice bytes);
};

/* All zero: before the first frame. */
struct frame_writer {
	struct wslay_frame_context *context; /* NULL: between frames */
	uint64_t left;                       /* of the frame's payload */
};

/*
 * Writes the head of a frame with the first of its payload, or when the writer is within a frame
 * more of that; `data` has at most what is left. A masked frame gets a key of its own. False
 * without memory or randomness: then the connection is of no use any more.
 */
bool frame_write(struct frame_pool *pool, struct frame_writer *writer, const struct frame *frame,
	struct slice data, struct frame_sink *sink);

/* A whole frame. */
bool frame_write_whole(struct frame_pool *pool, uint8_t opcode, uint8_t rsv, bool masked,
	struct slice data, struct frame_sink *sink);

void frame_writer_end(struct frame_pool *pool, struct frame_writer *writer);

#endif
