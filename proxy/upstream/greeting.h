/*
 * The beginning of a connection to another node: both prove that they have the fleet's secret
 * (base/hop_proof.h), by two requests that nothing is forwarded of.
 *
 *   GET /.sluice/hop, Sluice-Hop: hello NONCE  -->  200, Sluice-Hop: challenge NONCE
 *   GET /.sluice/hop, Sluice-Hop: proof PROOF  -->  200, Sluice-Hop: welcome PROOF
 *
 * Then it carries requests as any connection to a server. exchange/hop.h is the other side.
 */
#ifndef UPSTREAM_GREETING_H
#define UPSTREAM_GREETING_H

#include "base/hop_proof.h"
#include "net/stream.h"

struct conf_secret;

struct greeting {
	bool is_welcome_due; /* the proof was sent */
	char nonce[HOP_NONCE_BYTES], theirs[HOP_NONCE_BYTES];
	char in[2048];
	uint32_t len;
};

enum greeting_progress { GREETING_GOES_ON, GREETING_DONE, GREETING_FAILED };

/* The stream is connected. NULL: no memory, or it could not be written. The caller frees it. */
struct greeting *greeting_begin(struct stream *stream);
/* Something can be read. */
enum greeting_progress greeting_run(
	struct greeting *greeting, struct stream *stream, const struct conf_secret *secret);
/* Why the other node has not greeted; NULL: no more is known than that. */
const char *greeting_why(const struct greeting *greeting);

#endif
