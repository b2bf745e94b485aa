/* Rates and what else a limit is made of. See value.h. */
#include "conf/foreign.h"
#include "conf/same.h"
#include "conf/value.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_MS = 1000000, ZONE_BYTES = 1 << 20, BAN_MOST = 4095 };
#define LONGEST_WINDOW_MS (366ULL * 86400 * 1000)
#define LARGEST_COUNT     1000000000ULL /* requests */
#define LARGEST_BYTES     (1ULL << 50)
#define ZONEINFO          "/usr/share/zoneinfo"

/* `10s`, as nanoseconds, above 0. */
static bool scan_window(struct slice text, uint64_t *ns)
{
	uint64_t ms;

	if (!scan_duration_ms(text, &ms) || ms == 0 || ms > LONGEST_WINDOW_MS)
		return false;
	*ns = ms * NS_PER_MS;
	return true;
}

/* `AMOUNT per REST`: what stands on both sides of the word. */
static bool split_per(struct slice text, struct slice *amount, struct slice *rest)
{
	struct slice per;

	*rest = text;
	return scan_next_token(rest, amount) && scan_next_token(rest, &per) &&
	       slice_equal(per, SLICE("per"));
}

bool scan_per(struct slice text, uint64_t *amount, uint64_t *per_ns)
{
	struct slice number, window;

	return split_per(text, &number, &window) && scan_count(number, amount) && *amount > 0 &&
	       scan_window(slice_trim(window), per_ns);
}

/* ---- rate ---- */

/* 100, 10k; 10MB (1000 each step), 10MiB (1024): the B makes it bytes. */
static bool scan_amount(struct slice text, enum conf_limit_unit *unit, uint64_t *amount)
{
	static const struct {
		struct slice suffix;
		uint64_t scale;
	} bytes[] = {{SLICE("kB"), 1000}, {SLICE("MB"), 1000000}, {SLICE("GB"), 1000000000},
		{SLICE("KiB"), 1 << 10}, {SLICE("MiB"), 1 << 20}, {SLICE("GiB"), 1 << 30},
		{SLICE("B"), 1}};
	struct slice rest = text;

	*unit = CONF_UNIT_REQUESTS;
	if (scan_count(text, amount))
		return true;
	if (!scan_number_before(&rest, amount))
		return false;
	*unit = CONF_UNIT_BYTES;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		if (slice_equal(rest, bytes[i].suffix))
			return !__builtin_mul_overflow(*amount, bytes[i].scale, amount);
	return false;
}

/* Zones that can be read: TZif files (RFC 8536), by names that lead nowhere else. */
static bool zone_exists(struct value *value, struct slice zone)
{
	const char *path, *why;
	size_t len = 0;
	char *bytes;
	bool good;

	if (slice_equal(zone, SLICE("UTC")))
		return true;
	for (size_t i = 0; i < zone.len; i++) {
		char c = zone.at[i];
		bool after_slash = i == 0 || zone.at[i - 1] == '/';

		if ((after_slash && (c == '.' || c == '/')) || c == '\0')
			return false;
	}
	path = arena_format(value->build->arena, ZONEINFO "/%.*s", SLICE_ARGS(zone));
	bytes = reader_file(path, ZONE_BYTES, true, &len, &why);
	good = bytes && len > 4 && memcmp(bytes, "TZif", 4) == 0;
	free(bytes);
	return good;
}

/* ---- what people write for a rate elsewhere ---- */

static bool is_digits(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
	return text.len > 0;
}

static bool fail_unit(struct value *value, struct slice number)
{
	return value_fail_plainly(value,
		"\"%.*s\" has no unit; expected ms, s, m, h or d right behind it, as in %.*ss",
		SLICE_ARGS(number), SLICE_ARGS(number));
}

static bool fail_period(struct value *value, struct slice period)
{
	static const char *const words[][2] = {{"second", "1s"}, {"sec", "1s"}, {"minute", "1m"},
		{"min", "1m"}, {"hours", "hour"}, {"days", "day"}, {"weeks", "week"},
		{"months", "month"}, {"year", "366d"}};
	const char *expected = "expected a length such as 10s, 5m or 1h30m, or of the calendar a "
			       "bare hour, day, week or month";

	if (is_digits(period))
		return fail_unit(value, period);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (slice_equal_nocase(period, slice_of(words[i][0])))
			return value_fail_plainly(value,
				"invalid period \"%.*s\", did you mean %s? Expected %s",
				SLICE_ARGS(period), words[i][1], expected + strlen("expected "));
	return value_fail_plainly(
		value, "invalid period \"%.*s\" (1ms to 366d); %s", SLICE_ARGS(period), expected);
}

static bool fail_amount(struct value *value, struct slice amount)
{
	static const char *const units[] = {"kB", "MB", "GB", "KiB", "MiB", "GiB"};
	struct slice unit = amount;
	uint64_t number;

	if (memchr(amount.at, '.', amount.len) || memchr(amount.at, ',', amount.len))
		return value_fail_plainly(value,
			"invalid amount \"%.*s\"; expected a whole number without separators, as "
			"in 1500 or 1500kB",
			SLICE_ARGS(amount));
	if (scan_number_before(&unit, &number))
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (slice_equal_nocase(unit, slice_of(units[i])))
				return value_fail_plainly(value,
					"invalid amount \"%.*s\", did you mean %.*s%s?",
					SLICE_ARGS(amount), (int)(amount.len - unit.len), amount.at,
					units[i]);
	return value_fail_plainly(value,
		"invalid amount \"%.*s\"; expected requests such as 100 or 10k, or bytes of bodies "
		"such as 500kB, 10MB or 1GiB",
		SLICE_ARGS(amount));
}

/* 10 MB per 1s, or 10 req per 1s. False when it is none. */
static bool is_amount_of_two_words(struct value *value)
{
	struct slice rest = value->text, number, unit, word;
	enum conf_limit_unit counted;
	uint64_t amount;
	const char *joined;

	if (!scan_next_token(&rest, &number) || !scan_next_token(&rest, &unit) ||
		!scan_next_token(&rest, &word) || !slice_equal(word, SLICE("per")))
		return false;
	joined =
		arena_format(value->build->arena, "%.*s%.*s", SLICE_ARGS(number), SLICE_ARGS(unit));
	rest = slice_trim(rest);
	if (scan_amount(slice_of(joined), &counted, &amount))
		value_fail_plainly(value, "\"%.*s %.*s\" has a blank in it; expected %s",
			SLICE_ARGS(number), SLICE_ARGS(unit), joined);
	else
		value_fail_plainly(value,
			"unexpected \"%.*s\"; expected bytes such as 10MB, or requests, which have "
			"no "
			"unit, as in %.*s per %.*s",
			SLICE_ARGS(unit), SLICE_ARGS(number), SLICE_ARGS(rest));
	return true;
}

/* False with an error when it is a rate as other programs write it; else true. */
static bool fail_foreign_rate(struct value *value)
{
	const char *meant = foreign_rate(value->build->arena, value->text);

	return !meant || value_fail_plainly(value, "invalid rate \"%.*s\", did you mean %s?",
				 SLICE_ARGS(value->text), meant);
}

static bool parse_rate(struct value *value)
{
	static const struct option_word calendars[] = {{"hour", CONF_CALENDAR_HOUR},
		{"day", CONF_CALENDAR_DAY}, {"week", CONF_CALENDAR_WEEK},
		{"month", CONF_CALENDAR_MONTH}, {NULL, 0}};
	struct conf_limit *limit = value->instance->object;
	struct slice amount, rest, period, zone;
	unsigned calendar;

	if (!split_per(value->text, &amount, &rest) || !scan_next_token(&rest, &period)) {
		if (is_amount_of_two_words(value))
			return false;
		return fail_foreign_rate(value) &&
		       value_fail(value, "invalid rate \"%.*s\"", SLICE_ARGS(value->text));
	}
	if (!scan_amount(amount, &limit->unit, &limit->amount))
		return fail_foreign_rate(value) && fail_amount(value, amount);
	if (limit->amount < 1 ||
		limit->amount > (limit->unit == CONF_UNIT_BYTES ? LARGEST_BYTES : LARGEST_COUNT))
		return value_fail_plainly(value,
			"%.*s is out of bounds; expected 1 to 1G requests, or 1B to 1125899GB",
			SLICE_ARGS(amount));
	if (scan_word(calendars, period, &calendar)) {
		limit->calendar = calendar;
		if (!scan_next_token(&rest, &zone))
			zone = SLICE("UTC");
		if (!zone_exists(value, zone))
			return value_fail_plainly(value,
				"there is no time zone \"%.*s\"; expected UTC or a name "
				"under " ZONEINFO " such as Europe/Oslo",
				SLICE_ARGS(zone));
		limit->time_zone = value_text(value, zone);
	} else if (!scan_window(period, &limit->per_ns)) {
		return fail_period(value, period);
	}
	rest = slice_trim(rest);
	if (rest.len > 0)
		return value_fail(value, "unexpected \"%.*s\"%s", SLICE_ARGS(rest),
			limit->per_ns ? " (a time zone needs a bare hour, day, week or month)"
				      : "");
	return true;
}

static bool parse_concurrency(struct value *value)
{
	struct conf_limit *limit = value->instance->object;
	uint64_t number;

	if (!scan_count(value->text, &number))
		return value_fail(value, "invalid number \"%.*s\"", SLICE_ARGS(value->text));
	if (!value_in_bounds(value, number))
		return false;
	limit->amount = number;
	return true;
}

/* ---- the rest ---- */

static bool parse_precision(struct value *value)
{
	uint64_t slots;

	if (slice_equal(value->text, SLICE("auto")))
		slots = 0;
	else if (slice_equal(value->text, SLICE("exact")))
		slots = CONF_PRECISION_EXACT;
	else if (!scan_count(value->text, &slots))
		return value_fail(value, "invalid precision \"%.*s\"", SLICE_ARGS(value->text));
	else if (!value_in_bounds(value, slots))
		return false;
	*(uint32_t *)value->at = (uint32_t)slots;
	return true;
}

/* 10 per 1m for 5m */
static bool parse_ban(struct value *value)
{
	struct conf_ban *ban = value->at;
	struct slice text = value->text, rest = value->text, token;

	*ban = (struct conf_ban){0};
	if (slice_equal(text, SLICE("off")))
		return true;
	while (scan_next_token(&rest, &token))
		if (slice_equal(token, SLICE("for")))
			break;
	if (token.len == 0)
		return value_fail(value, "invalid ban \"%.*s\"", SLICE_ARGS(text));
	text.len = (size_t)(token.at - text.at);
	if (!scan_per(text, &ban->count, &ban->per_ns))
		return value_fail(
			value, "invalid count per duration \"%.*s\"", SLICE_ARGS(slice_trim(text)));
	if (ban->count > BAN_MOST)
		return value_fail_plainly(value,
			"%llu refusals are too many to count; expected 1 to %d",
			(unsigned long long)ban->count, BAN_MOST);
	if (is_digits(slice_trim(rest)))
		return fail_unit(value, slice_trim(rest));
	return scan_window(slice_trim(rest), &ban->for_ns) ||
	       value_fail(value, "invalid duration \"%.*s\"", SLICE_ARGS(slice_trim(rest)));
}

/* reject, or delay 2s */
static bool parse_on_exceed(struct value *value)
{
	struct slice rest = value->text, word;
	uint64_t *delay_ms = value->at;

	*delay_ms = 0;
	scan_next_token(&rest, &word);
	rest = slice_trim(rest);
	if (slice_equal(word, SLICE("reject")) && rest.len == 0)
		return true;
	if (slice_equal(word, SLICE("delay")) && is_digits(rest) && !slice_equal(rest, SLICE("0")))
		return fail_unit(value, rest);
	if (!slice_equal(word, SLICE("delay")) || !scan_duration_ms(rest, delay_ms) ||
		*delay_ms == 0)
		return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	return value_in_bounds(value, *delay_ms);
}

/* 50 per 1s, or off */
static bool parse_pace(struct value *value)
{
	struct conf_pace *pace = value->at;

	*pace = (struct conf_pace){0};
	if (slice_equal(value->text, SLICE("off")))
		return true;
	if (!scan_per(value->text, &pace->amount, &pace->per_ns) || pace->amount > LARGEST_COUNT)
		return fail_foreign_rate(value) &&
		       value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
	return true;
}

static bool parse_in_flight(struct value *value)
{
	uint64_t number = CONF_IN_FLIGHT_AUTO;

	if (!slice_equal(value->text, SLICE("auto"))) {
		if (!scan_count(value->text, &number))
			return value_fail(value, "invalid value \"%.*s\"", SLICE_ARGS(value->text));
		if (!value_in_bounds(value, number))
			return false;
	}
	*(uint32_t *)value->at = (uint32_t)number;
	return true;
}

const struct option_type type_rate = {"rate",
	"AMOUNT per PERIOD such as 100 per 10s, 10MB per 1s or 10000 per day Europe/Oslo",
	parse_rate, same_rate, false};
const struct option_type type_concurrency = {
	"number", "a number such as 10", parse_concurrency, same_concurrency, false};
const struct option_type type_precision = {
	"number", "auto, exact or a number of slots", parse_precision, NULL, false};
const struct option_type type_ban = {"ban",
	"COUNT per DURATION for DURATION such as 10 per 1m for 5m, or off", parse_ban, NULL, false};
const struct option_type type_on_exceed = {
	"action", "reject or delay DURATION such as delay 2s", parse_on_exceed, NULL, false};
const struct option_type type_pace = {
	"pace", "COUNT per DURATION such as 50 per 1s, or off", parse_pace, NULL, false};
const struct option_type type_in_flight = {
	"number", "a number or auto", parse_in_flight, NULL, false};
