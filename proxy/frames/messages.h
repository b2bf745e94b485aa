/*
 * Messages out of frames, by the rules of RFC 6455: which side masks, which frames may follow
 * which, the contents of a close frame, that a text is UTF-8.
 *
 *   frames  text | continuation ... fin | ping | close       a control frame may come between
 *                 `--------------------'                     fragments
 *   events  DATA, begins ... DATA, ends | PING | CLOSE
 *
 * A message is returned in pieces as they come: whether it is gathered is the caller's affair.
 */
#ifndef FRAMES_MESSAGES_H
#define FRAMES_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "frames/frames.h"
#include "base/slice.h"

/* ---- utf8 ----------------------------------------------------------------------------------- */

/*
 * Is a text UTF-8 (RFC 3629)? It may come in pieces: a character that is cut is judged when the
 * rest of it has come.
 */

/* All zero: before the first character. */
struct utf8 {
	uint8_t left;      /* bytes of a character that are still to come */
	uint8_t low, high; /* bounds of the next of these */
};

/* False: it is none, whatever follows. */
bool utf8_continue(struct utf8 *utf8, struct slice bytes);

/* Does it end here, with no part of a character? */
static inline bool utf8_is_whole(const struct utf8 *utf8)
{
	return utf8->left == 0;
}

/* Is all of it? */
bool utf8_is_valid(struct slice text);

/* ---- messages ------------------------------------------------------------------------------- */

/* The code of a close frame (RFC 6455 section 7.4.1, and IANA's registry). */
enum close_code {
	CLOSE_NORMAL = 1000,
	CLOSE_GOING_AWAY = 1001,
	CLOSE_PROTOCOL = 1002,
	CLOSE_NO_CODE = 1005, /* there was none; never sent */
	CLOSE_NOT_UTF8 = 1007,
	CLOSE_POLICY = 1008,
	CLOSE_TOO_BIG = 1009,
	CLOSE_INTERNAL = 1011,
	CLOSE_RESTART = 1012, /* come back: it is another's now */
	CLOSE_TRY_AGAIN = 1013,
};

/* May a close frame contain it? Those of applications included. */
#define CLOSE_CODES_VALID "1000 to 1003, 1007 to 1014 or 3000 to 4999"
bool close_code_is_valid(unsigned code);

/* All zero but for the first part, which is the owner's: before the first message. */
struct message_reader {
	bool masked;        /* the frames must be; else they must not */
	bool deflates;      /* permessage-deflate was agreed on: RSV1 marks messages */
	bool trusts_text;   /* another party checks that texts are UTF-8 */
	uint64_t max_bytes; /* of a message, 0: no bound */

	struct frame_reader frames;
	uint8_t opcode;  /* of the message that has begun: FRAME_TEXT, FRAME_BINARY; 0: none */
	bool compressed; /* it has RSV1 */
	struct utf8 utf8;
	uint64_t bytes; /* of it, by the lengths of its frames so far */
	uint8_t control_len;
	char control[FRAME_CONTROL_BYTES];
};

enum message_event_kind {
	MESSAGE_MORE, /* all input was taken */
	MESSAGE_DATA,
	MESSAGE_PING,
	MESSAGE_PONG,
	MESSAGE_CLOSE,
	MESSAGE_BROKEN, /* the connection is to be closed with `code` */
	MESSAGE_NO_MEMORY,
};

struct message_event {
	enum message_event_kind kind;
	/* DATA */
	struct frame_piece piece;
	uint8_t opcode;    /* the message's */
	bool compressed;   /* the same */
	bool begins, ends; /* the message, with this piece */
	/* PING, PONG, CLOSE */
	struct slice payload; /* all of it; until the next call */
	/* CLOSE: as received, or CLOSE_NO_CODE; BROKEN: what to close with */
	unsigned code;
	struct slice reason; /* CLOSE: of the payload; BROKEN: constant */
};

/* The next event; takes its bytes off the front of `input`. After BROKEN and NO_MEMORY, and what a
 * peer sends behind CLOSE, the reader is good for message_reader_end only. */
void message_read(struct frame_pool *pool, struct message_reader *reader, struct slice *input,
	struct message_event *event);

void message_reader_end(struct frame_pool *pool, struct message_reader *reader);

/* The payload of a close frame: the code (none with CLOSE_NO_CODE) and as much of the reason as
 * there is room for, cut between characters. */
struct slice close_payload(unsigned code, struct slice reason, char payload[FRAME_CONTROL_BYTES]);

#endif
