/* Fields that the upstream sent itself: passed on, joined with ours, or made more restrictive. */
#include "gate/ratelimit_fields.h"

#include "http/structured.h"

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
