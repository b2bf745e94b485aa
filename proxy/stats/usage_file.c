#include "stats/usage_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 10, PATH_BYTES = 4096, PIECE_BYTES = 65536, LINE_BYTES = 256 };

static bool path_of(char path[static PATH_BYTES], const char *folder, const char *name)
{
	return snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

static void name_of(char name[static NAME_BYTES + 1], uint64_t time_s)
{
	time_t time = (time_t)time_s;
	struct tm tm;

	gmtime_r(&time, &tm);
	strftime(name, NAME_BYTES + 1, "%Y%m%d%H", &tm);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_all(int fd, const char *at, size_t size)
{
	while (size > 0) {
		ssize_t written = write(fd, at, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		at += written;
		size -= (size_t)written;
	}
	return 0;
}

/* What the last write left without an end, on a full disk or by a crash, is ended so that it is no
 * row wherever it was cut: names have no blank. */
static int end_line(int fd)
{
	static const char torn[] = " torn torn\n";
	char last;
	off_t size = lseek(fd, 0, SEEK_END);

	if (size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n')
		return 0;
	return write_all(fd, torn, strlen(torn));
}

static int write_rows(int fd, const struct usage_table *table, const struct stats *stats)
{
	char piece[PIECE_BYTES];
	size_t used = 0;
	int error = 0;

	for (size_t i = 0; i < table->room && error == 0; i++) {
		const struct usage_row *row = &table->rows[i];
		if (!row->is_used)
			continue;
		/* whole lines in each write: another process may append, too */
		used += (size_t)snprintf(piece + used, LINE_BYTES,
			"%016" PRIx64 " %" PRIu64 " %" PRIu64 " %s\n", row->caller, row->admitted,
			row->refused, stats_row_name(stats, STATS_LIMIT, row->limit));
		if (used > sizeof(piece) - LINE_BYTES) {
			error = write_all(fd, piece, used);
			used = 0;
		}
	}
	return error != 0 || used == 0 ? error : write_all(fd, piece, used);
}

uint64_t usage_file_delay_ms(uint64_t now_ms, uint64_t interval_ms)
{
	const uint64_t hour_ms = USAGE_HOUR_S * UINT64_C(1000);
	uint64_t left_ms = hour_ms - now_ms % hour_ms;

	return left_ms < interval_ms ? left_ms : interval_ms;
}

int usage_file_append(const char *folder, uint64_t now_s, const struct usage_table *tables,
	unsigned count, const struct stats *stats)
{
	char path[PATH_BYTES], name[NAME_BYTES + 1];

	name_of(name, now_s);
	if (!path_of(path, folder, name))
		return ENAMETOOLONG;
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
	if (fd < 0)
		return errno;
	int error = end_line(fd);
	for (unsigned i = 0; i < count && error == 0; i++)
		error = write_rows(fd, &tables[i], stats);
	close(fd);
	return error;
}

/* ---- which files there are ------------------------------------------------------------------- */

static int is_hour(const struct dirent *entry)
{
	return strlen(entry->d_name) == NAME_BYTES &&
	       strspn(entry->d_name, "0123456789") == NAME_BYTES;
}

static void free_names(struct dirent **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

static uint64_t size_of(const char *folder, const char *name)
{
	char path[PATH_BYTES];
	struct stat found;

	return path_of(path, folder, name) && stat(path, &found) == 0 ? (uint64_t)found.st_size : 0;
}

uint64_t usage_file_bytes(const char *folder, uint64_t now_s)
{
	char name[NAME_BYTES + 1];

	name_of(name, now_s);
	return size_of(folder, name);
}

unsigned usage_file_trim(const char *folder, uint64_t most_bytes)
{
	struct dirent **names = NULL;
	int count = scandir(folder, &names, is_hour, alphasort);
	uint64_t bytes = 0;
	unsigned removed = 0;
	char path[PATH_BYTES];

	for (int i = 0; i < count; i++)
		bytes += size_of(folder, names[i]->d_name);
	for (int i = 0; i + 1 < count && bytes > most_bytes; i++) {
		uint64_t size = size_of(folder, names[i]->d_name);
		if (!path_of(path, folder, names[i]->d_name) || unlink(path) != 0)
			break;
		bytes -= size;
		removed++;
	}
	if (count >= 0)
		free_names(names, count);
	return removed;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Part of a file. */
struct piece {
	char bytes[PIECE_BYTES];
	size_t used;
	bool skips; /* up to the end of a line that has no room */
};

/* 16 lower-case hexadecimal digits and the blank behind them. */
static bool read_caller(const char **at, const char *end, uint64_t *caller)
{
	*caller = 0;
	if (end - *at < 17 || (*at)[16] != ' ')
		return false;
	for (unsigned i = 0; i < 16; i++) {
		char c = (*at)[i];
		bool is_letter = c >= 'a' && c <= 'f';
		if (!is_letter && (c < '0' || c > '9'))
			return false;
		*caller = *caller << 4 | (uint64_t)(is_letter ? c - 'a' + 10 : c - '0');
	}
	*at += 17;
	return true;
}

/* Decimal digits and the blank behind them. */
static bool read_count(const char **at, const char *end, uint64_t *count)
{
	const char *c = *at;

	*count = 0;
	for (; c < end && *c >= '0' && *c <= '9'; c++) {
		unsigned digit = (unsigned)(*c - '0');
		if (*count > ((uint64_t)INT64_MAX - digit) / 10)
			return false;
		*count = *count * 10 + digit;
	}
	if (c == *at || c == end || *c != ' ')
		return false;
	*at = c + 1;
	return true;
}

/* False: stopped. A line that is not a row is passed over. `end` is where its NUL can be. */
static bool take_line(const struct usage_reader *reader, const char *at, char *end)
{
	uint64_t caller, admitted, refused;

	if (!read_caller(&at, end, &caller) || !read_count(&at, end, &admitted) ||
		!read_count(&at, end, &refused))
		return true;
	*end = '\0';
	if (at == end || strlen(at) != (size_t)(end - at) || strpbrk(at, " \t"))
		return true;
	return reader->take(reader->ctx, at, caller, admitted, refused);
}

/* Takes the lines that have an end; the rest stays for the next piece. False: stopped. */
static bool take_lines(const struct usage_reader *reader, struct piece *piece)
{
	char *at = piece->bytes, *end = piece->bytes + piece->used, *line_end;

	while ((line_end = memchr(at, '\n', (size_t)(end - at)))) {
		if (!piece->skips && !take_line(reader, at, line_end))
			return false;
		piece->skips = false;
		at = line_end + 1;
	}
	piece->used = (size_t)(end - at);
	if (piece->used == sizeof(piece->bytes)) {
		piece->used = 0;
		piece->skips = true;
	}
	memmove(piece->bytes, at, piece->used);
	return true;
}

static int read_pieces(int fd, const struct usage_reader *reader)
{
	struct piece piece = {.used = 0};

	for (;;) {
		if (!reader->goes_on(reader->ctx))
			return ECANCELED;
		ssize_t got = read(fd, piece.bytes + piece.used, sizeof(piece.bytes) - piece.used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 ? 0 : errno;
		piece.used += (size_t)got;
		if (!take_lines(reader, &piece))
			return ECANCELED;
	}
}

static int read_file(const char *path, const struct usage_reader *reader)
{
	struct stat found;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : errno; /* trimmed meanwhile */
	if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
		error = read_pieces(fd, reader);
	close(fd);
	return error;
}

int usage_file_read(
	const char *folder, uint64_t from_s, uint64_t to_s, const struct usage_reader *reader)
{
	char from[NAME_BYTES + 1], to[NAME_BYTES + 1], path[PATH_BYTES];
	struct dirent **names = NULL;
	int count = scandir(folder, &names, is_hour, alphasort), error = count < 0 ? errno : 0;

	name_of(from, from_s);
	name_of(to, to_s);
	for (int i = 0; i < count && error == 0; i++) {
		const char *name = names[i]->d_name;
		if (strcmp(name, from) >= 0 && strcmp(name, to) < 0)
			error = path_of(path, folder, name) ? read_file(path, reader)
							    : ENAMETOOLONG;
	}
	if (count >= 0)
		free_names(names, count);
	return error;
}
