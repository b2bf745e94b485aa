#include "base/hop_proof.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hs256.h"

#define CLAIMS_BYTES 160

bool hop_draw_nonce(char nonce[HOP_NONCE_BYTES])
{
	uint64_t drawn[2];

	if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
		return false;
	snprintf(nonce, HOP_NONCE_BYTES, "%016llx%016llx", (unsigned long long)drawn[0],
		(unsigned long long)drawn[1]);
	return true;
}

bool hop_is_nonce(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (!memchr("0123456789abcdef", text.at[i], 16))
			return false;
	}
	return text.len == HOP_NONCE_BYTES - 1;
}

static size_t write_claims(
	enum hop_side side, const char *asker, const char *owner, char claims[CLAIMS_BYTES])
{
	return (size_t)snprintf(claims, CLAIMS_BYTES,
		"{\"sluice-hop\":\"%s\",\"asker\":\"%.32s\",\"owner\":\"%.32s\"}",
		side == HOP_ASKER ? "asker" : "owner", asker, owner);
}

size_t hop_prove(struct slice secret, enum hop_side side, const char asker[HOP_NONCE_BYTES],
	const char owner[HOP_NONCE_BYTES], char proof[HOP_PROOF_BYTES])
{
	char claims[CLAIMS_BYTES];
	size_t len = write_claims(side, asker, owner, claims);

	_Static_assert(HS256_TOKEN_BYTES(CLAIMS_BYTES) <= HOP_PROOF_BYTES, "a proof has room");
	return hs256_sign(secret, (struct slice){claims, len}, proof);
}

bool hop_is_proof(struct slice secret, enum hop_side side, const char asker[HOP_NONCE_BYTES],
	const char owner[HOP_NONCE_BYTES], struct slice proof)
{
	char claims[CLAIMS_BYTES], room[HOP_PROOF_BYTES];
	size_t len = write_claims(side, asker, owner, claims);
	struct slice header, signed_claims;

	return proof.len <= sizeof(room) &&
	       hs256_open(secret, proof, room, &header, &signed_claims) &&
	       slice_equal(signed_claims, (struct slice){claims, len});
}
