/*
 * Zoneinfo files and the periods of a calendar. See zone.h; the format is RFC 8536.
 *
 *   header v1 | data v1 (32 bits) | header v2 | times (64 bits), types, offsets, ... | \n rule \n
 *               skipped                         `-- up to the last of them             `-- after it
 */
#include "throttle/zone.h"
#include "throttle/zone_rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX     (1u << 20)
#define HEADER_BYTES 44

struct zone {
	char name[THROTTLE_ZONE_BYTES];
	size_t count; /* of changes in the table */
	int64_t *at;
	int32_t *offset; /* from at[i] on */
	int32_t first;   /* before at[0] */
	struct zone_rule rule;
};

static uint64_t read_number(const unsigned char *p, unsigned bytes)
{
	uint64_t number = 0;

	while (bytes-- > 0)
		number = number << 8 | *p++;
	return number;
}

/* The six counts of a header, in their order: isut, isstd, leap, time, type, char. */
struct counts {
	size_t isut, isstd, leap, time, type, abbreviation;
};

static bool read_header(const unsigned char *p, const unsigned char *end, struct counts *c)
{
	if ((size_t)(end - p) < HEADER_BYTES || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
		return false;
	c->isut = read_number(p + 20, 4);
	c->isstd = read_number(p + 24, 4);
	c->leap = read_number(p + 28, 4);
	c->time = read_number(p + 32, 4);
	c->type = read_number(p + 36, 4);
	c->abbreviation = read_number(p + 40, 4);
	return c->isut <= 256 && c->isstd <= 256 && c->leap <= 4096 && c->time <= 65536 &&
	       c->type >= 1 && c->type <= 256 && c->abbreviation <= 4096;
}

static size_t data_bytes(const struct counts *c, size_t time_bytes)
{
	return c->time * (time_bytes + 1) + c->type * 6 + c->abbreviation +
	       c->leap * (time_bytes + 4) + c->isstd + c->isut;
}

static bool parse_footer(struct zone *zone, const unsigned char *p, const unsigned char *end)
{
	char text[128];
	size_t n = 0;

	if (p >= end || *p++ != '\n')
		return false;
	while (p < end && *p != '\n' && n + 1 < sizeof(text))
		text[n++] = (char)*p++;
	text[n] = '\0';
	if (n == 0)
		return true; /* no rule: the last offset holds */
	return zone_rule_parse(&zone->rule, text);
}

static bool parse(struct zone *zone, const unsigned char *p, const unsigned char *end)
{
	const unsigned char *index, *types;
	struct counts c;

	if (!read_header(p, end, &c))
		return false;
	p += HEADER_BYTES;
	if ((size_t)(end - p) < data_bytes(&c, 4))
		return false;
	p += data_bytes(&c, 4);
	if (!read_header(p, end, &c))
		return false;
	p += HEADER_BYTES;
	if ((size_t)(end - p) < data_bytes(&c, 8))
		return false;
	zone->at = calloc(c.time + 1, sizeof(*zone->at));
	zone->offset = calloc(c.time + 1, sizeof(*zone->offset));
	if (zone->at == NULL || zone->offset == NULL)
		return false;
	index = p + c.time * 8;
	types = index + c.time;
	zone->count = c.time;
	zone->first = (int32_t)read_number(types, 4);
	for (size_t i = 0; i < c.time; i++) {
		zone->at[i] = (int64_t)read_number(p + i * 8, 8);
		if (index[i] >= c.type || (i > 0 && zone->at[i] <= zone->at[i - 1]))
			return false;
		zone->offset[i] = (int32_t)read_number(types + index[i] * 6, 4);
	}
	return parse_footer(zone, p + data_bytes(&c, 8), end);
}

/* A name of the database: no way out of its folder. */
static bool is_zone_name(const char *name)
{
	if (name[0] == '/' || name[0] == '\0' || strstr(name, "..") != NULL)
		return false;
	for (; *name != '\0'; name++)
		if (!isalnum((unsigned char)*name) && strchr("/_+-", *name) == NULL)
			return false;
	return true;
}

static int read_zone_file(const char *name, unsigned char **data, size_t *bytes)
{
	static const char *const folders[] = {
		"/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo"};
	char path[128];
	FILE *file = NULL;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && file == NULL; i++) {
		snprintf(path, sizeof(path), "%s/%s", folders[i], name);
		file = fopen(path, "rbe");
	}
	if (file == NULL)
		return ENOENT;
	*data = malloc(FILE_MAX);
	*bytes = *data != NULL ? fread(*data, 1, FILE_MAX, file) : 0;
	fclose(file);
	return *data != NULL ? 0 : ENOMEM;
}

struct zone *zone_load(const char *name)
{
	bool is_utc = name[0] == '\0' || strcmp(name, "UTC") == 0;
	struct zone *zone;
	unsigned char *data = NULL;
	size_t bytes;
	int error = 0;

	if (!is_utc && !is_zone_name(name)) {
		errno = EINVAL;
		return NULL;
	}
	zone = calloc(1, sizeof(*zone));
	if (zone == NULL)
		return NULL;
	snprintf(zone->name, sizeof(zone->name), "%s", is_utc ? "UTC" : name);
	if (!is_utc)
		error = read_zone_file(name, &data, &bytes);
	if (error == 0 && !is_utc && !parse(zone, data, data + bytes))
		error = EBADMSG;
	free(data);
	if (error == 0)
		return zone;
	zone_free(zone);
	errno = error;
	return NULL;
}

void zone_free(struct zone *zone)
{
	if (zone == NULL)
		return;
	free(zone->at);
	free(zone->offset);
	free(zone);
}

bool zone_is_same(const struct zone *a, const struct zone *b)
{
	return strcmp(a->name, b->name) == 0;
}

int32_t zone_offset(const struct zone *zone, int64_t time)
{
	size_t low = 0, high = zone->count;

	if (zone->rule.present && (high == 0 || time >= zone->at[high - 1]))
		return zone_rule_offset(&zone->rule, time);
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (zone->at[middle] <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? zone->first : zone->offset[low - 1];
}

/* The first instant whose local date is `day` or later. */
static int64_t begin_of_day(const struct zone *zone, int64_t day)
{
	int64_t low = day * 86400 - 2 * 86400, high = day * 86400 + 2 * 86400;

	/* Local time isn't monotone where clocks go back, but its date is, except when they go back
	 * over midnight; then the first of the two midnights begins the day: look for it among the
	 * offsets in use around. */
	for (int64_t t = day * 86400 - 15 * 3600; t <= day * 86400 + 15 * 3600; t += 3600) {
		int64_t candidate = day * 86400 - zone_offset(zone, t);

		if (candidate < high && candidate + zone_offset(zone, candidate) == day * 86400)
			high = candidate;
	}
	if (high < day * 86400 + 2 * 86400)
		return high;
	/* Midnight was skipped: the change itself, found by halving. */
	while (high - low > 1) {
		int64_t middle = floor_divide(low + high, 2);

		if (middle + zone_offset(zone, middle) >= day * 86400)
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* An hour of the local clock; a change of the clock ends one, too. */
static void hour_of(const struct zone *zone, int64_t time, int64_t *begin, int64_t *end)
{
	int32_t offset = zone_offset(zone, time);

	*begin = floor_divide(time + offset, 3600) * 3600 - offset;
	*end = *begin + 3600;
	if (zone_offset(zone, *begin) != offset || zone_offset(zone, *end - 1) != offset) {
		int64_t low = zone_offset(zone, *begin) != offset ? *begin : time;
		int64_t high = low == time ? *end - 1 : time;
		int32_t before = zone_offset(zone, low);

		while (high - low > 1) {
			int64_t middle = floor_divide(low + high, 2);

			if (zone_offset(zone, middle) == before)
				low = middle;
			else
				high = middle;
		}
		*(before != offset ? begin : end) = high;
	}
}

void zone_period(const struct zone *zone, enum throttle_period period, int64_t time, int64_t *begin,
	int64_t *end)
{
	int64_t day, year, next;
	int month, of_month;

	if (period == THROTTLE_HOUR) {
		hour_of(zone, time, begin, end);
		return;
	}
	/* Of the days that begin around, the last that has begun. */
	day = floor_divide(time + zone_offset(zone, time), 86400) + 1;
	while (begin_of_day(zone, day) > time)
		day--;
	next = day + 1;
	if (period == THROTTLE_WEEK) {
		day -= ((day + 3) % 7 + 7) % 7;
		next = day + 7;
	} else if (period == THROTTLE_MONTH) {
		date_of_days(day, &year, &month, &of_month);
		day = days_of_date(year, month, 1);
		next = month == 12 ? days_of_date(year + 1, 1, 1)
				   : days_of_date(year, month + 1, 1);
	}
	*begin = begin_of_day(zone, day);
	*end = begin_of_day(zone, next);
}

/* ---- of throttle.h --------------------------------------------------------------------------- */

struct throttle_zone {
	struct zone *zone;
};

struct throttle_zone *throttle_zone_open(const char *name)
{
	struct throttle_zone *made = malloc(sizeof(*made));

	if (made == NULL)
		return NULL;
	made->zone = zone_load(name);
	if (made->zone == NULL) {
		free(made);
		made = NULL;
	}
	return made;
}

void throttle_zone_close(struct throttle_zone *zone)
{
	if (zone == NULL)
		return;
	zone_free(zone->zone);
	free(zone);
}

void throttle_zone_period(const struct throttle_zone *zone, enum throttle_period period,
	int64_t time_s, int64_t *begin_s, int64_t *end_s)
{
	zone_period(zone->zone, period, time_s, begin_s, end_s);
}
