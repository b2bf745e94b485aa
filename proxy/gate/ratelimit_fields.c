#include "gate/ratelimit_fields.h"

#include <stdlib.h>
#include <string.h>

#include "http/text_head.h"
#include "http/structured.h"

/* A limit's name is at most THROTTLE_NAME_BYTES - 1, twice that when all of it is escaped. */
#define NAME_BYTES   (2 * THROTTLE_NAME_BYTES + 2)
#define POLICY_BYTES (NAME_BYTES + 96)

struct limit_texts {
	char name[NAME_BYTES + 4]; /* as a structured field string, with its quotes, and `;r=` */
	char draft_11[POLICY_BYTES], draft_7[64];
	/* both fields of draft-11 up to the number left, for a limit that is the only one, in the
	 * form of HTTP/1 */
	char alone[POLICY_BYTES + NAME_BYTES + 48];
	uint16_t alone_len;
	uint16_t name_len, draft_11_len, draft_7_len; /* 0: not told in that dialect */
	uint64_t window_s;                            /* 0: the limit has none */
};

struct ratelimit_texts {
	struct limit_texts *limits; /* by index in conf.limits */
};

__extension__ typedef unsigned __int128 wide;

/* RFC 8941 section 3.3.1: an Integer has at most fifteen digits. */
#define SF_INTEGER_MAX UINT64_C(999999999999999)

/* ---- texts ---------------------------------------------------------------------------------- */

/* What can be had at once: remaining is counted from it. */
static uint64_t quota_of(const struct conf_limit *limit)
{
	return limit->algorithm == CONF_LIMIT_GCRA && limit->burst > 0 ? limit->burst
								       : limit->amount;
}

static uint64_t window_s(const struct conf_limit *limit)
{
	static const uint64_t calendar_s[] = {
		[CONF_CALENDAR_HOUR] = 3600,
		[CONF_CALENDAR_DAY] = 86400,
		[CONF_CALENDAR_WEEK] = 604800,
		[CONF_CALENDAR_MONTH] = 2678400, /* the longest */
	};

	if (limit->algorithm == CONF_LIMIT_CALENDAR)
		return calendar_s[limit->calendar];
	/* With gcra, how long it takes until all of the burst can be had again. */
	wide ns = (wide)limit->per_ns * quota_of(limit), second = (wide)1000000000 * limit->amount;
	uint64_t seconds = (uint64_t)((ns + second - 1) / second);
	return seconds > 0 ? seconds : 1;
}

/* draft-7 and X- know only requests in a window. */
static bool is_plain(const struct conf_limit *limit)
{
	return limit->unit == CONF_UNIT_REQUESTS && limit->algorithm != CONF_LIMIT_CONCURRENCY;
}

static const struct slice policy_field = SLICE("RateLimit-Policy");
static const struct slice state_field = SLICE("RateLimit");

static struct slice policy_of(const struct limit_texts *text)
{
	return (struct slice){text->draft_11, text->draft_11_len};
}

static struct slice state_of(const struct limit_texts *text)
{
	return (struct slice){text->name, text->name_len + strlen(";r=")};
}

static void put_sf_integer(struct http_out *out, uint64_t number)
{
	http_out_number(out, number < SF_INTEGER_MAX ? number : SF_INTEGER_MAX);
}

static void make_texts(const struct conf_limit *limit, struct limit_texts *texts)
{
	struct http_out out = http_out_over(texts->name, sizeof(texts->name));

	http_out_sf_string(&out, slice_of(limit->name));
	texts->name_len = (uint16_t)(out.at - texts->name);
	http_out_slice(&out, SLICE(";r="));
	texts->window_s = limit->algorithm == CONF_LIMIT_CONCURRENCY ? 0 : window_s(limit);

	out = http_out_over(texts->draft_11, sizeof(texts->draft_11));
	http_out_slice(&out, (struct slice){texts->name, texts->name_len});
	http_out_slice(&out, SLICE(";q="));
	put_sf_integer(&out, quota_of(limit));
	if (limit->algorithm == CONF_LIMIT_CONCURRENCY) {
		http_out_slice(&out, SLICE(";qu=\"concurrent-requests\""));
	} else {
		if (limit->unit == CONF_UNIT_BYTES)
			http_out_slice(&out, SLICE(";qu=\"content-bytes\""));
		http_out_slice(&out, SLICE(";w="));
		put_sf_integer(&out, window_s(limit));
	}
	texts->draft_11_len = (uint16_t)(out.at - texts->draft_11);

	struct field_sink alone = text_head_over(http_out_over(texts->alone, sizeof(texts->alone)));
	field_put(&alone, policy_field, policy_of(texts));
	field_begin(&alone, state_field);
	http_out_slice(&alone.out, state_of(texts));
	texts->alone_len = (uint16_t)(alone.out.at - texts->alone);

	if (!is_plain(limit))
		return;
	out = http_out_over(texts->draft_7, sizeof(texts->draft_7));
	http_out_number(&out, quota_of(limit));
	http_out_slice(&out, SLICE(";w="));
	http_out_number(&out, window_s(limit));
	texts->draft_7_len = (uint16_t)(out.at - texts->draft_7);
}

struct ratelimit_texts *ratelimit_texts_new(const struct conf *conf)
{
	struct ratelimit_texts *texts = calloc(1, sizeof(*texts));

	if (!texts)
		return NULL;
	texts->limits = calloc(conf->limit_count + 1, sizeof(*texts->limits));
	if (!texts->limits) {
		free(texts);
		return NULL;
	}
	for (size_t i = 0; i < conf->limit_count; i++)
		make_texts(&conf->limits[i], &texts->limits[i]);
	return texts;
}

void ratelimit_texts_free(struct ratelimit_texts *texts)
{
	if (!texts)
		return;
	free(texts->limits);
	free(texts);
}

/* ---- writing -------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t seconds_up(uint64_t ms)
{
	return ms / 1000 + (ms % 1000 != 0);
}

/* RateLimit's t: of a violated limit the exact wait, as in Retry-After, even where a slot or a ban
 * makes it longer than the window; else at most the window, as for a cost that never fits. */
static uint64_t reset_s(const struct gate_limit *limit, uint64_t window)
{
	uint64_t seconds = seconds_up(limit->reset_ms);

	return limit->violated && limit->reset_ms != UINT64_MAX ? seconds : least(seconds, window);
}

const struct gate_limit *ratelimit_tightest(const struct gate_verdict *verdict)
{
	const struct gate_limit *least = NULL;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *limit = &verdict->limits[i];
		if (limit->limit->shadow || !is_plain(limit->limit))
			continue;
		if (!least || limit->violated > least->violated ||
			(limit->violated == least->violated &&
				(limit->remaining < least->remaining ||
					(limit->remaining == least->remaining &&
						limit->reset_ms > least->reset_ms))))
			least = limit;
	}
	return least;
}

uint64_t ratelimit_remaining(const struct gate_limit *limit)
{
	return limit->violated ? 0 : limit->remaining;
}

/* With gcra each byte drains in its turn; the others are full again at the end of a window that
 * begins now, or of the calendar's. */
static uint64_t reset_behind_ms(const struct gate_limit *report, uint64_t bytes)
{
	const struct conf_limit *limit = report->limit;

	if (limit->algorithm == CONF_LIMIT_CALENDAR)
		return report->reset_ms;
	if (limit->algorithm == CONF_LIMIT_RING)
		return limit->per_ns / 1000000;
	return report->reset_ms + (uint64_t)((wide)bytes * limit->per_ns / limit->amount / 1000000);
}

void ratelimit_foresee_bytes(struct gate_verdict *verdict, uint64_t bytes)
{
	for (unsigned i = 0; i < verdict->limit_count; i++) {
		struct gate_limit *report = &verdict->limits[i];
		if (report->limit->unit != CONF_UNIT_BYTES || report->violated || bytes == 0)
			continue;
		report->remaining -= least(report->remaining, bytes);
		report->reset_ms = reset_behind_ms(report, bytes);
	}
}

/* Begins the field, or its next element. */
static void put_start(struct field_sink *sink, struct slice field, unsigned elements)
{
	if (elements == 0)
		field_begin(sink, field);
	else
		http_out_slice(&sink->out, SLICE(", "));
}

static void put_policies(struct field_sink *sink, const struct ratelimit_texts *texts,
	const struct gate_verdict *verdict, bool draft_7)
{
	unsigned elements = 0;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct conf_limit *limit = verdict->limits[i].limit;
		const struct limit_texts *text = &texts->limits[limit->index];
		if (limit->shadow || (draft_7 && text->draft_7_len == 0))
			continue;
		put_start(sink, policy_field, elements++);
		http_out_slice(
			&sink->out, draft_7 ? (struct slice){text->draft_7, text->draft_7_len}
					    : policy_of(text));
	}
	if (elements > 0)
		field_end(sink);
}

/* What is left and until when, behind the name and `;r=`. */
static void put_state(
	struct http_out *out, const struct limit_texts *text, const struct gate_limit *limit)
{
	put_sf_integer(out, ratelimit_remaining(limit));
	if (text->window_s > 0) {
		http_out_slice(out, SLICE(";t="));
		put_sf_integer(out, reset_s(limit, text->window_s));
	}
}

static void put_draft_11(struct field_sink *sink, const struct ratelimit_texts *texts,
	const struct gate_verdict *verdict)
{
	unsigned elements = 0;

	if (verdict->limit_count == 1 && !verdict->limits[0].limit->shadow && sink->major == 1) {
		const struct limit_texts *text = &texts->limits[verdict->limits[0].limit->index];
		http_out_slice(&sink->out, (struct slice){text->alone, text->alone_len});
		put_state(&sink->out, text, &verdict->limits[0]);
		field_end(sink);
		return;
	}
	put_policies(sink, texts, verdict, false);
	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *limit = &verdict->limits[i];
		const struct limit_texts *text = &texts->limits[limit->limit->index];
		if (limit->limit->shadow)
			continue;
		put_start(sink, state_field, elements++);
		http_out_slice(&sink->out, state_of(text));
		put_state(&sink->out, text, limit);
	}
	if (elements > 0)
		field_end(sink);
}

/* What the dialects of single values report. */
struct single {
	uint64_t quota, remaining, reset_ms;
};

/* False: nothing is to be reported. A request that was refused by a limit in bytes or in flight,
 * which these dialects cannot express, is reported as nothing left for now. */
static bool single_values(const struct gate_verdict *verdict, struct single *single)
{
	const struct gate_limit *limit = ratelimit_tightest(verdict);

	if (!limit)
		return false;
	*single = (struct single){limit->quota, ratelimit_remaining(limit), limit->reset_ms};
	/* The wait of a refused request is exact, even where a slot or a ban makes it longer than
	 * the window: many clients of these dialects read nothing else. */
	if (!limit->violated || limit->reset_ms == UINT64_MAX)
		single->reset_ms = least(limit->reset_ms, window_s(limit->limit) * 1000);
	if (verdict->outcome == GATE_REFUSE && !limit->violated) {
		single->remaining = 0;
		if (verdict->retry_after_ms != UINT64_MAX)
			single->reset_ms = verdict->retry_after_ms;
	}
	return true;
}

static void put_draft_7(struct field_sink *sink, const struct ratelimit_texts *texts,
	const struct gate_verdict *verdict)
{
	struct http_out *out = &sink->out;
	struct single single;

	if (!single_values(verdict, &single))
		return;
	put_policies(sink, texts, verdict, true);
	field_begin(sink, state_field);
	http_out_slice(out, SLICE("limit="));
	http_out_number(out, single.quota);
	http_out_slice(out, SLICE(", remaining="));
	http_out_number(out, single.remaining);
	http_out_slice(out, SLICE(", reset="));
	http_out_number(out, seconds_up(single.reset_ms));
	field_end(sink);
}

/* `since_ms` is added to the reset: 0 for seconds from now, the wall clock for a unix time. */
static void put_x(struct field_sink *sink, const struct gate_verdict *verdict, uint64_t since_ms)
{
	struct single single;

	if (!single_values(verdict, &single))
		return;
	field_put_number(sink, SLICE("X-RateLimit-Limit"), single.quota);
	field_put_number(sink, SLICE("X-RateLimit-Remaining"), single.remaining);
	field_put_number(sink, SLICE("X-RateLimit-Reset"), seconds_up(since_ms + single.reset_ms));
}

void ratelimit_put(struct field_sink *sink, const struct ratelimit_texts *texts,
	enum conf_ratelimit_headers dialect, const struct gate_verdict *verdict, uint64_t wall_ms)
{
	switch (dialect) {
	case CONF_RATELIMIT_DRAFT_11:
		put_draft_11(sink, texts, verdict);
		break;
	case CONF_RATELIMIT_DRAFT_7:
		put_draft_7(sink, texts, verdict);
		break;
	case CONF_RATELIMIT_X:
		put_x(sink, verdict, 0);
		break;
	case CONF_RATELIMIT_X_UNIX:
		put_x(sink, verdict, wall_ms);
		break;
	case CONF_RATELIMIT_OFF:
	case CONF_RATELIMIT_INHERIT:
	default:
		break;
	}
}

unsigned ratelimit_violated(
	const struct gate_verdict *verdict, struct slice names[static GATE_LIMITS_MAX])
{
	unsigned count = 0;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *limit = &verdict->limits[i];
		if (limit->violated && !limit->limit->shadow)
			names[count++] = slice_of(limit->limit->name);
	}
	return count;
}

/* ---- ratelimit merge ------------------------------------------------------------------------ */

/* Fields that the upstream sent itself: passed on, joined with ours, or made more restrictive. */

static bool parse_number(struct slice text, uint64_t *number)
{
	text = slice_trim(text);
	if (text.len == 0 || text.len > 18)
		return false;
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		*number = *number * 10 + (uint64_t)(text.at[i] - '0');
	}
	return true;
}

static bool parse_parameter(struct slice text, struct slice name, uint64_t *number)
{
	return text.len > name.len && slice_equal((struct slice){text.at, name.len}, name) &&
	       parse_number((struct slice){text.at + name.len, text.len - name.len}, number);
}

/* What one member of a RateLimit field says is left, in either form:
 * `remaining=7` (draft 7) or `"name";r=7;t=3` (draft 8 and later). */
static bool member_remaining(struct slice member, uint64_t *remaining)
{
	bool in_list = member.at[0] == '"';
	struct slice piece;

	while (http_sf_next(&member, ';', &piece)) {
		if (parse_parameter(piece, in_list ? SLICE("r=") : SLICE("remaining="), remaining))
			return true;
	}
	return false;
}

/* The upstream's own fields of a kind. */
struct theirs {
	bool sent, known; /* known: `remaining` could be read */
	bool in_list;     /* as a list of strings, each with its parameters (draft 8 and later) */
	uint64_t remaining;
};

static void read_value(struct slice value, struct theirs *theirs)
{
	struct slice member;
	uint64_t remaining;

	theirs->in_list = !theirs->sent || theirs->in_list;
	theirs->sent = true;
	while (http_sf_next(&value, ',', &member)) {
		theirs->in_list = theirs->in_list && member.len > 0 && member.at[0] == '"';
		if (member.len == 0 || !member_remaining(member, &remaining))
			continue;
		if (!theirs->known || remaining < theirs->remaining)
			theirs->remaining = remaining;
		theirs->known = true;
	}
}

static bool is_x(enum conf_ratelimit_headers dialect)
{
	return dialect == CONF_RATELIMIT_X || dialect == CONF_RATELIMIT_X_UNIX;
}

static struct theirs read_theirs(
	enum conf_ratelimit_headers dialect, const struct http_head *response)
{
	struct theirs theirs = {0};

	if (is_x(dialect)) {
		struct slice value = http_head_find_name(response, SLICE("x-ratelimit-remaining"));
		theirs.sent = value.at != NULL;
		theirs.known = theirs.sent && parse_number(value, &theirs.remaining);
		return theirs;
	}
	for (unsigned i = 0; i < response->field_count; i++) {
		if (response->fields[i].id == HTTP_FIELD_RATELIMIT)
			read_value(http_field_value(response, &response->fields[i]), &theirs);
	}
	return theirs;
}

enum ratelimit_merge ratelimit_merge(enum conf_ratelimit_headers dialect,
	const struct gate_verdict *verdict, const struct http_head *response)
{
	if (!response || dialect == CONF_RATELIMIT_OFF || dialect == CONF_RATELIMIT_INHERIT)
		return RATELIMIT_BOTH;
	if (!is_x(dialect) && !http_head_has(response, HTTP_FIELD_RATELIMIT))
		return RATELIMIT_BOTH;
	const struct theirs theirs = read_theirs(dialect, response);
	if (!theirs.sent || (dialect == CONF_RATELIMIT_DRAFT_11 && theirs.in_list))
		return RATELIMIT_BOTH;
	const struct gate_limit *ours = ratelimit_tightest(verdict);
	/* Theirs can't be read by anybody. */
	if (!theirs.known && (ours || dialect == CONF_RATELIMIT_DRAFT_11))
		return RATELIMIT_OURS;
	if (!ours)
		return RATELIMIT_THEIRS;
	return theirs.remaining <= ratelimit_remaining(ours) ? RATELIMIT_THEIRS : RATELIMIT_OURS;
}

bool ratelimit_is_replaced(
	enum conf_ratelimit_headers dialect, enum http_field_id id, struct slice name)
{
	static const struct slice x_names[] = {{"x-ratelimit-limit", 17},
		{"x-ratelimit-remaining", 21}, {"x-ratelimit-reset", 17}};

	if (dialect == CONF_RATELIMIT_DRAFT_7 || dialect == CONF_RATELIMIT_DRAFT_11)
		return id == HTTP_FIELD_RATELIMIT || id == HTTP_FIELD_RATELIMIT_POLICY;
	if (!is_x(dialect) || id > HTTP_FIELD_UNDERSCORED)
		return false;
	for (size_t i = 0; i < sizeof(x_names) / sizeof(x_names[0]); i++) {
		if (slice_equal_nocase(name, x_names[i]))
			return true;
	}
	return false;
}
