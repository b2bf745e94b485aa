/*
 * The file of a roster: text, a line each.
 *
 *   sluice roster 1
 *   key KEY PLAN                     KEY percent-encoded
 *   revoked KEY
 *   override HASH UNTIL exempt       HASH as in the access log, UNTIL in seconds since 1970
 *   override HASH UNTIL deny
 *   override HASH UNTIL plan PLAN
 *   end
 *
 * It is written whole beside the old one and renamed, so that either is there whole after a crash.
 * A file of another version stays as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "gate/roster.h"

#define VERSION    1
#define FIRST_LINE "sluice roster 1\n"
#define LAST_LINE  "end\n"
#define PATH_BYTES 4200

static void path_of(const struct roster *roster, const char *name, char path[static PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/%s", roster->folder, name);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Percent-encoded but for letters, digits and -._~ */
static void put_text(FILE *out, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
			     c == '-' || c == '.' || c == '_' || c == '~';
		fprintf(out, plain ? "%c" : "%%%02X", c);
	}
}

static void put_key(
	const struct roster *roster, FILE *out, const struct roster_entry *entry, uint64_t value)
{
	if (value == ROSTER_PLAN_NONE)
		return;
	fputs(value == ROSTER_PLAN_REVOKED ? "revoked " : "key ", out);
	put_text(out, entry->key);
	if (value != ROSTER_PLAN_REVOKED)
		fprintf(out, " %s", roster_plan_name(roster, (uint32_t)value));
	fputc('\n', out);
}

static void put_override(const struct roster *roster, FILE *out, const struct roster_entry *entry,
	uint64_t value, uint64_t now_s)
{
	struct roster_override override = roster_unpack(value);

	if (override.kind == ROSTER_NO_OVERRIDE || override.until_s <= now_s)
		return;
	fprintf(out, "override %016" PRIx64 " %" PRIu64, entry->caller, override.until_s);
	if (override.kind == ROSTER_PLAN)
		fprintf(out, " plan %s\n", roster_plan_name(roster, override.plan));
	else
		fputs(override.kind == ROSTER_EXEMPT ? " exempt\n" : " deny\n", out);
}

/* What is to be written. */
struct change {
	const struct roster_side *side;
	const struct roster_entry *entry;
	uint64_t value;
	uint64_t now_s;
};

static void put_entry(const struct roster *roster, const struct roster_side *side, FILE *out,
	const struct roster_entry *entry, uint64_t value, uint64_t now_s)
{
	if (side == &roster->keys)
		put_key(roster, out, entry, value);
	else
		put_override(roster, out, entry, value, now_s);
}

static void put_side(const struct roster *roster, const struct roster_side *side, FILE *out,
	const struct change *change)
{
	bool is_new = side == change->side;

	for (const struct roster_entry *entry = side->entries; entry; entry = entry->next) {
		bool is_changed = entry == change->entry;
		is_new &= !is_changed;
		put_entry(roster, side, out, entry, is_changed ? change->value : entry->value,
			change->now_s);
	}
	if (is_new)
		put_entry(roster, side, out, change->entry, change->value, change->now_s);
}

/* The file is in place: every later start reads it, except after a failure of the machine. */
static void sync_folder(const struct roster *roster)
{
	int fd = open(roster->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) != 0)
		log_error("keys and overrides: a change is in force, but would be lost if the "
			  "machine failed now: cannot sync %s: %s",
			roster->folder, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static int write_file(const struct roster *roster, const char *path, const struct change *change)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	int error = 0;

	if (!out) {
		error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	fputs(FIRST_LINE, out);
	put_side(roster, &roster->keys, out, change);
	put_side(roster, &roster->overrides, out, change);
	fputs(LAST_LINE, out);
	errno = 0;
	if (fflush(out) != 0 || ferror(out) || fsync(fd) != 0)
		error = errno ? errno : EIO;
	if (fclose(out) != 0 && error == 0)
		error = errno;
	return error;
}

int roster_write(struct roster *roster, const struct roster_side *side,
	const struct roster_entry *entry, uint64_t value, uint64_t now_s)
{
	const struct change change = {side, entry, value, now_s};
	char path[PATH_BYTES], fresh[PATH_BYTES];
	int error;

	if (!roster->folder || roster->is_reading)
		return 0;
	path_of(roster, "roster", path);
	path_of(roster, "roster.new", fresh);
	error = write_file(roster, fresh, &change);
	if (error == 0 && rename(fresh, path) != 0)
		error = errno;
	if (error != 0) {
		unlink(fresh);
		return error;
	}
	sync_folder(roster);
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place. False when it is not what put_text writes. */
static bool take_text(char *text, struct slice *taken)
{
	size_t len = 0;

	for (const char *at = text; *at; at++) {
		if (*at == '%') {
			int high = digit_of(at[1]), low = high < 0 ? -1 : digit_of(at[2]);
			if (low < 0)
				return false;
			text[len++] = (char)(high << 4 | low);
			at += 2;
		} else {
			text[len++] = *at;
		}
	}
	*taken = (struct slice){text, len};
	return len > 0;
}

static bool read_key(struct roster *roster, char *words[5], size_t count)
{
	bool is_revoked = strcmp(words[0], "revoked") == 0;
	struct slice key;
	uint32_t plan;

	if (count != (is_revoked ? 2 : 3) || !take_text(words[1], &key))
		return false;
	plan = is_revoked ? ROSTER_PLAN_REVOKED : roster_plan_number(roster, words[2]);
	return plan != ROSTER_PLAN_NONE && roster_put_key(roster, key, plan, 0) == 0;
}

static bool read_override(struct roster *roster, char *words[5], size_t count, uint64_t now_s)
{
	struct roster_override override = {.kind = ROSTER_NO_OVERRIDE};
	uint64_t caller;
	char *end;

	if (count < 4 || strlen(words[1]) != 16)
		return false;
	caller = strtoull(words[1], &end, 16);
	if (*end)
		return false;
	override.until_s = strtoull(words[2], &end, 10);
	if (*end || override.until_s >> 44)
		return false;
	if (count == 4 && strcmp(words[3], "exempt") == 0) {
		override.kind = ROSTER_EXEMPT;
	} else if (count == 4 && strcmp(words[3], "deny") == 0) {
		override.kind = ROSTER_DENY;
	} else if (count == 5 && strcmp(words[3], "plan") == 0) {
		override.kind = ROSTER_PLAN;
		override.plan = roster_plan_number(roster, words[4]);
		if (override.plan == ROSTER_PLAN_NONE)
			return false;
	}
	if (override.kind == ROSTER_NO_OVERRIDE)
		return false;
	return override.until_s <= now_s ||
	       roster_put_override(roster, caller, &override, now_s) == 0;
}

static bool read_line(struct roster *roster, char *line, uint64_t now_s)
{
	char *words[5], *rest = NULL;
	size_t count = 0;

	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count == 5)
			return false;
		words[count++] = word;
	}
	if (count == 0)
		return false;
	if (strcmp(words[0], "override") == 0)
		return read_override(roster, words, count, now_s);
	return (strcmp(words[0], "key") == 0 || strcmp(words[0], "revoked") == 0) &&
	       read_key(roster, words, count);
}

/* The number of the line that is wrong; 0: none. */
static unsigned read_lines(struct roster *roster, FILE *file, uint64_t now_s)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	unsigned number = 0;
	bool good = true, is_over = false;

	while (good && !is_over && (len = getline(&line, &room, file)) > 0) {
		number++;
		is_over = number > 1 && strcmp(line, LAST_LINE) == 0;
		if (is_over)
			break;
		if (number == 1) {
			good = strcmp(line, FIRST_LINE) == 0;
			continue;
		}
		good = line[len - 1] == '\n' && strlen(line) == (size_t)len;
		line[len - 1] = '\0';
		good = good && read_line(roster, line, now_s);
	}
	free(line);
	return good && is_over ? 0 : number + 1 - (unsigned)!good;
}

/* VERSION also where the first line has none. */
static unsigned long read_version(FILE *file)
{
	unsigned long version;
	char end;
	bool has_version = fscanf(file, "sluice roster %lu%c", &version, &end) == 2 && end == '\n';

	rewind(file);
	return has_version ? version : VERSION;
}

bool roster_read(struct roster *roster, uint64_t now_s, char *why, size_t why_bytes)
{
	char path[PATH_BYTES], aside[PATH_BYTES];
	FILE *file;
	unsigned wrong;

	path_of(roster, "roster", path);
	file = fopen(path, "re");
	if (!file) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		if (errno != ENOENT)
			return false;
		*why = '\0';
		return true;
	}
	unsigned long version = read_version(file);
	if (version != VERSION) {
		snprintf(why, why_bytes,
			"%s: it has version %lu, expected %d; none of its entries is in force",
			path, version, VERSION);
		fclose(file);
		return false;
	}
	roster->is_reading = true;
	wrong = read_lines(roster, file, now_s);
	roster->is_reading = false;
	fclose(file);
	if (wrong == 0)
		return true;
	path_of(roster, "roster.set-aside", aside);
	snprintf(why, why_bytes, "%s:%u: not a line of a roster; %s", path, wrong,
		rename(path, aside) == 0
			? "file set aside; the entries before this line are in force"
			: strerror(errno));
	return true;
}
