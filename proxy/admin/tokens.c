#include "admin/tokens.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/hs256.h"
#include "conf/conf.h"

#define LINE_BYTES 1024

struct token {
	enum admin_role role;
	unsigned char digest[DIGEST_BYTES];
};

struct admin_tokens {
	struct token *items;
	size_t count;
};

static bool read_hex(const char *text, unsigned char digest[static DIGEST_BYTES])
{
	if (strlen(text) != 2 * DIGEST_BYTES)
		return false;
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		unsigned value;
		if (!isxdigit((unsigned char)text[2 * i]) ||
			!isxdigit((unsigned char)text[2 * i + 1]) ||
			sscanf(text + 2 * i, "%2x", &value) != 1)
			return false;
		digest[i] = (unsigned char)value;
	}
	return true;
}

static bool read_token(const char *text, unsigned char digest[static DIGEST_BYTES])
{
	size_t prefix = strlen(DIGEST_PREFIX);

	if (strncmp(text, DIGEST_PREFIX, prefix) == 0)
		return read_hex(text + prefix, digest);
	digest_make(slice_of(text), digest);
	return true;
}

void admin_tokens_cut_comment(char *line)
{
	for (char *at = line; (at = strchr(at, '#')); at++) {
		if (at == line || strchr(" \t", at[-1])) {
			*at = '\0';
			return;
		}
	}
}

/* One line without its comment. Returns what was expected instead, or NULL. */
static const char *read_line(struct admin_tokens *tokens, char *line)
{
	char *words[4] = {NULL}, *rest = NULL;
	size_t count = 0;
	struct token token = {.role = ADMIN_WRITE};

	for (char *word = strtok_r(line, " \t\r\n", &rest); word && count < 4;
		word = strtok_r(NULL, " \t\r\n", &rest))
		words[count++] = word;
	if (count == 0)
		return NULL;
	if (count == 3 && strcmp(words[1], "read") == 0)
		token.role = ADMIN_READ;
	else if (count != 1 && !(count == 3 && strcmp(words[1], "write") == 0))
		return "expected NAME, read or write, and a token; or a token alone";
	if (!read_token(words[count - 1], token.digest))
		return "expected 64 hexadecimal digits after sha256:";
	struct token *items = realloc(tokens->items, (tokens->count + 1) * sizeof(*items));
	if (!items)
		return "no memory";
	tokens->items = items;
	tokens->items[tokens->count++] = token;
	return NULL;
}

static bool read_file(
	struct admin_tokens *tokens, FILE *file, const char *path, char *why, size_t why_bytes)
{
	char line[LINE_BYTES];

	for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
		if (!strchr(line, '\n') && !feof(file)) {
			snprintf(why, why_bytes, "%s:%u: the line is longer than %u bytes", path,
				number, LINE_BYTES - 2);
			return false;
		}
		admin_tokens_cut_comment(line);
		const char *expected = read_line(tokens, line);
		if (expected) {
			snprintf(why, why_bytes, "%s:%u: %s", path, number, expected);
			return false;
		}
	}
	if (ferror(file))
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
	else if (tokens->count == 0)
		snprintf(why, why_bytes, "%s: the file has no token", path);
	return !ferror(file) && tokens->count > 0;
}

struct admin_tokens *admin_tokens_load(const char *path, char *why, size_t why_bytes)
{
	struct admin_tokens *tokens = calloc(1, sizeof(*tokens));
	FILE *file = fopen(path, "re");
	bool good = false;

	if (!file || !tokens)
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
	else
		good = read_file(tokens, file, path, why, why_bytes);
	if (file)
		fclose(file);
	if (good)
		return tokens;
	admin_tokens_free(tokens);
	return NULL;
}

void admin_tokens_free(struct admin_tokens *tokens)
{
	if (!tokens)
		return;
	if (tokens->items)
		explicit_bzero(tokens->items, tokens->count * sizeof(*tokens->items));
	free(tokens->items);
	free(tokens);
}

enum admin_role admin_tokens_role(const struct admin_tokens *tokens, const char *authorization)
{
	static const char scheme[] = "Bearer";
	unsigned char digest[DIGEST_BYTES];
	enum admin_role role = ADMIN_ANYONE;
	size_t len = sizeof(scheme) - 1;

	if (!authorization || strncasecmp(authorization, scheme, len) != 0 ||
		authorization[len] != ' ')
		return ADMIN_ANYONE;
	authorization += len + strspn(authorization + len, " ");
	len = strlen(authorization);
	while (len > 0 && authorization[len - 1] == ' ')
		len--;
	/* Digests are compared, all of them: neither the time nor the length tells anything of a
	 * token. */
	digest_make((struct slice){authorization, len}, digest);
	for (size_t i = 0; i < tokens->count; i++) {
		if (digest_equal(tokens->items[i].digest, digest) && tokens->items[i].role > role)
			role = tokens->items[i].role;
	}
	return role;
}

/* ---- publish token -------------------------------------------------------------------------- */

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
