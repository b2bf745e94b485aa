/*
 * Zoneinfo files and the periods of a calendar. See zone.h; the format is RFC 8536.
 *
 *   header v1 | data v1 (32 bits) | header v2 | times (64 bits), types, offsets, ... | \n rule \n
 *               skipped                         `-- up to the last of them             `-- after it
 */
#include "throttle/zone.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- zone rule ------------------------------------------------------------------------------ */

/* The rule in the footer of a zoneinfo file: a POSIX TZ string, "CET-1CEST,M3.5.0,M10.5.0/3". */

/*
 * The footer rule of a zoneinfo file, and the calendar it needs.
 *
 *   CET-1CEST,M3.5.0,M10.5.0/3
 *   |  |  |     |       |    `-- at this local time, 02:00 if left out
 *   |  |  |     |       `------- back to standard time: the 5th (last) Sunday of October
 *   |  |  |     `--------------- to summer time: the last Sunday of March
 *   |  |  `--------------------- summer time's name; its offset is an hour more if left out
 *   |  `------------------------ hours WEST of UTC
 *   `--------------------------- a name, <+03> when it has other characters than letters
 */

/* When in a year the clock changes: POSIX 8.3 (TZ), RFC 8536 section 3.3.1. */
struct zone_change {
	enum { CHANGE_JULIAN, CHANGE_DAY, CHANGE_WEEKDAY } form;
	int month, week, day; /* Mm.w.d; Jn and n use only day */
	int32_t seconds;      /* after local midnight; may be negative or beyond a day */
};

struct zone_rule {
	bool present, has_summer;
	int32_t standard, summer; /* seconds east of UTC */
	struct zone_change to_summer, to_standard;
};

static inline int64_t floor_divide(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Days since 1970 of a date of the Gregorian calendar, and back. Months 1 to 12. */
/* Years that begin in March make the leap day the last of its year: the day of the year follows
 * from the month without a table. */
static int64_t days_of_date(int64_t year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1, era = floor_divide(y, 400), of_era = y - era * 400;
	int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of_days(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t shifted = days + 719468, era = floor_divide(shifted, 146097);
	int64_t of_era = shifted - era * 146097;
	int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

	*day = (int)(of_year - (153 * m + 2) / 5 + 1);
	*month = (int)(m < 10 ? m + 3 : m - 9);
	*year = y + era * 400 + (*month <= 2);
}

static bool is_leap(int64_t year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool parse_number(const char **p, int most, int *number)
{
	*number = 0;
	if (!isdigit((unsigned char)**p))
		return false;
	for (; isdigit((unsigned char)**p); (*p)++)
		if ((*number = *number * 10 + (**p - '0')) > most)
			return false;
	return true;
}

/* [+-]hh[:mm[:ss]], up to a week as RFC 8536 allows */
static bool parse_time(const char **p, int32_t *seconds)
{
	int sign = 1, hours, minutes = 0, rest = 0;

	if (**p == '+' || **p == '-')
		sign = *(*p)++ == '-' ? -1 : 1;
	if (!parse_number(p, 167, &hours))
		return false;
	if (**p == ':' && ((*p)++, !parse_number(p, 59, &minutes)))
		return false;
	if (**p == ':' && ((*p)++, !parse_number(p, 59, &rest)))
		return false;
	*seconds = sign * (hours * 3600 + minutes * 60 + rest);
	return true;
}

static bool skip_name(const char **p)
{
	const char *begin = *p;

	if (**p == '<') {
		while (**p != '\0' && **p != '>')
			(*p)++;
		return *(*p)++ == '>';
	}
	while (isalpha((unsigned char)**p))
		(*p)++;
	return *p - begin >= 3;
}

static bool parse_change(const char **p, struct zone_change *change)
{
	if (*(*p)++ != ',')
		return false;
	change->seconds = 7200;
	if (**p == 'M') {
		change->form = CHANGE_WEEKDAY;
		(*p)++;
		if (!parse_number(p, 12, &change->month) || change->month < 1 || *(*p)++ != '.' ||
			!parse_number(p, 5, &change->week) || change->week < 1 || *(*p)++ != '.' ||
			!parse_number(p, 6, &change->day))
			return false;
	} else {
		change->form = **p == 'J' ? CHANGE_JULIAN : CHANGE_DAY;
		*p += **p == 'J';
		if (!parse_number(p, 365, &change->day))
			return false;
	}
	if (**p != '/')
		return true;
	(*p)++;
	return parse_time(p, &change->seconds);
}

/* False when the text is not such a rule. */
static bool zone_rule_parse(struct zone_rule *rule, const char *text)
{
	const char *p = text;
	int32_t west;

	*rule = (struct zone_rule){0};
	if (!skip_name(&p) || !parse_time(&p, &west))
		return false;
	rule->present = true;
	rule->standard = -west;
	if (*p == '\0')
		return true;
	rule->has_summer = true;
	rule->summer = rule->standard + 3600;
	if (!skip_name(&p))
		return false;
	if (*p != ',') {
		if (!parse_time(&p, &west))
			return false;
		rule->summer = -west;
	}
	return parse_change(&p, &rule->to_summer) && parse_change(&p, &rule->to_standard) &&
	       *p == '\0';
}

/* In seconds since 1970 of a local clock that never changes. */
static int64_t change_in(const struct zone_change *change, int64_t year)
{
	int64_t first = days_of_date(year, 1, 1), day;

	switch (change->form) {
	case CHANGE_JULIAN: /* 1 to 365, February 29 isn't counted */
		day = first + change->day - 1 + (is_leap(year) && change->day >= 60);
		break;
	case CHANGE_DAY: /* 0 to 365 */
		day = first + change->day;
		break;
	case CHANGE_WEEKDAY:
	default: {
		int64_t begin = days_of_date(year, change->month, 1);
		int64_t end = change->month == 12 ? days_of_date(year + 1, 1, 1)
						  : days_of_date(year, change->month + 1, 1);
		int64_t weekday = (begin + 4) % 7; /* 1970 began on a Thursday */

		weekday += weekday < 0 ? 7 : 0;
		day = begin + (change->day - weekday + 7) % 7 + (change->week - 1) * 7;
		day -= day >= end ? 7 : 0;
	}
	}
	return day * 86400 + change->seconds;
}

static int32_t zone_rule_offset(const struct zone_rule *rule, int64_t time)
{
	int64_t year, summer, standard;
	int month, day;
	bool is_summer;

	if (!rule->has_summer)
		return rule->standard;
	date_of_days(floor_divide(time + rule->standard, 86400), &year, &month, &day);
	summer = change_in(&rule->to_summer, year) - rule->standard;
	standard = change_in(&rule->to_standard, year) - rule->summer;
	is_summer = summer < standard ? time >= summer && time < standard
				      : time >= summer || time < standard;
	return is_summer ? rule->summer : rule->standard;
}

/* ---- zone ----------------------------------------------------------------------------------- */

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
