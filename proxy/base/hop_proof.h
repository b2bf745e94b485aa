/*
 * How two nodes of a fleet prove to each other that they have the same secret, without sending it.
 *
 *   asker: nonce A  ------------------------------>  owner
 *          <------------------------------- nonce B
 *          asker's proof over both  --------------->
 *          <---------------- owner's proof over both
 *
 * The side that connects proves first: anybody may connect, and a proof lets its reader try
 * secrets.
 *
 * A proof is a token signed with HMAC-SHA-256 (base/hs256.h) by the secret, of a side and both
 * nonces: that of one side or one connection is none of another. It authenticates a connection when
 * that begins; an attacker that changes bytes on their way later changes what passes.
 */
#ifndef BASE_HOP_PROOF_H
#define BASE_HOP_PROOF_H

#include <stdbool.h>

#include "base/slice.h"

#define HOP_NONCE_BYTES 33 /* 32 digits and a NUL */
#define HOP_PROOF_BYTES 384

enum hop_side { HOP_ASKER, HOP_OWNER };

/* A nonce that was never used. False: the system has no random bytes. */
bool hop_draw_nonce(char nonce[HOP_NONCE_BYTES]);

/* Is this text one? */
bool hop_is_nonce(struct slice text);

/* The proof of a side. Returns its bytes; it is not NUL-terminated. */
size_t hop_prove(struct slice secret, enum hop_side side, const char asker[HOP_NONCE_BYTES],
	const char owner[HOP_NONCE_BYTES], char proof[HOP_PROOF_BYTES]);

/* Is it the proof of that side? Takes the same time wherever signatures differ. */
bool hop_is_proof(struct slice secret, enum hop_side side, const char asker[HOP_NONCE_BYTES],
	const char owner[HOP_NONCE_BYTES], struct slice proof);

#endif
