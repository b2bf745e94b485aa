#include "upstream/greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

#define REQUEST_BYTES (HOP_PROOF_BYTES + 128)

/* It is short, and nothing was written before: all of it fits. */
static bool send_request(struct stream *stream, const char *word, struct slice value)
{
	char request[REQUEST_BYTES];
	size_t written = 0;
	int len = snprintf(request, sizeof(request),
		"GET /.sluice/hop HTTP/1.1\r\nHost: fleet\r\nSluice-Hop: %s %.*s\r\n\r\n", word,
		SLICE_ARGS(value));
	struct iovec piece = {request, (size_t)len};

	return stream_write(stream, &piece, 1, &written) == STREAM_OK && written == (size_t)len;
}

struct greeting *greeting_begin(struct stream *stream)
{
	struct greeting *greeting = calloc(1, sizeof(*greeting));

	if (greeting && hop_draw_nonce(greeting->nonce) &&
		send_request(stream, "hello", slice_of(greeting->nonce)))
		return greeting;
	free(greeting);
	return NULL;
}

/* What follows `Sluice-Hop: WORD ` in a whole response that says 200. None: it is no such. */
static struct slice value_of(const struct greeting *greeting, const char *word)
{
	static const char status[] = "HTTP/1.1 200 ";
	char start[32];

	if (strncmp(greeting->in, status, strlen(status)) != 0)
		return SLICE_NONE;
	snprintf(start, sizeof(start), "\r\nSluice-Hop: %s", word);
	const char *at = strstr(greeting->in, start);
	if (!at)
		return SLICE_NONE;
	at += strlen(start);
	at += *at == ' ';
	return (struct slice){at, strcspn(at, "\r")};
}

static bool answer_challenge(struct greeting *greeting, struct stream *stream, struct slice secret)
{
	struct slice value = value_of(greeting, "challenge");
	char proof[HOP_PROOF_BYTES];

	if (!hop_is_nonce(value))
		return false;
	memcpy(greeting->theirs, value.at, HOP_NONCE_BYTES - 1);
	greeting->theirs[HOP_NONCE_BYTES - 1] = '\0';
	size_t len = hop_prove(secret, HOP_ASKER, greeting->nonce, greeting->theirs, proof);
	return send_request(stream, "proof", (struct slice){proof, len});
}

static bool is_welcome(const struct greeting *greeting, struct slice secret)
{
	struct slice value = value_of(greeting, "welcome");

	return value.at &&
	       hop_is_proof(secret, HOP_OWNER, greeting->nonce, greeting->theirs, value);
}

enum greeting_progress greeting_run(
	struct greeting *greeting, struct stream *stream, const struct conf_secret *secret)
{
	struct buffer buffer = {
		greeting->in, greeting->len, greeting->len, sizeof(greeting->in) - 1};
	const struct slice known = {secret->at, secret->len};

	while (buffer_room(&buffer) > 0) {
		enum stream_result result = stream_read(stream, &buffer);
		greeting->len = buffer.end;
		greeting->in[greeting->len] = '\0';
		if (result == STREAM_AGAIN)
			break;
		if (result != STREAM_OK)
			return GREETING_FAILED;
		if (strstr(greeting->in, "\r\n\r\n"))
			break;
	}
	if (!strstr(greeting->in, "\r\n\r\n"))
		return buffer_room(&buffer) > 0 ? GREETING_GOES_ON : GREETING_FAILED;
	if (greeting->is_welcome_due)
		return is_welcome(greeting, known) ? GREETING_DONE : GREETING_FAILED;
	if (!answer_challenge(greeting, stream, known))
		return GREETING_FAILED;
	greeting->is_welcome_due = true;
	greeting->len = 0;
	greeting->in[0] = '\0';
	return GREETING_GOES_ON;
}

const char *greeting_why(const struct greeting *greeting)
{
	if (strncmp(greeting->in, "HTTP/1.1 400 ", 13) == 0)
		return "it answers 400, as one whose [fleet] has a certificate";
	if (strncmp(greeting->in, "HTTP/1.1 403 ", 13) == 0)
		return "it has another secret";
	return NULL;
}
