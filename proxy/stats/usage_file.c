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
 * row: names have no blank. */
static int end_line(int fd)
{
	char last;
	off_t size = lseek(fd, 0, SEEK_END);

	if (size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n')
		return 0;
	return write_all(fd, " torn\n", 6);
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

struct reading {
	bool (*take)(
		void *ctx, const char *limit, uint64_t caller, uint64_t admitted, uint64_t refused);
	void *ctx;
};

/* False: stopped. A line that is none is passed over. */
static bool take_line(const struct reading *reading, char *line)
{
	uint64_t caller, admitted, refused;
	int name_at = 0;
	size_t len = strlen(line);

	if (len == 0 || line[len - 1] != '\n')
		return true;
	line[len - 1] = '\0';
	if (sscanf(line, "%16" SCNx64 " %" SCNu64 " %" SCNu64 " %n", &caller, &admitted, &refused,
		    &name_at) != 3 ||
		name_at == 0 || line[16] != ' ' || !line[name_at] || strchr(line + name_at, ' '))
		return true;
	return reading->take(reading->ctx, line + name_at, caller, admitted, refused);
}

static int read_file(const char *path, const struct reading *reading)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int error = 0;

	if (!file)
		return errno == ENOENT ? 0 : errno; /* trimmed meanwhile */
	while (error == 0 && getline(&line, &room, file) > 0) {
		if (!take_line(reading, line))
			error = ECANCELED;
	}
	if (error == 0 && ferror(file))
		error = EIO;
	free(line);
	fclose(file);
	return error;
}

int usage_file_read(const char *folder, uint64_t from_s, uint64_t to_s,
	bool (*take)(
		void *ctx, const char *limit, uint64_t caller, uint64_t admitted, uint64_t refused),
	void *ctx)
{
	const struct reading reading = {take, ctx};
	char from[NAME_BYTES + 1], to[NAME_BYTES + 1], path[PATH_BYTES];
	struct dirent **names = NULL;
	int count = scandir(folder, &names, is_hour, alphasort), error = count < 0 ? errno : 0;

	name_of(from, from_s);
	name_of(to, to_s);
	for (int i = 0; i < count && error == 0; i++) {
		const char *name = names[i]->d_name;
		if (strcmp(name, from) >= 0 && strcmp(name, to) < 0)
			error = path_of(path, folder, name) ? read_file(path, &reading)
							    : ENAMETOOLONG;
	}
	if (count >= 0)
		free_names(names, count);
	return error;
}
