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
#include "throttle/zone_rule.h"

#include <ctype.h>
#include <stddef.h>

/* Years that begin in March make the leap day the last of its year: the day of the year follows
 * from the month without a table. */
int64_t days_of_date(int64_t year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1, era = floor_divide(y, 400), of_era = y - era * 400;
	int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void date_of_days(int64_t days, int64_t *year, int *month, int *day)
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

bool zone_rule_parse(struct zone_rule *rule, const char *text)
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

int32_t zone_rule_offset(const struct zone_rule *rule, int64_t time)
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
