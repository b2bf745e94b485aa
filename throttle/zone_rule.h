/* The rule in the footer of a zoneinfo file: a POSIX TZ string, "CET-1CEST,M3.5.0,M10.5.0/3". */
#ifndef THROTTLE_ZONE_RULE_H
#define THROTTLE_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

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

/* False when the text is not such a rule. */
bool zone_rule_parse(struct zone_rule *rule, const char *text);
int32_t zone_rule_offset(const struct zone_rule *rule, int64_t time);

/* Days since 1970 of a date of the Gregorian calendar, and back. Months 1 to 12. */
int64_t days_of_date(int64_t year, int month, int day);
void date_of_days(int64_t days, int64_t *year, int *month, int *day);

static inline int64_t floor_divide(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

#endif
