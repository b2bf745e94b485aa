#include "fleet/findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Lengths and times have fewer digits. */
#define DIGITS_MOST 19

static const char version[] = "1 ";

/* ---- writing --------------------------------------------------------------------------------- */

bool findings_begin(struct findings_writer *writer, const struct findings_head *head)
{
	int len = snprintf(writer->at, writer->size, "%s%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		version, head->fence, head->number, head->lease_ms);

	writer->len = 0;
	if (len < 0 || (size_t)len >= writer->size)
		return false;
	writer->len = (size_t)len;
	return true;
}

bool findings_add(struct findings_writer *writer, const struct findings_line *line)
{
	const char *state = !line->is_known ? "new" : line->is_up ? "up" : "down";
	size_t room = writer->size - writer->len;
	int len = snprintf(writer->at + writer->len, room,
		"%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu %zu %.*s %.*s\n", state,
		line->since_ago_ms, line->checked_ago_ms, line->addresses_id, line->address.len,
		line->saw.len, (int)line->address.len, line->address.at, (int)line->saw.len,
		line->saw.at);

	if (len < 0 || (size_t)len >= room)
		return false;
	writer->len += (size_t)len;
	return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Digits up to `end_mark`, which is passed. */
static bool read_number(struct findings_reader *reader, char end_mark, uint64_t *number)
{
	unsigned digits = 0;

	*number = 0;
	for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
		uint64_t digit = (uint64_t)(*reader->at - '0');
		if (++digits > DIGITS_MOST + 1 || *number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	if (digits == 0 || reader->at == reader->end || *reader->at != end_mark)
		return false;
	reader->at++;
	return true;
}

static bool read_word(struct findings_reader *reader, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
		return false;
	reader->at += len;
	return true;
}

/* So many bytes and the mark behind them, which is passed. */
static bool read_bytes(
	struct findings_reader *reader, uint64_t len, char end_mark, struct slice *bytes)
{
	if (len >= (uint64_t)(reader->end - reader->at) || reader->at[len] != end_mark)
		return false;
	*bytes = (struct slice){reader->at, (size_t)len};
	reader->at += len + 1;
	return true;
}

bool findings_read_head(
	struct findings_reader *reader, const char *text, size_t len, struct findings_head *head)
{
	*reader = (struct findings_reader){text, text + len};
	return read_word(reader, version) && read_number(reader, ' ', &head->fence) &&
	       read_number(reader, ' ', &head->number) &&
	       read_number(reader, '\n', &head->lease_ms);
}

static bool read_state(struct findings_reader *reader, struct findings_line *line)
{
	line->is_up = read_word(reader, "up ");
	line->is_known = line->is_up || read_word(reader, "down ");
	return line->is_known || read_word(reader, "new ");
}

bool findings_read_line(struct findings_reader *reader, struct findings_line *line)
{
	uint64_t address_len, saw_len;

	return read_state(reader, line) && read_number(reader, ' ', &line->since_ago_ms) &&
	       read_number(reader, ' ', &line->checked_ago_ms) &&
	       read_number(reader, ' ', &line->addresses_id) &&
	       read_number(reader, ' ', &address_len) && read_number(reader, ' ', &saw_len) &&
	       read_bytes(reader, address_len, ' ', &line->address) &&
	       read_bytes(reader, saw_len, '\n', &line->saw);
}
