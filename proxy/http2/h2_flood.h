/*
 * Bounds on frames that cost work and carry nothing, by kind: of each kind a connection may have a
 * burst, and a rate that fills it again.
 *
 *   bytes as they come --h2_flood_walk--> frames --> count of their kind --beyond--> the kind
 *
 * The walk reads the heads of frames by itself, so that the bounds are the same for any version of
 * nghttp2, which knows some of them. Pure logic: time is passed in.
 */
#ifndef HTTP2_H2_FLOOD_H
#define HTTP2_H2_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum h2_flood_kind {
	H2_FLOOD_RESET,    /* streams reset by the client, or by us for an error of its */
	H2_FLOOD_PING,     /* acknowledgements, too */
	H2_FLOOD_SETTINGS, /* the same */
	H2_FLOOD_PRIORITY, /* PRIORITY and PRIORITY_UPDATE */
	H2_FLOOD_WINDOW,   /* WINDOW_UPDATE beyond what the DATA that it was sent explains */
	H2_FLOOD_EMPTY,    /* DATA without content that ends nothing */
	H2_FLOOD_OTHER,    /* GOAWAY and frames of unknown types */
	H2_FLOOD_HEADERS,  /* a header block longer than its bound, or in too many pieces */
	H2_FLOOD_KINDS,
	H2_FLOOD_NONE = H2_FLOOD_KINDS,
};

/* A connection's counts. Zeroed but for the two that its owner sets. */
struct h2_flood {
	uint64_t preface_left; /* bytes before the first frame */
	uint32_t block_most;   /* bytes of a header block as it came; then a few frames */

	uint64_t paid_until_ns[H2_FLOOD_HEADERS]; /* GCRA: when the burst is whole again */
	uint32_t window_credit;                   /* updates that DATA has paid for */
	uint32_t block_bytes, block_frames;       /* of the header block that is open */
	uint32_t left;                            /* bytes of the frame's payload to come */
	uint8_t head[9], head_len;
	bool pads; /* the next byte is the length of a DATA frame's padding */
};

/* Counts the frames in these bytes. Returns the first kind that is beyond its bound, or NONE. */
enum h2_flood_kind h2_flood_walk(
	struct h2_flood *flood, const uint8_t *bytes, size_t len, uint64_t now_ns);

/* Counts one more of a kind. False: it is beyond its bound. */
bool h2_flood_count(struct h2_flood *flood, enum h2_flood_kind kind, uint64_t now_ns);

/* A DATA frame was sent, which its client may answer by some WINDOW_UPDATE. */
static inline void h2_flood_sent_data(struct h2_flood *flood)
{
	if (flood->window_credit < 100000)
		flood->window_credit += 4;
}

/* For the log. */
const char *h2_flood_name(enum h2_flood_kind kind);

#endif
