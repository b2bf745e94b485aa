#include "admin/publish_token.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/hs256.h"
#include "conf/conf.h"

static bool is_hs256(struct slice header)
{
	json_t *object = json_loadb(header.at, header.len, 0, NULL);
	const char *algorithm = json_string_value(json_object_get(object, "alg"));
	/* What `crit` lists must be understood (RFC 7515 section 4.1.11): nothing is. */
	bool good =
		algorithm && strcmp(algorithm, "HS256") == 0 && !json_object_get(object, "crit");

	json_decref(object);
	return good;
}

/* And made by a publisher, not by sluice. */
static bool is_valid_now(struct slice claims, double now_s)
{
	json_t *object = json_loadb(claims.at, claims.len, 0, NULL);
	const json_t *until = json_object_get(object, "exp");
	const json_t *from = json_object_get(object, "nbf");
	bool good = json_is_number(until) && !json_object_get(object, CONF_GRIP_REQUEST_CLAIM) &&
		    now_s - PUBLISH_TOKEN_LEEWAY_S < json_number_value(until) &&
		    (!from || (json_is_number(from) &&
				      json_number_value(from) <= now_s + PUBLISH_TOKEN_LEEWAY_S));

	json_decref(object);
	return good;
}

bool publish_token_is_good(struct slice key, const char *authorization, uint64_t now_s)
{
	static const char scheme[] = "Bearer ";
	char room[PUBLISH_TOKEN_BYTES];
	struct slice token, header, claims;

	if (key.len == 0 || !authorization ||
		strncasecmp(authorization, scheme, strlen(scheme)) != 0)
		return false;
	token = slice_trim(slice_of(authorization + strlen(scheme)));
	return token.len <= sizeof(room) && hs256_open(key, token, room, &header, &claims) &&
	       is_hs256(header) && is_valid_now(claims, (double)now_s);
}
