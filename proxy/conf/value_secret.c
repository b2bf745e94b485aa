/* Secrets: bytes from a file of their own or the environment, not from the ini. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "conf/same.h"
#include "conf/value.h"

#define SECRET_BYTES 4096

/* Shorter ones can be guessed: a token or a proof that is signed by one lets its reader try all. */
#define SECRET_LEAST 16

/* Takes the secret, of which base64 may be written. */
static bool keep(struct value *value, struct slice text)
{
	struct conf_secret *secret = value->at;
	size_t prefix = strlen("base64:"), len;

	if (text.len > prefix && memcmp(text.at, "base64:", prefix) == 0) {
		struct slice digits = {text.at + prefix, text.len - prefix};
		char *bytes = arena_alloc(value->build->arena, BASE64_ROOM(digits.len));
		if (!base64_read(digits, bytes, &len))
			return value_fail_plainly(value,
				"invalid secret after base64:; expected base64 with padding");
		*secret = (struct conf_secret){bytes, len};
	} else {
		*secret = (struct conf_secret){value_text(value, text), text.len};
	}
	if (secret->len == 0)
		return value_fail_plainly(value, "the secret is empty; expected at least one byte");
	if (secret->len < SECRET_LEAST && value->build->names_files)
		value_warn(value,
			"the secret has %zu bytes, and can be guessed from what is signed with "
			"it; expected at least %d",
			secret->len, SECRET_LEAST);
	return true;
}

/* The file's bytes without the end of a line behind them. */
static bool read_file(struct value *value, struct slice path)
{
	const char *resolved = value_resolve_path(value, path), *why = "";
	struct slice secret;

	if (!value->build->names_files)
		return keep(value, path);
	char *bytes = reader_file(resolved, SECRET_BYTES, true, &secret.len, &why);
	if (!bytes)
		return value_fail_plainly(value,
			"%s can't be read: %s; expected a file of at most "
			"%d bytes",
			resolved, why, SECRET_BYTES);
	size_t len = secret.len;
	secret.at = bytes;
	if (secret.len > 0 && bytes[secret.len - 1] == '\n')
		secret.len--;
	if (secret.len > 0 && bytes[secret.len - 1] == '\r')
		secret.len--;
	struct finalizer *held = arena_on_free(value->build->arena, free, bytes);
	bool good = keep(value, secret);
	explicit_bzero(bytes, len);
	arena_free_now(held);
	return good;
}

/* file:PATH, or ${NAME} alone */
static bool parse_secret(struct value *value)
{
	struct slice text = value->text;

	if (value->written && strncmp(value->written, "${", 2) == 0)
		return keep(value, text);
	if (text.len <= 5 || memcmp(text.at, "file:", 5) != 0)
		return value_fail(value, "a secret can't be written in this file");
	text.at += 5;
	text.len -= 5;
	return value_check_path(value, text) && read_file(value, text);
}

static SAME(same_secret)
{
	const struct conf_secret *one = (const void *)((const char *)a + option->offset);
	const struct conf_secret *other = (const void *)((const char *)b + option->offset);

	return one->len == other->len &&
	       (one->len == 0 || memcmp(one->at, other->at, one->len) == 0);
}

const struct option_type type_secret = {
	"secret", "file:PATH, or ${NAME} of the environment", parse_secret, same_secret, false};
