#include "store/lock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/cluster_map.h"

/* By enum lock_kind, lock_verb and lock_status. */
static const char *const kinds[] = {"lock", "session", "probe"};
static const char *const verbs[] = {"take", "use", "release", "end", "look"};
static const char *const statuses[] = {NULL, "held", "busy", "lapsed", "free", "over"};

/* ---- names ----------------------------------------------------------------------------------- */

bool lock_name_is_valid(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
	size_t len = strlen(name);

	return len > 0 && len < LOCK_NAME_BYTES && strspn(name, allowed) == len;
}

bool lock_session_is_valid(const char *session)
{
	size_t len = strlen(session);

	for (const char *c = session; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return false;
	}
	return len > 0 && len < LOCK_SESSION_BYTES && strcmp(session, "-") != 0;
}

/* By FNV-1a (Fowler, Noll, Vo). */
unsigned lock_part_of(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return 1 + (unsigned)((hash ^ hash >> 32) % SLOT_PARTS);
}

void lock_ask_own(struct lock_ask *ask, uint64_t fence)
{
	ask->verb = fence == 0 ? LOCK_TAKE : LOCK_USE;
	ask->number = fence == 0 ? LOCK_BORN_ANY : fence;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the tag of a part is in a key, without a cluster as well. */
static void write_front(unsigned part, char front[static 8])
{
	char tag[SLOT_TAG_BYTES] = "";

	if (part > 0)
		slot_write_tag(part, tag);
	snprintf(front, 8, "{%s}", part > 0 ? tag : "locks");
}

/* `name`: NULL of the index. */
static void put_key(
	FILE *out, const char *prefix, unsigned part, enum lock_kind kind, const char *name)
{
	char front[8];

	write_front(part, front);
	size_t len = strlen(prefix) + strlen(front) + strlen(kinds[kind]) +
		     (name ? 1 + strlen(name) : 0);
	fprintf(out, "$%zu\r\n%s%s%s%s%s\r\n", len, prefix, front, kinds[kind], name ? ":" : "",
		name ? name : "");
}

static void put_text(FILE *out, const char *text, size_t len)
{
	fprintf(out, "$%zu\r\n", len);
	fwrite(text, 1, len, out);
	fputs("\r\n", out);
}

static void put_number(FILE *out, uint64_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRIu64, number);

	put_text(out, text, (size_t)len);
}

static void put_any_birth(FILE *out, uint64_t dropped)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "-%" PRIu64, dropped + 1);

	put_text(out, text, (size_t)len);
}

static void put_ask(FILE *out, const struct lock_ask *ask)
{
	const char *session = ask->session ? ask->session : "";

	put_text(out, verbs[ask->verb], strlen(verbs[ask->verb]));
	put_text(out, session, strlen(session));
	if (ask->number == LOCK_BORN_ANY)
		put_any_birth(out, ask->dropped);
	else
		put_number(out, ask->number);
	put_number(out, ask->lease_ms);
	put_number(out, ask->keep_ms);
	put_text(out, ask->value ? ask->value : "", ask->value ? ask->value_len : 0);
}

enum { WORDS = 6 }; /* of put_ask */

static char *finish(FILE *out, char **text)
{
	bool failed = ferror(out) != 0;

	if (fclose(out) == 0 && !failed)
		return *text;
	free(*text);
	return NULL;
}

char *lock_compose(const char *prefix, unsigned part, struct lock_ask *const *asks, unsigned count,
	size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return NULL;
	fprintf(out, "*%u\r\n$5\r\nFCALL\r\n$13\r\nsluice_lock_1\r\n", 4 + count * (1 + WORDS));
	put_number(out, count + 1);
	for (unsigned i = 0; i < count; i++)
		put_key(out, prefix, part, asks[i]->kind, asks[i]->name);
	put_key(out, prefix, part, asks[0]->kind, NULL);
	for (unsigned i = 0; i < count; i++)
		put_ask(out, asks[i]);
	return finish(out, &text);
}

char *lock_compose_list(
	const char *prefix, unsigned part, enum lock_kind kind, const char *cursor, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return NULL;
	fputs("*5\r\n$5\r\nFCALL\r\n$14\r\nsluice_locks_1\r\n$1\r\n1\r\n", out);
	put_key(out, prefix, part, kind, NULL);
	put_text(out, cursor, strlen(cursor));
	return finish(out, &text);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Digits up to `end_mark`, which is passed. */
static bool read_number(struct lock_reader *reader, char end_mark, uint64_t *number)
{
	const char *begin = reader->at;

	*number = 0;
	for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
		if (*number > (UINT64_MAX - 9) / 10)
			return false;
		*number = *number * 10 + (uint64_t)(*reader->at - '0');
	}
	if (reader->at == begin || reader->at == reader->end || *reader->at != end_mark)
		return false;
	reader->at++;
	return true;
}

/* A word and the blank behind it, which is passed. */
static bool read_word(struct lock_reader *reader, char *word, size_t size)
{
	size_t left = (size_t)(reader->end - reader->at);
	const char *blank = left > 0 ? memchr(reader->at, ' ', left) : NULL;
	size_t len = blank ? (size_t)(blank - reader->at) : 0;

	if (len == 0 || len >= size)
		return false;
	memcpy(word, reader->at, len);
	word[len] = '\0';
	reader->at = blank + 1;
	return true;
}

static bool read_status(struct lock_reader *reader, enum lock_status *status)
{
	char word[8];

	if (!read_word(reader, word, sizeof(word)))
		return false;
	for (unsigned i = LOCK_HELD; i <= LOCK_OVER; i++) {
		if (strcmp(statuses[i], word) == 0) {
			*status = i;
			return true;
		}
	}
	return false;
}

bool lock_read(struct lock_reader *reader, struct lock_answer *answer)
{
	uint64_t value_len;

	*answer = (struct lock_answer){.status = LOCK_UNKNOWN};
	if (!read_status(reader, &answer->status) || !read_number(reader, ' ', &answer->fence) ||
		!read_number(reader, ' ', &answer->left_ms) ||
		!read_word(reader, answer->session, sizeof(answer->session)) ||
		!read_number(reader, '\n', &value_len) ||
		value_len >= (uint64_t)(reader->end - reader->at) ||
		reader->at[value_len] != '\n') {
		*answer = (struct lock_answer){.status = LOCK_UNKNOWN};
		return false;
	}
	if (strcmp(answer->session, "-") == 0)
		answer->session[0] = '\0';
	answer->value = reader->at;
	answer->value_len = value_len;
	reader->at += value_len + 1;
	return true;
}

const char *lock_name_in_key(
	const char *key, const char *prefix, unsigned part, enum lock_kind kind)
{
	char front[8];
	size_t prefix_len = strlen(prefix), kind_len = strlen(kinds[kind]);

	write_front(part, front);
	if (strncmp(key, prefix, prefix_len) != 0)
		return NULL;
	key += prefix_len;
	if (strncmp(key, front, strlen(front)) != 0)
		return NULL;
	key += strlen(front);
	if (strncmp(key, kinds[kind], kind_len) != 0 || key[kind_len] != ':')
		return NULL;
	key += kind_len + 1;
	return lock_name_is_valid(key) ? key : NULL;
}
